//! A3 and A12: what skew saves LevelDB, and what it saves SILT.

use super::{NO_LEVELDB, SETTING, SIMULATED, Sheet, place, popularity, simulate};
use crate::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, at, named};
use crate::measured::{Measured, name};
use alluvium_model::lsm::LevelDb;
use alluvium_model::silt::{self, Silt};
use anyhow::Result;

const WRITES: &str = "write amplification";
const MEMORY: &str = "memory";

pub(super) const A3: Experiment = Experiment {
    id: "seed-1/A3",
    title: "LevelDB's write amplification over the skew of its keys",
    shows: "The more skewed requests are, the less LevelDB writes; worst-case analysis does not see it.",
    section: "§4.4.2",
    figure: "Figure 4.9",
    setting: SETTING,
    differs: &[
        SIMULATED,
        NO_LEVELDB,
        "Values beside ours follow from the document's model for 100 million keys.",
    ],
    measures: &[Measure {
        name: "write amplification",
        unit: "items for each insert",
        axis: Axis {
            name: "Zipf's exponent",
            form: Form::Linear,
        },
        published: &[Published {
            name: "model, 100 million keys",
            section: "§4.4.2",
            points: &[
                at(0.0, Value::Is(25.82)),
                at(0.2, Value::Derived(25.80)),
                at(0.4, Value::Derived(25.58)),
                at(0.6, Value::Derived(24.67)),
                at(0.8, Value::Derived(21.18)),
                at(0.99, Value::Derived(12.68)),
                at(1.2, Value::Derived(4.31)),
                at(1.4, Value::Derived(2.12)),
            ],
        }],
        note: "",
        ours: |measured| measured.under(WRITES),
    }],
    work: Work::Here {
        quick: 300_000,
        full: 10_000_000,
        most: super::MOST_SIMULATED,
        measure: over_skew,
    },
};

fn over_skew(keys: u64) -> Result<Measured> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = Sheet::default();
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

pub(super) const A12: Experiment = Experiment {
    id: "seed-1/A12",
    title: "What skew saves SILT: writes, or memory",
    shows: "With skewed keys SILT writes less, or merges sooner and needs less memory for as many writes.",
    section: "§4.5.3",
    figure: "in words",
    setting: "Computed by Algorithm 5: 100 million keys in 4 instances, tables of 131,072 slots, 62 or 25 of them merged at once.",
    differs: &["Computed, as in the document."],
    measures: &[
        Measure {
            name: "write amplification",
            unit: "entries for each update",
            axis: CASES,
            published: &[Published {
                name: "document",
                section: "§4.5.3",
                points: &[
                    named(UNIFORM, Value::Is(5.4)),
                    named(SKEWED, Value::Is(3.0)),
                    named(SOONER, Value::Is(5.4)),
                ],
            }],
            note: "",
            ours: |measured| measured.under(WRITES),
        },
        Measure {
            name: "memory",
            unit: "bytes an entry",
            axis: CASES,
            published: &[Published {
                name: "document",
                section: "§4.5.3",
                points: &[
                    named(SKEWED, Value::Derived(0.73)),
                    named(SOONER, Value::Is(0.56)),
                ],
            }],
            note: "",
            ours: |measured| measured.under(MEMORY),
        },
    ],
    work: Work::Here {
        quick: 100_000_000,
        full: 100_000_000,
        most: 10_000_000_000,
        measure: of_silt,
    },
};

const CASES: Axis = Axis {
    name: "keys, and tables merged at once",
    form: Form::Names,
};
const UNIFORM: &str = "uniform, 62";
const SKEWED: &str = "Zipf 0.99, 62";
const SOONER: &str = "Zipf 0.99, 25";

fn of_silt(keys: u64) -> Result<Measured> {
    let keys = keys.max(super::FEWEST);
    let mut sheet = Sheet::default();
    // The table is to an instance what the document's is.
    let instance = keys / 4;
    let slots = f64::from(1 << 17) * instance as f64 / 25e6;
    for (case, skew, stores) in [(UNIFORM, 0.0, 62.0), (SKEWED, 0.99, 62.0), (SOONER, 0.99, 25.0)] {
        let writes = silt::write_amplification(&popularity(instance, skew)?, slots, 0.93, stores)?;
        let costs = Silt {
            merged: stores * 0.93 * f64::from(1 << 17),
            ..Silt::example()
        }
        .costs()?;
        sheet.put(WRITES, "Algorithm 5", name(case), writes);
        sheet.put(MEMORY, "formula 2.7", name(case), costs.memory_bytes);
    }
    Ok(sheet.measured())
}
