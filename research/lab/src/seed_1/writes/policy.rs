//! A11: the choice of the table and the level to compact first.

use super::{SeriesBuilder, popularity};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use alluvium_model::lsm::LevelDb;
use anyhow::Result;
use research_models::leveldb::{CompactionRules, LevelChoice, TableChoice};

const WRITES: &str = "writes";
const SAVED: &str = "saved";

const CURSOR: &str = "cursor, fullest level";
const LARGEST: &str = "largest table, fullest level";
const STARVED: &str = "cursor, level 0 first";
const BOTH: &str = "largest table, level 0 first";

pub(super) const A11: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/A11",
    ours: &[
        ("write amplification", |measured| {
            measured.series_with_prefix(WRITES)
        }),
        ("saved by the cursor", |measured| {
            measured.series_with_prefix(SAVED)
        }),
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
    let popularity = popularity(keys, 0.0)?;
    let mut least = f64::NAN;
    for (policy, tables, levels) in [
        (CURSOR, TableChoice::Cursor, LevelChoice::Fullest),
        (LARGEST, TableChoice::Largest, LevelChoice::Fullest),
        (STARVED, TableChoice::Cursor, LevelChoice::Level0First),
        (BOTH, TableChoice::Largest, LevelChoice::Level0First),
    ] {
        let rules = CompactionRules {
            tables,
            levels,
            ..CompactionRules::new(LevelDb::standard(keys as f64)?)
        };
        let writes = rules.run(&popularity, 1)?.total();
        sheet.put(WRITES, "simulation", name(policy), writes);
        match policy {
            CURSOR => least = writes,
            _ => sheet.put(SAVED, "simulation", name(policy), 100.0 * (1.0 - least / writes)),
        }
    }
    Ok(sheet.measured())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_writes_a_fifth_less_than_the_largest_table_first() {
        let measured = measure(300_000).unwrap();
        let saved = &measured.series_with_prefix(SAVED)[0].points[0];
        assert!(saved.value > 15.0, "{saved:?}");
    }
}
