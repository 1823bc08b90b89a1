//! K1 and K8: a store whose keyspace is kept in such pages beside LevelDB, and with two threads.

use super::SETTING;
use super::stores::{
    BEPS, BPLUS, DIFFERS, FULL, QUICK, STRUCTURE, STRUCTURES, load, mixed, steps, structured,
};
use crate::entry::{Axis, Engines, Experiment, Form, Measure, Published, Value, Work, named};
use crate::measured::{Line, Measured, against, name, thousands_per_s};
use crate::plan::{Base, LEAST_CAP, Step};
use anyhow::Result;

/// What the document says of both trees beside LevelDB.
const FASTER: &[Published] = &[Published {
    name: "document",
    section: "§6.4",
    points: &[
        named(BEPS, Value::Said("more than 1")),
        named(BPLUS, Value::Said("more than 1")),
    ],
}];

pub(super) const K1: Experiment = Experiment {
    id: "seed-2/K1",
    title: "LevelDB beside the others",
    shows: "LevelDB is the slowest in every workload, and uses about 30 % of the memory that it may use.",
    section: "§6.4",
    figure: "Figures 6.4 and 6.5",
    setting: SETTING,
    differs: DIFFERS,
    measures: &[
        Measure {
            name: "load against LevelDB",
            unit: "times",
            axis: STRUCTURE,
            published: FASTER,
            note: "",
            ours: |measured| against(&load(measured), "leveldb"),
        },
        Measure {
            name: "reads with as many updates against LevelDB",
            unit: "times",
            axis: STRUCTURE,
            published: FASTER,
            note: "The document has inserts after as many.",
            ours: |measured| against(&mixed(measured), "leveldb"),
        },
        Measure {
            name: "reads against LevelDB",
            unit: "times",
            axis: STRUCTURE,
            published: FASTER,
            note: "",
            ours: |measured| against(&reads(measured), "leveldb"),
        },
        Measure {
            name: "resident memory at most",
            unit: "for a byte of the data",
            axis: STRUCTURE,
            published: &[Published {
                name: "document, LevelDB",
                section: "§6.4",
                points: &[named(BEPS, Value::About(0.3)), named(BPLUS, Value::About(0.3))],
            }],
            note: "Memory is as much as the data, so it is the part of what may be used. Other engines are measured beside each structure, and know none.",
            ours: resident,
        },
    ],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: |base| steps(base, base.data()),
    }),
};

const MEMORY: Axis = Axis {
    name: "memory",
    form: Form::Names,
};
const AS_MUCH: &str = "as much as data";
const A_QUARTER: &str = "a quarter of it";

/// What holds in every run.
const ALWAYS: &[Published] = &[Published {
    name: "document",
    section: "§8",
    points: &[
        named(AS_MUCH, Value::Said("more than 1")),
        named(A_QUARTER, Value::Said("more than 1")),
    ],
}];
/// What holds in some.
const SOMETIMES: &[Published] = &[Published {
    name: "document",
    section: "§8",
    points: &[
        named(AS_MUCH, Value::Said("sometimes more than 1")),
        named(A_QUARTER, Value::Said("sometimes more than 1")),
    ],
}];

pub(super) const K8: Experiment = Experiment {
    id: "seed-2/K8",
    title: "Stores with two threads",
    shows: "With two threads the Bε-tree is faster than RocksDB in some runs, and than LevelDB in all.",
    section: "§8",
    figure: "Conclusion",
    setting: SETTING,
    differs: DIFFERS,
    measures: &[
        Measure {
            name: "load against RocksDB",
            unit: "times",
            axis: MEMORY,
            published: SOMETIMES,
            note: "The keyspace is a Bε-tree.",
            ours: |measured| against(&load(measured), "rocksdb"),
        },
        Measure {
            name: "reads with as many updates against RocksDB",
            unit: "times",
            axis: MEMORY,
            published: SOMETIMES,
            note: "",
            ours: |measured| against(&mixed(measured), "rocksdb"),
        },
        Measure {
            name: "load against LevelDB",
            unit: "times",
            axis: MEMORY,
            published: ALWAYS,
            note: "",
            ours: |measured| against(&load(measured), "leveldb"),
        },
        Measure {
            name: "reads against LevelDB",
            unit: "times",
            axis: MEMORY,
            published: ALWAYS,
            note: "",
            ours: |measured| against(&reads(measured), "leveldb"),
        },
        Measure {
            name: "load",
            unit: super::THOUSANDS,
            axis: MEMORY,
            published: &[],
            note: "The document draws it, and states no number.",
            ours: load,
        },
    ],
    work: Work::Engines(Engines {
        quick: QUICK,
        full: FULL,
        steps: by_memory,
    }),
};

fn reads(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| thousands_per_s(of.phase("c")?))
}

/// The most resident memory of all phases, for a byte that was loaded.
fn resident(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| {
        let written = of.phase("load")?.user_written_bytes;
        let most = ["load", "c", "b", "a"].iter().filter_map(|phase| of.phase(phase));
        let most = most.map(|row| row.rss_peak_bytes).max()?;
        (written > 0).then(|| most as f64 / written as f64)
    })
}

/// Two threads, with memory for all data and for a quarter of it.
fn by_memory(base: &Base) -> Result<Vec<Step>> {
    base.refuse_memory("it is a part of the data")?;
    let step = |(place, part): (&'static str, u64)| {
        let mut step = base.step(name(place), &["load", "c", "a"])?;
        step.job.threads = 2;
        step.job.cap = (base.data() / part).max(LEAST_CAP);
        step.job.options.push(structured(STRUCTURES[0].1));
        Ok(step)
    };
    [(AS_MUCH, 1), (A_QUARTER, 4)].into_iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Taken;
    use alluvium_bench::run::Row;

    #[test]
    fn memory_is_the_most_of_all_phases_for_a_byte_of_the_load() {
        let row = |engine: &str, phase: &str, rss_peak_bytes: u64| Row {
            engine: engine.to_owned(),
            phase: phase.to_owned(),
            user_written_bytes: if phase == "load" { 1000 } else { 0 },
            rss_peak_bytes,
            ..Row::default()
        };
        let rows = vec![
            row("alluvium", "load", 700),
            row("alluvium", "c", 900),
            row("leveldb", "load", 300),
        ];
        let measured = Measured {
            steps: vec![Taken { at: name(BEPS), rows }],
            ..Measured::default()
        };
        let found = resident(&measured);
        let of = |line: usize| (&*found[line].name, found[line].points[0].value);
        assert_eq!((of(0), of(1)), (("alluvium", 0.9), ("leveldb", 0.3)));
    }
}
