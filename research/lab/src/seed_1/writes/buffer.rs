//! A5 and A9: large write buffers, with LevelDB's level sizes and with optimal ones.

use super::{POPULARITIES, SeriesBuilder, place, popularity, simulate};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use alluvium_model::lsm::LevelDb;
use anyhow::Result;

const UNIFORM: &str = "uniform";
const SKEWED: &str = "Zipf 0.99";
const SAVED: &str = "saved";

/// Fractions of the keys that fit in the buffer. The smallest is LevelDB's default with 10 million
/// keys.
const PARTS: [f64; 6] = [0.000_42, 0.001, 0.003, 0.01, 0.03, 0.1];

pub(super) const A5: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A5",
    ours: &[
        ("write amplification, uniform keys", |measured| {
            measured.series_with_prefix(UNIFORM)
        }),
        ("write amplification, Zipf 0.99", |measured| {
            measured.series_with_prefix(SKEWED)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 300_000,
        full: 10_000_000,
        most: super::MOST_SIMULATED,
        measure: over_buffer,
    },
};

/// Returns LevelDB's shape with a buffer of a given size. Levels that a single merge of the buffer
/// would fill are removed.
fn shape(keys: u64, part: f64) -> Result<LevelDb> {
    let mut shape = LevelDb::standard(keys as f64)?;
    shape.log = (keys as f64 * part).max(1.0);
    let merged = shape.log * shape.tables;
    shape.sizes.retain(|size| *size > merged);
    Ok(shape)
}

fn over_buffer(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    for (name, skew) in POPULARITIES {
        let popularity = popularity(keys, skew)?;
        for part in PARTS {
            let shape = shape(keys, part)?;
            sheet.put(name, "model", place(part), shape.estimate(&popularity)?.total());
            sheet.put(name, "simulation", place(part), simulate(&shape, &popularity)?);
        }
    }
    Ok(sheet.measured())
}

pub(super) const A9: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A9",
    ours: &[("writes saved by the best sizes", |measured| {
        measured.series_with_prefix(SAVED)
    })],
    work: ExperimentMethod::Here {
        quick: 300_000,
        full: 10_000_000,
        most: super::MOST_SIMULATED,
        measure: of_optimum,
    },
};

fn of_optimum(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    let popularity = popularity(keys, 0.0)?;
    for part in PARTS {
        let standard = LevelDb {
            log: (keys as f64 * part).max(1.0),
            ..LevelDb::standard(keys as f64)?
        };
        if standard.sizes.is_empty() {
            continue;
        }
        let best = standard.optimise(&popularity)?;
        let saved = |before: f64, after: f64| 100.0 * (1.0 - after / before);
        let computed = saved(standard.estimate(&popularity)?.total(), best.costs.total());
        sheet.put(SAVED, "model", place(part), computed);
        let simulated = saved(
            simulate(&standard, &popularity)?,
            simulate(&best.shape, &popularity)?,
        );
        sheet.put(SAVED, "simulation", place(part), simulated);
    }
    Ok(sheet.measured())
}
