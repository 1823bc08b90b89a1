//! A3 and A12: the writes that LevelDB and SILT save with skewed keys.

use super::{SeriesBuilder, place, popularity, simulate};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use alluvium_model::lsm::LevelDb;
use alluvium_model::silt::{self, SiltModel};
use anyhow::Result;

const WRITES: &str = "write amplification";
const MEMORY: &str = "memory";

pub(super) const A3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A3",
    ours: &[("write amplification", |measured| {
        measured.series_with_prefix(WRITES)
    })],
    work: ExperimentMethod::Here {
        quick: 300_000,
        full: 10_000_000,
        most: super::MOST_SIMULATED,
        measure: over_skew,
    },
};

fn over_skew(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    let shape = LevelDb::standard(keys as f64)?;
    let large = LevelDb::standard(1e8)?;
    for skew in [0.0, 0.2, 0.4, 0.6, 0.8, 0.99, 1.2, 1.4] {
        let of_many = large.estimate(&popularity(100_000_000, skew)?)?;
        sheet.put(WRITES, "model, 100 million keys", place(skew), of_many.total());
        sheet.put(
            WRITES,
            "worst case, 100 million keys",
            place(skew),
            of_many.worst_case,
        );
        let popularity = popularity(keys, skew)?;
        sheet.put(WRITES, "model", place(skew), shape.estimate(&popularity)?.total());
        sheet.put(WRITES, "simulation", place(skew), simulate(&shape, &popularity)?);
    }
    Ok(sheet.measured())
}

pub(super) const A12: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A12",
    ours: &[
        ("write amplification", |measured| {
            measured.series_with_prefix(WRITES)
        }),
        ("memory", |measured| measured.series_with_prefix(MEMORY)),
    ],
    work: ExperimentMethod::Here {
        quick: 100_000_000,
        full: 100_000_000,
        most: 10_000_000_000,
        measure: of_silt,
    },
};

const UNIFORM: &str = "uniform, 62";
const SKEWED: &str = "Zipf 0.99, 62";
const SOONER: &str = "Zipf 0.99, 25";

fn of_silt(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    // The ratio of the table to an instance is the document's.
    let instance = keys / 4;
    let slots = f64::from(1 << 17) * instance as f64 / 25e6;
    for (case, skew, stores) in [(UNIFORM, 0.0, 62.0), (SKEWED, 0.99, 62.0), (SOONER, 0.99, 25.0)] {
        let writes = silt::write_amplification(&popularity(instance, skew)?, slots, 0.93, stores)?;
        let costs = SiltModel {
            merged: stores * 0.93 * f64::from(1 << 17),
            ..SiltModel::example()
        }
        .costs()?;
        sheet.put(WRITES, "Algorithm 5", name(case), writes);
        sheet.put(MEMORY, "formula 2.7", name(case), costs.memory_bytes);
    }
    Ok(sheet.measured())
}
