//! A6: what each stage of LevelDB writes, with its own sizes and with the best ones.

use super::{SETTING, SIMULATED, Sheet, popularity};
use crate::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, named};
use crate::measured::{Measured, name};
use alluvium_model::lsm::simulate::Rules;
use alluvium_model::lsm::{LevelDb, Stage};
use anyhow::Result;

const STANDARD: &str = "standard";
const BEST: &str = "best";
const NAMES: [&str; 8] = [
    "log", "memtable", "level 1", "level 2", "level 3", "level 4", "level 5", "total",
];

const STAGES: Axis = Axis {
    name: "stage",
    form: Form::Names,
};

pub(super) const A6: Experiment = Experiment {
    id: "seed-1/A6",
    title: "What each stage of LevelDB writes",
    shows: "The best sizes make the first level larger, so that the others write less.",
    section: "§4.6.2",
    figure: "Table 4.1",
    setting: SETTING,
    differs: &[SIMULATED],
    measures: &[
        Measure {
            name: "LevelDB's sizes",
            unit: "items for each insert",
            axis: STAGES,
            published: &[
                Published {
                    name: "model",
                    section: "§4.6.2",
                    points: &[
                        named("log", Value::Is(1.00)),
                        named("memtable", Value::Is(1.00)),
                        named("level 1", Value::Is(1.62)),
                        named("level 2", Value::Is(4.77)),
                        named("level 3", Value::Is(6.22)),
                        named("level 4", Value::Is(6.32)),
                        named("level 5", Value::Is(4.89)),
                        named("total", Value::Is(25.82)),
                    ],
                },
                Published {
                    name: "simulation",
                    section: "§4.6.2",
                    points: &[
                        named("level 1", Value::Is(1.60)),
                        named("level 2", Value::Is(4.38)),
                        named("level 3", Value::Is(6.04)),
                        named("level 4", Value::Is(6.09)),
                        named("level 5", Value::Is(5.20)),
                        named("total", Value::Is(25.31)),
                    ],
                },
            ],
            note: "",
            ours: |measured| measured.under(STANDARD),
        },
        Measure {
            name: "the best sizes",
            unit: "items for each insert",
            axis: STAGES,
            published: &[
                Published {
                    name: "model",
                    section: "§4.6.2",
                    points: &[
                        named("log", Value::Is(1.00)),
                        named("memtable", Value::Is(1.00)),
                        named("level 1", Value::Is(3.85)),
                        named("level 2", Value::Is(4.85)),
                        named("level 3", Value::Is(4.82)),
                        named("level 4", Value::Is(4.65)),
                        named("level 5", Value::Is(3.50)),
                        named("total", Value::Is(23.67)),
                    ],
                },
                Published {
                    name: "simulation",
                    section: "§4.6.2",
                    points: &[
                        named("level 1", Value::Is(3.75)),
                        named("level 2", Value::Is(4.49)),
                        named("level 3", Value::Is(4.66)),
                        named("level 4", Value::Is(4.55)),
                        named("level 5", Value::Is(3.81)),
                        named("total", Value::Is(23.26)),
                    ],
                },
            ],
            note: "",
            ours: |measured| measured.under(BEST),
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
