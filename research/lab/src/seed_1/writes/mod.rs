//! A1 to A13: write amplification of stores that merge tables, by the model of chapter 4 and by a
//! simulation of keys; A1 measures LevelDB itself.
//!
//! Names are those of the figures and tables of sections 4.2 to 4.6 in their order.

mod buffer;
mod optimum;
mod policy;
mod rate;
mod size;
mod skew;
mod stages;
mod unique;

use crate::entry::{AxisPosition, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet};
use alluvium_model::Popularity;
use alluvium_model::lsm::LevelDb;
use anyhow::Result;
use research_models::leveldb::CompactionRules;

/// All procedures of this chapter.
pub(super) const PROCEDURES: [&MeasurementProcedure; 13] = [
    &rate::A1,
    &unique::A2,
    &skew::A3,
    &size::A4,
    &buffer::A5,
    &stages::A6,
    &optimum::A7,
    &optimum::A8,
    &buffer::A9,
    &optimum::A10,
    &policy::A11,
    &skew::A12,
    &size::A13,
];

/// The two distributions in most figures, with their Zipf exponents.
const POPULARITIES: [(&str, f64); 2] = [("uniform", 0.0), ("Zipf 0.99", 0.99)];

/// Minimum number of keys, which exceeds LevelDB's first level. Smaller requests are raised to it.
const FEWEST: u64 = 20_000;

/// Maximum number of simulated keys, unless an experiment specifies another.
const MOST_SIMULATED: u64 = 100_000_000;

/// Computed values by line. The name of a line is the measure, a comma, and the series.
#[derive(Default)]
struct SeriesBuilder {
    lines: Vec<FigureSeries>,
}

impl SeriesBuilder {
    fn put(&mut self, what: &str, whose: &str, at: AxisPosition, value: f64) {
        let name = format!("{what}, {whose}");
        let spot = FigurePoint { at, value };
        match self.lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(spot),
            None => self.lines.push(FigureSeries {
                name,
                points: vec![spot],
            }),
        }
    }

    fn measured(self) -> MeasurementSet {
        MeasurementSet {
            counts: self.lines,
            ..MeasurementSet::default()
        }
    }
}

/// Returns a popularity distribution over `keys` keys.
fn popularity(keys: u64, skew: f64) -> Result<Popularity> {
    Ok(Popularity::zipf(keys, skew)?)
}

/// Simulates a shape. Returns the writes per insert.
fn simulate(shape: &LevelDb, popularity: &Popularity) -> Result<f64> {
    Ok(CompactionRules::new(shape.clone()).run(popularity, 1)?.total())
}

/// Returns a place at a number of keys or requests.
fn place(number: f64) -> AxisPosition {
    AxisPosition::Number(number)
}
