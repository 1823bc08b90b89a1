//! S4: how little memory is enough.

use super::{FULL, MACHINE, QUICK, THREADS};
use crate::entry::{At, Axis, Engines, Experiment, Form, Measure, Published, Value, Work, at};
use crate::measured::{Line, Measured, thousands_per_s};
use crate::plan::{Base, LEAST_CAP, Scale, Size, Step};
use anyhow::Result;

const MEMORY: Axis = Axis {
    name: "memory, % of the data",
    form: Form::Linear,
};

/// Where an engine with all its keys in memory ends: as parts of 673 million × 124 bytes.
const KVELL: &[Published] = &[Published {
    name: "KVell",
    section: "§3.7.3",
    points: &[
        at(5.1, Value::Said("4 GiB: does not run")),
        at(25.7, Value::Said("20 GiB: unusable")),
        at(28.3, Value::Said("22 GiB: begins to fall")),
    ],
}];

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "seed-0/S4",
    title: "Throughput with less and less memory",
    shows: "An engine whose index of all keys is in memory falls off a cliff when memory is a quarter of the data; a write-optimised tree does not.",
    section: "§3.7.3",
    figure: "Figure 3.5",
    setting: "The machine of S1; KVell with 673 million records of 24 + 100 bytes (80 GiB) and different amounts of memory.",
    differs: &[
        MACHINE,
        THREADS,
        "The document measures KVell, which is not run here: ours is the same question put to Alluvium. There is no adapter for KVell.",
        "Ours changes the memory as a part of the data. The shares of the document's points are derived from its gibibytes.",
        "No engine works with less than 48 MiB in all: with few records several points become one.",
    ],
    measures: &[
        Measure {
            name: "throughput of C",
            unit: "thousand operations a second",
            axis: MEMORY,
            published: KVELL,
            note: "",
            ours: |measured| measured.by_step(|of| thousands_per_s(of.phase("c")?)),
        },
        Measure {
            name: "throughput of the load",
            unit: "thousand operations a second",
            axis: MEMORY,
            published: KVELL,
            note: "",
            ours: load,
        },
    ],
    work: Work::Engines(Engines {
        quick: Scale {
            records: 3_000_000,
            ..QUICK
        },
        full: FULL,
        steps,
    }),
};

fn load(measured: &Measured) -> Vec<Line> {
    measured.by_step(|of| thousands_per_s(of.phase("load")?))
}

fn steps(base: &Base) -> Result<Vec<Step>> {
    base.refuse_memory("it changes the memory from step to step")?;
    let percents: &[u64] = match base.size {
        Size::Quick => &[15, 25, 50, 100],
        Size::Full => &[5, 10, 25, 28, 50, 100],
    };
    let mut caps: Vec<u64> = percents
        .iter()
        .map(|percent| (base.data() / 100 * percent).max(LEAST_CAP))
        .collect();
    caps.dedup();
    let step = |cap: u64| {
        let percent = 100.0 * cap as f64 / base.data() as f64;
        let mut step = base.step(At::Number(percent.round()), &["load", "c"])?;
        step.job.cap = cap;
        Ok(step)
    };
    caps.into_iter().map(step).collect()
}
