//! S1 to S5 and S8: a store with hashed keyspaces, compared with the raw performance of its device.

use crate::entry::{EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet, name, thousands_per_s};
use crate::plan::{ExperimentScale, ExperimentStep, StepTemplate, ThreadCount};
use alluvium_bench::engine::EngineOption;
use alluvium_bench::run::ResultRow;
use anyhow::Result;

/// Keys of 20 and values of 1,000 bytes; the data exceeds the memory.
const QUICK: ExperimentScale = ExperimentScale {
    records: 200_000,
    value_bytes: 1000,
    threads: ThreadCount::Processors,
    cap: 64 << 20,
    warm_ms: 1000,
    run_ms: 3000,
    settle_ms: 5000,
};

/// A fifth of the document's 100 million records of 1 KiB.
const FULL: ExperimentScale = ExperimentScale {
    records: 20_000_000,
    cap: 512 << 20,
    warm_ms: 10_000,
    run_ms: 60_000,
    settle_ms: 120_000,
    ..QUICK
};

const READS: &str = "reads alone";
const MIXED: &str = "nine reads to a write";
const WRITES: &str = "writes alone";
const HALF: &str = "reads and writes";

/// Returns a step with these phases on a hashed keyspace.
fn step(
    base: &StepTemplate,
    place: &'static str,
    value_bytes: usize,
    phases: &[&str],
) -> Result<Vec<ExperimentStep>> {
    let mut step = base.step(name(place), phases)?;
    step.job.value_bytes = value_bytes;
    step.job.options.push(EngineOption {
        engine: "alluvium".to_owned(),
        name: "structure".to_owned(),
        value: "hashed".to_owned(),
    });
    Ok(vec![step])
}

/// Returns the throughput of a phase in thousand requests per second.
fn rate(measured: &MeasurementSet, phase: &str) -> Vec<FigureSeries> {
    measured.by_step(|of| thousands_per_s(of.phase(phase)?))
}

/// Returns the device reads per request of a phase.
fn reads(measured: &MeasurementSet, phase: &str) -> Vec<FigureSeries> {
    let each =
        |row: &ResultRow| (row.operations > 0).then(|| row.device_reads as f64 / row.operations as f64);
    measured.by_step(|of| each(of.phase(phase)?))
}

/// Returns the median latency of a phase, in microseconds.
fn median_us(measured: &MeasurementSet, phase: &str) -> Vec<FigureSeries> {
    measured.by_step(|of| Some(of.phase(phase)?.latency.p50_us))
}

/// Returns the throughput in the slowest tenth of a phase, in percent of the average.
fn worst_tenth(measured: &MeasurementSet, phase: &str) -> Vec<FigureSeries> {
    let worst = |row: &ResultRow| {
        let each = (row.series.len() / 10).max(1);
        let tenths = row.series.chunks_exact(each).map(|part| part.iter().sum::<u64>());
        let (least, count) = (tenths.clone().min()?, tenths.clone().count() as u64);
        let mean = tenths.sum::<u64>() as f64 / count as f64;
        (mean > 0.0).then(|| 100.0 * least as f64 / mean)
    };
    measured.by_step(|of| worst(of.phase(phase)?))
}

pub(super) const S1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S1",
    ours: &[
        ("throughput", |measured| rate(measured, "c")),
        ("reads of the device", |measured| reads(measured, "c")),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, READS, 1000, &["load", "c:uniform"]),
    }),
};

pub(super) const S2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S2",
    ours: &[("throughput", |measured| rate(measured, "b"))],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, MIXED, 1000, &["load", "b:uniform"]),
    }),
};

pub(super) const S3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S3",
    ours: &[("throughput", |measured| rate(measured, "load"))],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, WRITES, 1000, &["load"]),
    }),
};

pub(super) const S4: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S4",
    ours: &[("throughput", |measured| rate(measured, "a"))],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, HALF, 40, &["load", "a:uniform"]),
    }),
};

pub(super) const S5: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S5",
    ours: &[("the worst tenth of the time", |measured| {
        worst_tenth(measured, "a")
    })],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, HALF, 1000, &["load", "a:uniform"]),
    }),
};

pub(super) const S8: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S8",
    ours: &[("time of a read", |measured| median_us(measured, "c"))],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps: |base| step(base, READS, 1000, &["load", "c:uniform"]),
    }),
};
