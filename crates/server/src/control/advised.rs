//! Applies the store's tuning advice while the store is open.

use super::request::{Error, FailureKind, Result};
use alluvium::{Db, Trial};
use serde_json::{Value, json};

/// Changes the share of cache memory that is used for records, either to `record_permille`
/// thousandths or, if absent, to the share with the lowest predicted cost. Returns the change, or
/// null if the advice is to change nothing.
pub(super) fn apply(db: &Db, record_permille: Option<u32>) -> Result<Value> {
    let advice = match record_permille {
        None => match db.advise()? {
            Some(advice) => advice,
            None => return Ok(Value::Null),
        },
        Some(permille) => {
            let advice = db.advice_for(f64::from(permille) / 1000.0)?;
            advice.ok_or_else(|| {
                let text = "the model cannot predict the costs of this store: it has served no request \
                            since it was opened, or its structure has no adjustable share of memory for \
                            records";
                Error::told(FailureKind::Failed, text)
            })?
        }
    };
    db.apply_advice(&advice)?;
    Ok(db.trials().last().map_or(Value::Null, trial))
}

/// Returns the most recent changes made on advice, oldest first.
pub(super) fn trials(db: &Db) -> Value {
    db.trials().iter().map(trial).collect::<Vec<_>>().into()
}

fn trial(of: &Trial) -> Value {
    let advice = &of.advice;
    json!({
        "record_share": advice.record_share,
        "record_share_before": of.share_before,
        "p10": advice.p10,
        "predicted": advice.predicted,
        "p90": advice.p90,
        "began_ms": of.began_ms,
        "ended_ms": of.ended_ms,
        "reads_before": of.before,
        "reads_measured": of.measured,
        "outcome": of.outcome.name(),
        "is_rolled_back": of.outcome.is_rolled_back(),
        "is_watched": of.outcome == alluvium::TrialOutcome::Watched,
    })
}
