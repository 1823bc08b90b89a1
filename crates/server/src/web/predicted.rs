//! The cost model's predictions next to the measured costs, for Prometheus.

use super::families::{MetricType, MetricsText};
use crate::shared::StoreContext;

const HELP: &str = "Costs that the model of the store's structure predicts, with the bounds of their band \
                    (p10, p90), and the costs measured since the store was opened.";

pub(super) fn write(shared: &StoreContext, text: &mut MetricsText) {
    let Some(forecast) = shared.forecasts.of(&shared.store.db) else {
        return;
    };
    text.family("forecast", MetricType::Gauge, HELP);
    for row in &forecast.now {
        let values = [
            ("p10", Some(row.p10)),
            ("predicted", Some(row.predicted)),
            ("p90", Some(row.p90)),
            ("measured", row.measured),
        ];
        for (word, value) in values {
            if let Some(value) = value {
                let labels = format!("quantity=\"{}\",of=\"{word}\"", row.what.name());
                text.labelled("forecast", &labels, value);
            }
        }
    }
}
