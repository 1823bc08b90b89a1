//! S8: scaling of loads with the number of threads.

use super::{FULL, QUICK};
use crate::entry::{EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet, relative_to, thousands_per_s};
use crate::plan::{ExperimentStep, RunSize, StepTemplate, threads};
use anyhow::Result;

const GIB: f64 = (1u64 << 30) as f64;

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/S8",
    ours: &[
        ("throughput", throughput),
        ("speed-up", |measured| relative_to(throughput(measured), 1.0)),
        ("I/O amplification", |measured| {
            measured.by_step(|of| of.load_amplification())
        }),
        ("written and read during the load", bandwidth),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps,
    }),
};

fn throughput(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.by_step(|of| thousands_per_s(of.phase("load")?))
}

fn bandwidth(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.by_step(|of| {
        let row = of.phase("load")?;
        let bytes = row.device_write_bytes + row.device_read_bytes;
        (row.seconds > 0.0).then(|| bytes as f64 / GIB / row.seconds)
    })
}

fn steps(base: &StepTemplate) -> Result<Vec<ExperimentStep>> {
    let all: &[usize] = match base.size {
        RunSize::Quick => &[1, 2],
        RunSize::Full => &[1, 2, 4, 8, 10, 14, 20, 32],
    };
    let step = |count| base.with_threads(count, &["load"]);
    threads(all).into_iter().map(step).collect()
}
