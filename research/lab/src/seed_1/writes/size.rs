//! A4 and A13: what LevelDB writes over the number of its keys, all of it and level by level.

use super::{KEYS, NO_LEVELDB, POPULARITIES, SETTING, SIMULATED, Sheet, place, popularity, simulate};
use crate::entry::{Experiment, Measure, Published, Value, Work, at};
use crate::measured::Measured;
use alluvium_model::lsm::{LevelDb, Stage};
use anyhow::Result;

const UNIFORM: &str = "uniform";
const SKEWED: &str = "Zipf 0.99";
const MOST: &str = "the most that a level writes";

/// The sizes of the figure.
const SIZES: [u64; 7] = [
    1_000_000,
    3_300_000,
    10_000_000,
    33_000_000,
    100_000_000,
    330_000_000,
    1_000_000_000,
];

pub(super) const A4: Experiment = Experiment {
    id: "seed-1/A4",
    title: "LevelDB's write amplification over the number of keys",
    shows: "The model is within 4 % of what is simulated; worst-case analysis says 1.8 to 3.6 times as much.",
    section: "§4.4.3",
    figure: "Figure 4.10",
    setting: SETTING,
    differs: &[SIMULATED, NO_LEVELDB],
    measures: &[
        Measure {
            name: "write amplification, uniform keys",
            unit: "items for each insert",
            axis: KEYS,
            published: &[Published {
                name: "model",
                section: "§4.4.3",
                points: &[
                    at(1e6, Value::Derived(12.90)),
                    at(1e7, Value::Derived(19.34)),
                    at(1e8, Value::Is(25.82)),
                    at(1e9, Value::Derived(32.33)),
                ],
            }],
            note: "",
            ours: |measured| measured.under(UNIFORM),
        },
        Measure {
            name: "write amplification, Zipf 0.99",
            unit: "items for each insert",
            axis: KEYS,
            published: &[Published {
                name: "model",
                section: "§4.4.3",
                points: &[
                    at(1e6, Value::Derived(6.53)),
                    at(1e7, Value::Derived(9.50)),
                    at(1e8, Value::Derived(12.68)),
                    at(1e9, Value::Derived(16.01)),
                ],
            }],
            note: "",
            ours: |measured| measured.under(SKEWED),
        },
    ],
    work: Work::Here {
        quick: 1_000_000,
        full: 10_000_000,
        most: super::MOST_SIMULATED,
        measure: over_keys,
    },
};

/// The model has all sizes of the figure; the simulation has `keys`, and a third and a tenth.
fn over_keys(keys: u64) -> Result<Measured> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = Sheet::default();
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

pub(super) const A13: Experiment = Experiment {
    id: "seed-1/A13",
    title: "What a level of LevelDB writes",
    shows: "A level writes 4 to 6 times what comes into it, not the 11 to 12 of analyses that leave redundancy out.",
    section: "§4.4.3",
    figure: "in words",
    setting: SETTING,
    differs: &["Computed by the model."],
    measures: &[Measure {
        name: "the most that a level writes",
        unit: "items for each insert",
        axis: KEYS,
        published: &[
            Published {
                name: "document",
                section: "§4.4.3",
                points: &[at(1e8, Value::Between(4.0, 6.0))],
            },
            Published {
                name: "without redundancy",
                section: "§4.4.3",
                points: &[at(1e8, Value::Between(11.0, 12.0))],
            },
        ],
        note: "6.32 for 100 million uniform keys by the document's own Table 4.1.",
        ours: |measured| measured.under(MOST),
    }],
    work: Work::Here {
        quick: 1_000_000_000,
        full: 1_000_000_000,
        most: 10_000_000_000,
        measure: of_levels,
    },
};

fn of_levels(keys: u64) -> Result<Measured> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = Sheet::default();
    for (name, skew) in POPULARITIES {
        for size in SIZES.into_iter().filter(|size| *size < keys).chain([keys]) {
            let shape = LevelDb::standard(size as f64)?;
            let costs = shape.estimate(&popularity(size, skew)?)?;
            let levels = (1..=shape.levels()).map(|level| costs.stage(Stage::Level(level)));
            sheet.put(MOST, name, place(size as f64), levels.fold(0.0, f64::max));
        }
    }
    Ok(sheet.measured())
}
