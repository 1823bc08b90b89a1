//! Tiny runs of all phases, in this process.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod phases;
mod transactions;
mod wrong;

use alluvium_bench::engine::{EngineEntry, WriteLogging};
use alluvium_bench::engines::OWN;
use alluvium_bench::run::{ChildEvent, EngineJob, GroupPaths, PhaseFlow, ResultRow, run_job};
use alluvium_bench::workload::keys::KeyOrdering;
use alluvium_bench::workload::phase::{PhaseDefaults, WindowLength, WorkloadPhase};
use anyhow::Result;

const DEFAULTS: PhaseDefaults = PhaseDefaults {
    warm: WindowLength::Operations(200),
    run: WindowLength::Operations(1000),
    rate: None,
};

fn job(engine: &str, directory: &std::path::Path, phases: &[&str]) -> EngineJob {
    let parse = |text: &&str| WorkloadPhase::parse(text, DEFAULTS).expect("a phase");
    EngineJob {
        engine: engine.to_owned(),
        repetition: 1,
        directory: directory.to_owned(),
        records: 3000,
        keys: KeyOrdering::default(),
        value_bytes: 100,
        threads: 2,
        phases: phases.iter().map(parse).collect(),
        flow: PhaseFlow::Separate,
        is_loaded: false,
        seed: 1,
        log: WriteLogging::On,
        cap: 64 << 20,
        memory: Some(16 << 20),
        options: Vec::new(),
        settle_ms: 0,
        verify_every: 1,
        interval_ms: 10,
        groups: GroupPaths::default(),
    }
}

/// Returns the rows of a job.
fn rows(job: &EngineJob, entries: &[EngineEntry]) -> Result<Vec<ResultRow>> {
    let mut rows = Vec::new();
    run_job(job, entries, &mut |event| {
        if let ChildEvent::Measured(row) = event {
            rows.push(*row);
        }
    })?;
    Ok(rows)
}

#[test]
fn alluvium_answers_as_a_map_does() {
    let place = tempfile::tempdir().unwrap();
    alluvium_bench::adapter_test::prove(&OWN[0], place.path(), 4000, 7).unwrap();
}
