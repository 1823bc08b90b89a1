//! S9: the throughput of scans by length.

use super::{FULL, QUICK};
use crate::entry::{AxisPosition, EngineWorkload, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigureSeries, MeasurementSet, name};
use crate::plan::{ExperimentStep, StepTemplate};
use alluvium_bench::run::ResultRow;
use alluvium_bench::workload::phase::PhaseTask;
use anyhow::Result;

const LENGTHS: [u32; 6] = [1, 10, 100, 1000, 10_000, 100_000];

const MIB: f64 = (1u64 << 20) as f64;

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/S9",
    ours: &[
        ("bandwidth of scans", |measured| by_length(measured, bandwidth)),
        ("scans", |measured| {
            by_length(measured, |row| (row.operations > 0).then_some(row.ops_per_s))
        }),
    ],
    work: ExperimentMethod::Engines(EngineWorkload {
        quick: QUICK,
        full: FULL,
        steps,
    }),
};

fn phase_of(length: u32) -> String {
    format!("scan {length}")
}

fn bandwidth(row: &ResultRow) -> Option<f64> {
    let read = row.user_bytes - row.user_written_bytes;
    (row.seconds > 0.0 && row.operations > 0).then(|| read as f64 / MIB / row.seconds)
}

fn by_length(measured: &MeasurementSet, figure: impl Fn(&ResultRow) -> Option<f64>) -> Vec<FigureSeries> {
    let names = LENGTHS.map(phase_of);
    let phases: Vec<(&str, AxisPosition)> = names
        .iter()
        .zip(LENGTHS)
        .map(|(name, length)| (name.as_str(), AxisPosition::Number(f64::from(length))))
        .collect();
    measured.by_phase(&phases, figure)
}

/// All lengths are scanned in one store, because a new load would give an equal store.
fn steps(base: &StepTemplate) -> Result<Vec<ExperimentStep>> {
    let phases = LENGTHS.map(|length| format!("e:uniform+exactly={length}"));
    let mut texts = vec!["load"];
    texts.extend(phases.iter().map(String::as_str));
    let mut step = base.step(name("scans"), &texts)?;
    for (phase, length) in step.job.phases.iter_mut().skip(1).zip(LENGTHS) {
        phase.name = phase_of(length);
        // The mix has no inserts; only the length changes.
        if let PhaseTask::Mix { mix, .. } = &mut phase.task {
            mix.scan += mix.insert;
            mix.insert = 0;
        }
    }
    Ok(vec![step])
}
