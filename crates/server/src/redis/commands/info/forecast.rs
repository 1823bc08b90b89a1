//! INFO's Forecast section: the cost model's predictions next to the measured costs.

use super::line;
use crate::shared::StoreContext;

pub(super) fn forecast(shared: &StoreContext, text: &mut String) {
    let Some(forecast) = shared.forecasts.of(&shared.store.db) else {
        return;
    };
    line(text, "alluvium_forecast_keyspace", &forecast.keyspace);
    line(text, "alluvium_forecast_structure", &forecast.structure);
    for row in &forecast.now {
        let measured = row
            .measured
            .map_or_else(String::new, |found| format!("{found:.3}"));
        let values = format!(
            "p10={:.3},predicted={:.3},p90={:.3},measured={measured}",
            row.p10, row.predicted, row.p90
        );
        line(text, &format!("alluvium_forecast_{}", row.what.name()), values);
    }
}
