//! A6: the writes of each LevelDB stage, with its default level sizes and with optimal ones.

use super::{Sheet, popularity};
use crate::entry::{Procedure, Work};
use crate::measured::{Measured, name};
use alluvium_model::lsm::{LevelDb, Stage};
use anyhow::Result;
use research_models::leveldb::Rules;

const STANDARD: &str = "standard";
const BEST: &str = "best";
const NAMES: [&str; 8] = [
    "log", "memtable", "level 1", "level 2", "level 3", "level 4", "level 5", "total",
];

pub(super) const A6: Procedure = Procedure {
    id: "seed-1/A6",
    ours: &[
        ("LevelDB's sizes", |measured| measured.under(STANDARD)),
        ("the best sizes", |measured| measured.under(BEST)),
    ],
    work: Work::Here {
        quick: 300_000,
        full: 10_000_000,
        most: super::MOST_SIMULATED,
        measure,
    },
};

fn measure(keys: u64) -> Result<Measured> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = Sheet::default();
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
                true => Rules::new(shape).run(&popularity, 1)?.stages,
                false => shape.estimate(&popularity)?.stages,
            };
            put(&mut sheet, what, whose, &stages);
        }
    }
    Ok(sheet.measured())
}

fn put(sheet: &mut Sheet, what: &str, whose: &str, stages: &[(Stage, f64)]) {
    let mut total = 0.0;
    for (at, (_, writes)) in NAMES.into_iter().zip(stages) {
        sheet.put(what, whose, name(at), *writes);
        total += writes;
    }
    sheet.put(what, whose, name("total"), total);
}
