//! A4 and A13: LevelDB's write amplification by number of keys, in total and by level.

use super::{POPULARITIES, SeriesBuilder, place, popularity, simulate};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use alluvium_model::lsm::{ItemStage, LevelDb};
use anyhow::Result;

const UNIFORM: &str = "uniform";
const SKEWED: &str = "Zipf 0.99";
const MOST: &str = "the most that a level writes";

/// The sizes in the figure.
const SIZES: [u64; 7] = [
    1_000_000,
    3_300_000,
    10_000_000,
    33_000_000,
    100_000_000,
    330_000_000,
    1_000_000_000,
];

pub(super) const A4: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A4",
    ours: &[
        ("write amplification, uniform keys", |measured| {
            measured.series_with_prefix(UNIFORM)
        }),
        ("write amplification, Zipf 0.99", |measured| {
            measured.series_with_prefix(SKEWED)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 1_000_000,
        full: 10_000_000,
        most: super::MOST_SIMULATED,
        measure: over_keys,
    },
};

/// The model computes all sizes of the figure. The simulation uses `keys`, a third and a tenth of
/// it.
fn over_keys(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    for (name, skew) in POPULARITIES {
        for size in SIZES {
            let costs = LevelDb::standard(size as f64)?.estimate(&popularity(size, skew)?)?;
            sheet.put(name, "model", place(size as f64), costs.total());
            sheet.put(name, "worst case", place(size as f64), costs.worst_case);
        }
        for part in [10, 3, 1] {
            let size = (keys / part).max(super::FEWEST);
            let (shape, popularity) = (LevelDb::standard(size as f64)?, popularity(size, skew)?);
            sheet.put(
                name,
                "simulation",
                place(size as f64),
                simulate(&shape, &popularity)?,
            );
        }
    }
    Ok(sheet.measured())
}

pub(super) const A13: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A13",
    ours: &[("the most that a level writes", |measured| {
        measured.series_with_prefix(MOST)
    })],
    work: ExperimentMethod::Here {
        quick: 1_000_000_000,
        full: 1_000_000_000,
        most: 10_000_000_000,
        measure: of_levels,
    },
};

fn of_levels(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    for (name, skew) in POPULARITIES {
        for size in SIZES.into_iter().filter(|size| *size < keys).chain([keys]) {
            let shape = LevelDb::standard(size as f64)?;
            let costs = shape.estimate(&popularity(size, skew)?)?;
            let levels = (1..=shape.levels()).map(|level| costs.stage(ItemStage::Level(level)));
            sheet.put(MOST, name, place(size as f64), levels.fold(0.0, f64::max));
        }
    }
    Ok(sheet.measured())
}
