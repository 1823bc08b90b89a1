//! A11: which table and which level are compacted first.

use super::{SETTING, SIMULATED, Sheet, popularity};
use crate::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, named};
use crate::measured::{Measured, name};
use alluvium_model::lsm::LevelDb;
use alluvium_model::lsm::simulate::{LevelChoice, Rules, TableChoice};
use anyhow::Result;

const WRITES: &str = "writes";
const SAVED: &str = "saved";

const CURSOR: &str = "cursor, fullest level";
const LARGEST: &str = "largest table, fullest level";
const STARVED: &str = "cursor, level 0 first";
const BOTH: &str = "largest table, level 0 first";

const POLICY: Axis = Axis {
    name: "what is compacted",
    form: Form::Names,
};

pub(super) const A11: Experiment = Experiment {
    id: "seed-1/A11",
    title: "Which table is compacted first",
    shows: "The largest table first writes more than a cursor, which meets tables that have waited as long as any.",
    section: "§4.6.5",
    figure: "Figure 4.17",
    setting: "RocksDB 3.9.1 with and without a patch: the largest table first, or a cursor; up to 10 million keys.",
    differs: &[
        SIMULATED,
        "RocksDB is not run; its two choices are policies of the simulation. Compactions run at once, so that level 0 never starves the others for long.",
        SETTING,
    ],
    measures: &[
        Measure {
            name: "write amplification",
            unit: "items for each insert",
            axis: POLICY,
            published: &[],
            note: "The document has seen more than 70 where level 0 starves the others.",
            ours: |measured| measured.under(WRITES),
        },
        Measure {
            name: "saved by the cursor",
            unit: "%",
            axis: POLICY,
            published: &[Published {
                name: "RocksDB, at most",
                section: "§4.6.5",
                points: &[named(LARGEST, Value::Is(32.2))],
            }],
            note: "",
            ours: |measured| measured.under(SAVED),
        },
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
    let popularity = popularity(keys, 0.0)?;
    let mut least = f64::NAN;
    for (policy, tables, levels) in [
        (CURSOR, TableChoice::Cursor, LevelChoice::Fullest),
        (LARGEST, TableChoice::Largest, LevelChoice::Fullest),
        (STARVED, TableChoice::Cursor, LevelChoice::Level0First),
        (BOTH, TableChoice::Largest, LevelChoice::Level0First),
    ] {
        let rules = Rules {
            tables,
            levels,
            ..Rules::new(LevelDb::standard(keys as f64)?)
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
        let saved = &measured.under(SAVED)[0].points[0];
        assert!(saved.value > 15.0, "{saved:?}");
    }
}
