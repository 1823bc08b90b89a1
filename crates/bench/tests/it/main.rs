//! Tiny runs of all phases, in this process.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod phases;
mod transactions;
mod wrong;

use alluvium_bench::engine::{Entry, Log};
use alluvium_bench::engines::OWN;
use alluvium_bench::run::{Event, Flow, Groups, Job, Row, run_job};
use alluvium_bench::workload::keys::Keys;
use alluvium_bench::workload::phase::{Amount, Defaults, Phase};
use anyhow::Result;

const DEFAULTS: Defaults = Defaults {
    warm: Amount::Operations(200),
    run: Amount::Operations(1000),
    rate: None,
};

fn job(engine: &str, directory: &std::path::Path, phases: &[&str]) -> Job {
    let parse = |text: &&str| Phase::parse(text, DEFAULTS).expect("a phase");
    Job {
        engine: engine.to_owned(),
        repetition: 1,
        directory: directory.to_owned(),
        records: 3000,
        keys: Keys::default(),
        value_bytes: 100,
        threads: 2,
        phases: phases.iter().map(parse).collect(),
        flow: Flow::Separate,
        is_loaded: false,
        seed: 1,
        log: Log::On,
        cap: 64 << 20,
        memory: Some(16 << 20),
        options: Vec::new(),
        settle_ms: 0,
        verify_every: 1,
        interval_ms: 10,
        groups: Groups::default(),
    }
}

/// Returns the rows of a job.
fn rows(job: &Job, entries: &[Entry]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    run_job(job, entries, &mut |event| {
        if let Event::Measured(row) = event {
            rows.push(*row);
        }
    })?;
    Ok(rows)
}

#[test]
fn alluvium_answers_as_a_map_does() {
    let place = tempfile::tempdir().unwrap();
    alluvium_bench::prove::prove(&OWN[0], place.path(), 4000, 7).unwrap();
}
