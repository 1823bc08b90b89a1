//! K2, K4 and K5: a store whose keyspace is kept in such pages, beside RocksDB.

use super::{MACHINE, SETTING};
use crate::entry::{Axis, Engines, Experiment, Form, Measure, Published, Value, Work, at, named};
use crate::measured::{Line, Measured, against, name, thousands_per_s};
use crate::plan::{Base, LEAST_CAP, Scale, Step, Threads, threads};
use alluvium_bench::engine::EngineOption;
use anyhow::Result;

pub(super) const STRUCTURE: Axis = Axis {
    name: "structure of the keyspace",
    form: Form::Names,
};

pub(super) const BEPS: &str = "Bε-tree";
pub(super) const BPLUS: &str = "B⁺-tree";
const TIERED: &str = "tiered tree";
/// Structures as they are said to the engine: keys have 24 bytes here, and a value's version a few
/// more than its 100.
pub(super) const STRUCTURES: [(&str, &str); 3] = [
    (BEPS, "paged,beps,node=16384,epsilon=0.8,key=24,value=128"),
    (BPLUS, "paged,bplus,node=16384,key=24,value=128"),
    (TIERED, "tiered"),
];

pub(super) const DIFFERS: &[&str] = &[
    MACHINE,
    "Ours is a whole store: it logs every write, and has a memtable above the pages. An eighth of its memory, and 128 MiB at most, is for pages. The document's trees have all of it, and lose their \
     data in a crash.",
    "Keys have 24 bytes. Further inserts are the updates of phase a, half of its operations.",
    "The document's tables 6.1 and 6.2 set RocksDB's memtables by hand; ours is set up as in every benchmark here.",
];

pub(super) const QUICK: Scale = Scale {
    records: 300_000,
    value_bytes: 100,
    threads: Threads::One,
    cap: 96 << 20,
    warm_ms: 200,
    run_ms: 1500,
    settle_ms: 2000,
};

pub(super) const FULL: Scale = Scale {
    records: 20_000_000,
    value_bytes: 100,
    threads: Threads::One,
    cap: 4 << 30,
    warm_ms: 20_000,
    run_ms: 60_000,
    settle_ms: 60_000,
};

/// Both experiments' measures: what is published differs.
macro_rules! measures {
    ($published:expr, $further:expr $(,)?) => {
        &[
            Measure {
                name: "load against RocksDB",
                unit: "times",
                axis: STRUCTURE,
                published: $published,
                note: "",
                ours: |measured| against(&load(measured), "rocksdb"),
            },
            Measure {
                name: "reads with as many updates against RocksDB",
                unit: "times",
                axis: STRUCTURE,
                published: $further,
                note: "",
                ours: |measured| against(&mixed(measured), "rocksdb"),
            },
            Measure {
                name: "load",
                unit: super::THOUSANDS,
                axis: STRUCTURE,
                published: &[],
                note: "The document draws it, and states no number.",
                ours: load,
            },
            Measure {
                name: "reads with 5 % updates",
                unit: super::THOUSANDS,
                axis: STRUCTURE,
                published: &[],
                note: "The document draws it, and states no number.",
                ours: |measured| measured.by_step(|of| thousands_per_s(of.phase("b")?)),
            },
        ]
    };
}

pub(super) const K2: Experiment = Experiment {
    id: "seed-2/K2",
    title: "Stores with more threads",
    shows: "RocksDB is the fastest from three threads on, since it has more memtables than others.",
    section: "§6.4",
    figure: "Figures 6.4 and 6.5",
    setting: SETTING,
    differs: DIFFERS,
    measures: &[
        Measure {
            name: "load against RocksDB",
            unit: "times",
            axis: super::BY_THREADS,
            published: &[Published {
                name: "document",
                section: "§6.4",
                points: &[
                    at(1.0, Value::Said("more than 1")),
                    at(3.0, Value::Said("less than 1")),
                ],
            }],
            note: "The keyspace is a Bε-tree; memory for all data.",
            ours: |measured| against(&load(measured), "rocksdb"),
        },
        Measure {
            name: "load",
            unit: super::THOUSANDS,
            axis: super::BY_THREADS,
            published: &[],
            note: "The document draws it, and states no number.",
            ours: load,
        },
    ],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: by_threads,
    }),
};

pub(super) const K4: Experiment = Experiment {
    id: "seed-2/K4",
    title: "Stores with as much memory as data",
    shows: "With 40 GB of memory and one thread both trees are faster than LevelDB and RocksDB.",
    section: "§6.4",
    figure: "Figure 6.4",
    setting: SETTING,
    differs: DIFFERS,
    measures: measures!(
        &[Published {
            name: "document",
            section: "§6.4",
            points: &[
                named(BEPS, Value::Said("more than 1")),
                named(BPLUS, Value::Said("more than 1")),
            ],
        }],
        &[Published {
            name: "document, further inserts",
            section: "§6.4",
            points: &[
                named(BEPS, Value::Said("more than 1")),
                named(BPLUS, Value::Said("more than 1")),
            ],
        }],
    ),
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: |base| steps(base, base.data()),
    }),
};

pub(super) const K5: Experiment = Experiment {
    id: "seed-2/K5",
    title: "Stores with little memory",
    shows: "With 10 GB of memory and one thread the Bε-tree alone is faster than RocksDB: 1.8 times in a load, and 1.4 times afterwards.",
    section: "§6.4",
    figure: "Figure 6.5",
    setting: SETTING,
    differs: DIFFERS,
    measures: measures!(
        &[Published {
            name: "document",
            section: "§6.4",
            points: &[
                named(BEPS, Value::About(1.8)),
                named(BPLUS, Value::Said("less than 1")),
            ],
        }],
        &[Published {
            name: "document, further inserts",
            section: "§6.4",
            points: &[
                named(BEPS, Value::About(1.4)),
                named(BPLUS, Value::Said("less than 1")),
            ],
        }],
    ),
    work: Work::Engines(Engines {
        quick: QUICK,
        full: Scale { cap: 1 << 30, ..FULL },
        steps: |base| steps(base, base.data() / 4),
    }),
};

pub(super) fn load(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| thousands_per_s(of.phase("load")?))
}

pub(super) fn mixed(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| thousands_per_s(of.phase("a")?))
}

/// One step for each structure: other engines are measured as often, and know no structures.
pub(super) fn steps(base: &Base, cap: u64) -> Result<Vec<Step>> {
    base.refuse_memory("it is a part of the data")?;
    let step = |(place, structure): (&'static str, &str)| {
        let mut step = base.step(name(place), &["load", "c", "b", "a"])?;
        step.job.cap = cap.max(LEAST_CAP);
        step.job.options.push(structured(structure));
        Ok(step)
    };
    STRUCTURES.into_iter().map(step).collect()
}

/// One step for each number of threads.
fn by_threads(base: &Base) -> Result<Vec<Step>> {
    base.refuse_memory("it is that of the data")?;
    let step = |count| {
        let mut step = base.with_threads(count, &["load"])?;
        step.job.cap = base.data().max(LEAST_CAP);
        step.job.options.push(structured(STRUCTURES[0].1));
        Ok(step)
    };
    threads(&[1, 2, 3, 4, 8]).into_iter().map(step).collect()
}

/// How Alluvium is told of a structure.
pub(super) fn structured(structure: &str) -> EngineOption {
    EngineOption {
        engine: "alluvium".to_owned(),
        name: "structure".to_owned(),
        value: structure.to_owned(),
    }
}
