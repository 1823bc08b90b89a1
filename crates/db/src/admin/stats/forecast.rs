//! Converts predicted and measured costs to metrics.

use super::{StatsMetric, StatsMetricKind, StatsMetricUnit};
use crate::advise::forecast::{CostComparison, CostQuantity, Forecast};

fn unit(of: CostQuantity) -> StatsMetricUnit {
    match of {
        CostQuantity::MemoryPerKey => StatsMetricUnit::Bytes,
        CostQuantity::ProcessorTime => StatsMetricUnit::Nanoseconds,
        _ => StatsMetricUnit::Ratio,
    }
}

impl Forecast {
    /// Returns the current forecast as metrics. Each name is `forecast.`, the predicted quantity,
    /// and one of `p10`, `predicted`, `p90` or `measured`.
    #[must_use]
    pub fn list(&self) -> Vec<StatsMetric> {
        let figure = |row: &CostComparison, name: &str, value: f64| StatsMetric {
            name: format!("forecast.{}.{name}", row.what.name()),
            unit: unit(row.what),
            nature: StatsMetricKind::Gauge,
            help: match name {
                "measured" => "Measured value.",
                "predicted" => "Value that the model predicts.",
                "p10" => "10th percentile of the prediction: one case in ten is lower.",
                _ => "90th percentile of the prediction: one case in ten is higher.",
            },
            value,
        };
        let mut figures = Vec::new();
        for row in &self.now {
            figures.push(figure(row, "p10", row.p10));
            figures.push(figure(row, "predicted", row.predicted));
            figures.push(figure(row, "p90", row.p90));
            figures.extend(row.measured.map(|measured| figure(row, "measured", measured)));
        }
        figures
    }
}
