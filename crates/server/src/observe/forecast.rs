//! The cost models' forecasts for the store's current workload. They are cached, because computing
//! them takes time.

use alluvium::{CostComparison, Forecast};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a forecast is reused. Web pages and metrics scrapes run the models at most once in this
/// time.
const KEPT: Duration = Duration::from_secs(30);

/// The most recent forecast, and when it was computed.
#[derive(Debug, Default)]
pub(crate) struct ForecastCache(Mutex<Option<(Instant, Arc<Forecast>)>>);

impl ForecastCache {
    /// Returns the cached forecast, or computes a new one if it is too old. Returns `None`, at
    /// little cost, if the store has no cost model.
    pub(crate) fn of(&self, db: &alluvium::Db) -> Option<Arc<Forecast>> {
        let mut kept = self.0.lock();
        match &*kept {
            Some((at, answer)) if at.elapsed() < KEPT => Some(Arc::clone(answer)),
            _ => {
                // A closed store's forecast fails. Ignore the error, because every read of the
                // store reports it, too.
                let answer = db.forecast().ok().flatten().map(Arc::new)?;
                *kept = Some((Instant::now(), Arc::clone(&answer)));
                Some(answer)
            }
        }
    }
}

/// Formats a forecast as JSON.
pub(crate) fn json_of(forecast: &Forecast) -> Value {
    let rows = |rows: &[CostComparison]| rows.iter().map(row).collect::<Vec<_>>();
    let past = forecast
        .past
        .iter()
        .map(|hour| json!({ "began_ms": hour.began_ms, "ended_ms": hour.ended_ms, "was": rows(&hour.was) }));
    json!({
        "keyspace": forecast.keyspace,
        "structure": forecast.structure,
        "keys": forecast.keys,
        "skew": forecast.skew,
        "now": rows(&forecast.now),
        "past": past.collect::<Vec<_>>(),
    })
}

fn row(row: &CostComparison) -> Value {
    json!({
        "what": row.what.name(),
        "p10": row.p10,
        "predicted": row.predicted,
        "p90": row.p90,
        "measured": row.measured,
        "within_band": row.holds(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_given_again_for_a_while() {
        let place = tempfile::tempdir().unwrap();
        let db = alluvium::Db::open(place.path().join("store")).unwrap();
        let forecasts = ForecastCache::default();
        assert!(forecasts.of(&db).is_none(), "nothing was asked of the store");
        let keyspace = db.keyspace("numbers").unwrap();
        for number in 0..2000u32 {
            keyspace.put(number.to_be_bytes(), "value").unwrap();
        }
        let answer = forecasts.of(&db).unwrap();
        let again = forecasts.of(&db).unwrap();
        assert!(Arc::ptr_eq(&answer, &again), "it is not computed again");
        let json = json_of(&answer);
        assert_eq!(json["keyspace"], "numbers");
        assert_eq!(
            json["now"].as_array().unwrap().len(),
            alluvium::CostQuantity::ALL.len()
        );
        assert_eq!(json["now"][1]["what"], "reads_hit");
        assert!(json["now"][1]["measured"].is_null() && json["now"][1]["within_band"].is_null());
    }
}
