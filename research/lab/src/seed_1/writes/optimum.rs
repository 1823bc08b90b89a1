//! A7, A8 and A10: the level sizes with which LevelDB writes least, and how long it takes to find
//! them.

use super::{KEYS, NO_LEVELDB, POPULARITIES, SETTING, SIMULATED, Sheet, place, popularity, simulate};
use crate::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, at, named};
use crate::measured::{Measured, name};
use alluvium_model::lsm::LevelDb;
use anyhow::Result;
use std::time::Instant;

const SAVED: &str = "saved";
const SECONDS: &str = "seconds";
const EVALUATIONS: &str = "shapes";

pub(super) const A7: Experiment = Experiment {
    id: "seed-1/A7",
    title: "What the best level sizes save",
    shows: "Sizes chosen by the model save up to a tenth of the writes.",
    section: "§4.6.2",
    figure: "Figures 4.12, 4.13",
    setting: SETTING,
    differs: &[SIMULATED, NO_LEVELDB],
    measures: &[Measure {
        name: "writes saved by the best sizes",
        unit: "%",
        axis: KEYS,
        published: &[Published {
            name: "the most",
            section: "§4.6.2",
            points: &[at(1e7, Value::Is(9.4))],
        }],
        note: "The document says how much is saved at most, without where.",
        ours: |measured| measured.under(SAVED),
    }],
    work: Work::Here {
        quick: 300_000,
        full: 10_000_000,
        most: super::MOST_SIMULATED,
        measure: saved,
    },
};

fn saved(keys: u64) -> Result<Measured> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = Sheet::default();
    let percent = |before: f64, after: f64| 100.0 * (1.0 - after / before);
    for (name, skew) in POPULARITIES {
        for size in [1_000_000, 10_000_000, 100_000_000] {
            let (standard, popularity) = (LevelDb::standard(size as f64)?, popularity(size, skew)?);
            let best = standard.optimise(&popularity)?.costs.total();
            let saved = percent(standard.estimate(&popularity)?.total(), best);
            sheet.put(SAVED, &format!("model, {name}"), place(size as f64), saved);
        }
        let (standard, popularity) = (LevelDb::standard(keys as f64)?, popularity(keys, skew)?);
        let best = standard.optimise(&popularity)?.shape;
        let saved = percent(simulate(&standard, &popularity)?, simulate(&best, &popularity)?);
        sheet.put(SAVED, &format!("simulation, {name}"), place(keys as f64), saved);
    }
    Ok(sheet.measured())
}

const LEVELS: Axis = Axis {
    name: "levels",
    form: Form::Linear,
};

const UNIFORM: &str = "uniform";
const SKEWED: &str = "Zipf 0.99";

pub(super) const A8: Experiment = Experiment {
    id: "seed-1/A8",
    title: "Write amplification over the number of levels",
    shows: "With the best sizes three levels write little more than four with LevelDB's.",
    section: "§4.6.3",
    figure: "Figure 4.15",
    setting: SETTING,
    differs: &["Computed by the model, as in the document. Values beside ours follow from its formulas."],
    measures: &[
        Measure {
            name: "uniform keys",
            unit: "items for each insert",
            axis: LEVELS,
            published: &[
                Published {
                    name: "LevelDB's sizes",
                    section: "§4.6.3",
                    points: &[
                        at(3.0, Value::Derived(81.4)),
                        at(4.0, Value::Derived(34.0)),
                        at(5.0, Value::Derived(25.8)),
                        at(6.0, Value::Derived(23.9)),
                    ],
                },
                Published {
                    name: "the best sizes",
                    section: "§4.6.3",
                    points: &[
                        at(3.0, Value::Derived(38.9)),
                        at(4.0, Value::Derived(26.9)),
                        at(5.0, Value::Derived(23.7)),
                        at(6.0, Value::Derived(23.0)),
                    ],
                },
            ],
            note: "",
            ours: |measured| measured.under(UNIFORM),
        },
        Measure {
            name: "Zipf 0.99",
            unit: "items for each insert",
            axis: LEVELS,
            published: &[
                Published {
                    name: "LevelDB's sizes",
                    section: "§4.6.3",
                    points: &[
                        at(3.0, Value::Derived(43.3)),
                        at(4.0, Value::Derived(17.0)),
                        at(5.0, Value::Derived(12.7)),
                        at(6.0, Value::Derived(11.5)),
                    ],
                },
                Published {
                    name: "the best sizes",
                    section: "§4.6.3",
                    points: &[
                        at(3.0, Value::Derived(21.5)),
                        at(4.0, Value::Derived(13.9)),
                        at(5.0, Value::Derived(11.8)),
                        at(6.0, Value::Derived(11.1)),
                    ],
                },
            ],
            note: "",
            ours: |measured| measured.under(SKEWED),
        },
    ],
    work: Work::Here {
        quick: 100_000_000,
        full: 100_000_000,
        most: 1_000_000_000,
        measure: over_levels,
    },
};

fn over_levels(keys: u64) -> Result<Measured> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = Sheet::default();
    for (name, skew) in POPULARITIES {
        let popularity = popularity(keys, skew)?;
        for levels in 3..=6 {
            let shape = LevelDb::with_levels(keys as f64, levels)?;
            let best = shape.optimise(&popularity)?.costs.total();
            let at = place(levels as f64);
            sheet.put(
                name,
                "LevelDB's sizes",
                at.clone(),
                shape.estimate(&popularity)?.total(),
            );
            sheet.put(name, "the best sizes", at, best);
        }
    }
    Ok(sheet.measured())
}

const POPULARITY: Axis = Axis {
    name: "keys",
    form: Form::Names,
};

pub(super) const A10: Experiment = Experiment {
    id: "seed-1/A10",
    title: "How long it takes to find the best sizes",
    shows: "The model is fast enough for a search of 12,000 shapes in seconds.",
    section: "§4.6.1",
    figure: "in words",
    setting: "Computed on the document's machine, in one thread: 100 million keys.",
    differs: &[
        "The machine is another, and popularities are compressed: keys that are nearly as popular are counted together.",
    ],
    measures: &[
        Measure {
            name: "time of the search",
            unit: "s",
            axis: POPULARITY,
            published: &[Published {
                name: "document",
                section: "§4.6.1",
                points: &[
                    named("uniform", Value::Is(3.17)),
                    named("Zipf 0.99", Value::Is(118.0)),
                ],
            }],
            note: "",
            ours: |measured| measured.under(SECONDS),
        },
        Measure {
            name: "shapes that were estimated",
            unit: "shapes",
            axis: POPULARITY,
            published: &[Published {
                name: "document",
                section: "§4.6.1",
                points: &[
                    named("uniform", Value::Is(12_254.0)),
                    named("Zipf 0.99", Value::Is(12_645.0)),
                ],
            }],
            note: "",
            ours: |measured| measured.under(EVALUATIONS),
        },
    ],
    work: Work::Here {
        quick: 100_000_000,
        full: 100_000_000,
        most: 1_000_000_000,
        measure: timed,
    },
};

fn timed(keys: u64) -> Result<Measured> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = Sheet::default();
    for (of, skew) in POPULARITIES {
        let began = Instant::now();
        let best = LevelDb::standard(keys as f64)?.optimise(&popularity(keys, skew)?)?;
        sheet.put(SECONDS, "alluvium", name(of), began.elapsed().as_secs_f64());
        sheet.put(EVALUATIONS, "alluvium", name(of), best.evaluations as f64);
    }
    Ok(sheet.measured())
}
