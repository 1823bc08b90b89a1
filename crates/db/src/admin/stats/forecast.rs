//! Predictions as figures.

use super::{Figure, Nature, Unit};
use crate::advise::forecast::{Comparison, Forecast, Quantity};

fn unit(of: Quantity) -> Unit {
    match of {
        Quantity::MemoryPerKey => Unit::Bytes,
        Quantity::ProcessorTime => Unit::Nanoseconds,
        _ => Unit::Ratio,
    }
}

impl Forecast {
    /// Returns the current forecast as figures named `forecast.`, the quantity, and `p10`,
    /// `predicted`, `p90` or `measured`.
    #[must_use]
    pub fn list(&self) -> Vec<Figure> {
        let figure = |row: &Comparison, name: &str, value: f64| Figure {
            name: format!("forecast.{}.{name}", row.what.name()),
            unit: unit(row.what),
            nature: Nature::Gauge,
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
