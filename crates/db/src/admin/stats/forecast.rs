//! Predicted costs as figures of the statistics.

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
    /// Returns the current forecast as figures named `forecast.`, the quantity, and `p10`,
    /// `predicted`, `p90` or `measured`.
    #[must_use]
    pub fn list(&self) -> Vec<StatsMetric> {
        let figure = |row: &CostComparison, name: &str, value: f64| StatsMetric {
            name: format!("forecast.{}.{name}", row.what.name()),
            unit: unit(row.what),
            nature: StatsMetricKind::Gauge,
            help: match name {
                "measured" => "What was measured of it.",
                "predicted" => "What the model predicts of it.",
                "p10" => "In one case of ten it is less than this.",
                _ => "In one case of ten it is more than this.",
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
