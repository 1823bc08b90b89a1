//! K2, K4 and K5: a store with a paged keyspace, compared with RocksDB.

use crate::entry::{EngineWorkload, ExperimentMethod, FigureComputation, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet, against, name, thousands_per_s};
use crate::plan::{ExperimentScale, ExperimentStep, LEAST_CAP, StepTemplate, ThreadCount, threads};
use alluvium_bench::engine::EngineOption;
use anyhow::Result;

pub(super) const BEPS: &str = "Bε-tree";
pub(super) const BPLUS: &str = "B⁺-tree";
const TIERED: &str = "tiered tree";
/// Structure options of the engine. Keys have 24 bytes here; the version of a value has a few more
/// bytes than the value's 100.
pub(super) const STRUCTURES: [(&str, &str); 3] = [
    (BEPS, "paged,beps,node=16384,epsilon=0.8,key=24,value=128"),
    (BPLUS, "paged,bplus,node=16384,key=24,value=128"),
    (TIERED, "tiered"),
];

pub(super) const QUICK: ExperimentScale = ExperimentScale {
    records: 300_000,
    value_bytes: 100,
    threads: ThreadCount::One,
    cap: 96 << 20,
    warm_ms: 200,
    run_ms: 1500,
    settle_ms: 2000,
};

pub(super) const FULL: ExperimentScale = ExperimentScale {
    records: 20_000_000,
    value_bytes: 100,
    threads: ThreadCount::One,
    cap: 4 << 30,
    warm_ms: 20_000,
    run_ms: 60_000,
    settle_ms: 60_000,
};

/// The measures of K4 and K5, which differ only in their published values.
const OURS: &[(&str, FigureComputation)] = &[
    ("load against RocksDB", |measured| {
        against(&load(measured), "rocksdb")
    }),
    ("reads with as many updates against RocksDB", |measured| {
        against(&mixed(measured), "rocksdb")
    }),
    ("load", load),
    ("reads with 5 % updates", |measured| {
        measured.by_step(|of| thousands_per_s(of.phase("b")?))
    }),
];

pub(super) const K2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/K2",
    ours: &[
        ("load against RocksDB", |measured| {
            against(&load(measured), "rocksdb")
        }),
        ("load", load),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: by_threads,
    }),
};

pub(super) const K4: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/K4",
    ours: OURS,
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: |base| steps(base, base.data()),
    }),
};

pub(super) const K5: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/K5",
    ours: OURS,
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: ExperimentScale { cap: 1 << 30, ..FULL },
        steps: |base| steps(base, base.data() / 4),
    }),
};

pub(super) fn load(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.by_step(|of| thousands_per_s(of.phase("load")?))
}

pub(super) fn mixed(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.by_step(|of| thousands_per_s(of.phase("a")?))
}

/// Returns a step for each structure. Other engines have no structures and are measured equally
/// often.
pub(super) fn steps(base: &StepTemplate, cap: u64) -> Result<Vec<ExperimentStep>> {
    base.refuse_memory("it is a part of the data")?;
    let step = |(place, structure): (&'static str, &str)| {
        let mut step = base.step(name(place), &["load", "c", "b", "a"])?;
        step.job.cap = cap.max(LEAST_CAP);
        step.job.options.push(structured(structure));
        Ok(step)
    };
    STRUCTURES.into_iter().map(step).collect()
}

/// Returns a step for each number of threads.
fn by_threads(base: &StepTemplate) -> Result<Vec<ExperimentStep>> {
    base.refuse_memory("it is that of the data")?;
    let step = |count| {
        let mut step = base.with_threads(count, &["load"])?;
        step.job.cap = base.data().max(LEAST_CAP);
        step.job.options.push(structured(STRUCTURES[0].1));
        Ok(step)
    };
    threads(&[1, 2, 3, 4, 8]).into_iter().map(step).collect()
}

/// Returns the option that selects a structure for Alluvium.
pub(super) fn structured(structure: &str) -> EngineOption {
    EngineOption {
        engine: "alluvium".to_owned(),
        name: "structure".to_owned(),
        value: structure.to_owned(),
    }
}
