//! S7: scaling of reads with the number of threads.

use super::{FULL, QUICK};
use crate::entry::{EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet, relative_to, thousands_per_s};
use crate::plan::{ExperimentStep, RunSize, StepTemplate, threads};
use anyhow::Result;

const GIB: f64 = (1u64 << 30) as f64;

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/S7",
    ours: &[
        ("speed-up", |measured| relative_to(throughput(measured), 1.0)),
        ("read from the device", |measured| {
            measured.by_step(|of| {
                let row = of.phase("c")?;
                (row.seconds > 0.0).then(|| row.device_read_bytes as f64 / GIB / row.seconds)
            })
        }),
        ("throughput", throughput),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps,
    }),
};

fn throughput(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.by_step(|of| thousands_per_s(of.phase("c")?))
}

fn steps(base: &StepTemplate) -> Result<Vec<ExperimentStep>> {
    let all: &[usize] = match base.size {
        RunSize::Quick => &[1, 2],
        RunSize::Full => &[1, 2, 4, 8, 16, 24, 32],
    };
    let step = |count| base.with_threads(count, &["load", "c"]);
    threads(all).into_iter().map(step).collect()
}
