//! K1 and K8: a store with a paged keyspace compared with LevelDB, and with two threads.

use super::stores::{FULL, QUICK, STRUCTURES, load, mixed, steps, structured};
use crate::entry::{EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet, against, name, thousands_per_s};
use crate::plan::{ExperimentStep, LEAST_CAP, StepTemplate};
use anyhow::Result;

pub(super) const K1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/K1",
    ours: &[
        ("load against LevelDB", |measured| {
            against(&load(measured), "leveldb")
        }),
        ("reads with as many updates against LevelDB", |measured| {
            against(&mixed(measured), "leveldb")
        }),
        ("reads against LevelDB", |measured| {
            against(&reads(measured), "leveldb")
        }),
        ("resident memory at most", resident),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: |base| steps(base, base.data()),
    }),
};

const AS_MUCH: &str = "as much as data";
const A_QUARTER: &str = "a quarter of it";

pub(super) const K8: MeasurementProcedure = MeasurementProcedure {
    id: "seed-2/K8",
    ours: &[
        ("load against RocksDB", |measured| {
            against(&load(measured), "rocksdb")
        }),
        ("reads with as many updates against RocksDB", |measured| {
            against(&mixed(measured), "rocksdb")
        }),
        ("load against LevelDB", |measured| {
            against(&load(measured), "leveldb")
        }),
        ("reads against LevelDB", |measured| {
            against(&reads(measured), "leveldb")
        }),
        ("load", load),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: by_memory,
    }),
};

fn reads(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.by_step(|of| thousands_per_s(of.phase("c")?))
}

/// Returns the maximum resident memory over all phases, per loaded byte.
fn resident(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.by_step(|of| {
        let written = of.phase("load")?.user_written_bytes;
        let most = ["load", "c", "b", "a"].iter().filter_map(|phase| of.phase(phase));
        let most = most.map(|row| row.rss_peak_bytes).max()?;
        (written > 0).then(|| most as f64 / written as f64)
    })
}

/// Two threads, with memory for all data and for a quarter of it.
fn by_memory(base: &StepTemplate) -> Result<Vec<ExperimentStep>> {
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
    use crate::measurements::StepMeasurement;
    use crate::seed_2::stores::BEPS;
    use alluvium_bench::run::ResultRow;

    #[test]
    fn memory_is_the_most_of_all_phases_for_a_byte_of_the_load() {
        let row = |engine: &str, phase: &str, rss_peak_bytes: u64| ResultRow {
            engine: engine.to_owned(),
            phase: phase.to_owned(),
            user_written_bytes: if phase == "load" { 1000 } else { 0 },
            rss_peak_bytes,
            ..ResultRow::default()
        };
        let rows = vec![
            row("alluvium", "load", 700),
            row("alluvium", "c", 900),
            row("leveldb", "load", 300),
        ];
        let measured = MeasurementSet {
            steps: vec![StepMeasurement { at: name(BEPS), rows }],
            ..MeasurementSet::default()
        };
        let found = resident(&measured);
        let of = |line: usize| (&*found[line].name, found[line].points[0].value);
        assert_eq!((of(0), of(1)), (("alluvium", 0.9), ("leveldb", 0.3)));
    }
}
