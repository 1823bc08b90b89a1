//! S4: throughput with little memory.

use super::{FULL, QUICK};
use crate::entry::{AxisPosition, EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet, thousands_per_s};
use crate::plan::{ExperimentScale, ExperimentStep, LEAST_CAP, RunSize, StepTemplate};
use anyhow::Result;

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/S4",
    ours: &[
        ("throughput of C", |measured| {
            measured.by_step(|of| thousands_per_s(of.phase("c")?))
        }),
        ("throughput of the load", load),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: ExperimentScale {
            records: 3_000_000,
            ..QUICK
        },
        full: FULL,
        steps,
    }),
};

fn load(measured: &MeasurementSet) -> Vec<FigureSeries> {
    measured.by_step(|of| thousands_per_s(of.phase("load")?))
}

fn steps(base: &StepTemplate) -> Result<Vec<ExperimentStep>> {
    base.refuse_memory("it changes the memory from step to step")?;
    let percents: &[u64] = match base.size {
        RunSize::Quick => &[15, 25, 50, 100],
        RunSize::Full => &[5, 10, 25, 28, 50, 100],
    };
    let mut caps: Vec<u64> = percents
        .iter()
        .map(|percent| (base.data() / 100 * percent).max(LEAST_CAP))
        .collect();
    caps.dedup();
    let step = |cap: u64| {
        let percent = 100.0 * cap as f64 / base.data() as f64;
        let mut step = base.step(AxisPosition::Number(percent.round()), &["load", "c"])?;
        step.job.cap = cap;
        Ok(step)
    };
    caps.into_iter().map(step).collect()
}
