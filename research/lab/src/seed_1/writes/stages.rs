//! A6: the writes of each LevelDB stage, with its default level sizes and with optimal ones.

use super::{SeriesBuilder, popularity};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use alluvium_model::lsm::{ItemStage, LevelDb};
use anyhow::Result;
use research_models::leveldb::CompactionRules;

const STANDARD: &str = "standard";
const BEST: &str = "best";
const NAMES: [&str; 8] = [
    "log", "memtable", "level 1", "level 2", "level 3", "level 4", "level 5", "total",
];

pub(super) const A6: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A6",
    ours: &[
        ("LevelDB's sizes", |measured| {
            measured.series_with_prefix(STANDARD)
        }),
        ("the best sizes", |measured| measured.series_with_prefix(BEST)),
    ],
    work: ExperimentMethod::Here {
        quick: 300_000,
        full: 10_000_000,
        most: super::MOST_SIMULATED,
        measure,
    },
};

fn measure(keys: u64) -> Result<MeasurementSet> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = SeriesBuilder::default();
    for (whose, keys, is_simulated) in [
        ("model", 100_000_000, false),
        ("model of as many keys", keys, false),
        ("simulation", keys, true),
    ] {
        let popularity = popularity(keys, 0.0)?;
        let standard = LevelDb::standard(keys as f64)?;
        let best = standard.optimise(&popularity)?.shape;
        for (what, shape) in [(STANDARD, standard), (BEST, best)] {
            let stages = match is_simulated {
                true => CompactionRules::new(shape).run(&popularity, 1)?.stages,
                false => shape.estimate(&popularity)?.stages,
            };
            put(&mut sheet, what, whose, &stages);
        }
    }
    Ok(sheet.measured())
}

fn put(sheet: &mut SeriesBuilder, what: &str, whose: &str, stages: &[(ItemStage, f64)]) {
    let mut total = 0.0;
    for (at, (_, writes)) in NAMES.into_iter().zip(stages) {
        sheet.put(what, whose, name(at), *writes);
        total += writes;
    }
    sheet.put(what, whose, name("total"), total);
}
