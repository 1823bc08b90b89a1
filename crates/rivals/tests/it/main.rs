//! Every engine that this was built with: its adapter against a map, and a tiny run of every phase.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use alluvium_bench::engine::Log;
use alluvium_bench::prove::prove;
use alluvium_bench::run::{Event, Flow, Groups, Job, run_job};
use alluvium_bench::workload::keys::Keys;
use alluvium_bench::workload::phase::{Amount, Defaults, Phase};
use alluvium_rivals::ENGINES;

const DEFAULTS: Defaults = Defaults {
    warm: Amount::Operations(50),
    run: Amount::Operations(200),
    rate: None,
};

#[test]
fn every_adapter_answers_as_a_map_does() {
    for (seed, entry) in ENGINES.iter().enumerate() {
        let place = tempfile::tempdir().unwrap();
        if let Err(error) = prove(entry, place.path(), 3000, seed as u64) {
            panic!("{}: {error:#}", entry.name);
        }
    }
}

#[test]
fn every_engine_goes_through_every_phase() {
    let phases: Vec<Phase> = ["load", "a", "b", "c", "d", "e", "f", "m"]
        .iter()
        .map(|text| Phase::parse(text, DEFAULTS).unwrap())
        .collect();
    for entry in ENGINES {
        let place = tempfile::tempdir().unwrap();
        let job = Job {
            engine: entry.name.to_owned(),
            repetition: 1,
            directory: place.path().to_owned(),
            records: 1000,
            keys: Keys::default(),
            value_bytes: 100,
            threads: 2,
            phases: phases.clone(),
            flow: Flow::Separate,
            is_loaded: false,
            seed: 1,
            log: Log::On,
            cap: 64 << 20,
            memory: None,
            options: Vec::new(),
            settle_ms: 0,
            verify_every: 1,
            interval_ms: 100,
            groups: Groups::default(),
        };
        let mut measured = 0;
        let done = run_job(&job, ENGINES, &mut |event| {
            if let Event::Measured(row) = event {
                measured += usize::from(row.operations > 0);
            }
        });
        if let Err(error) = done {
            panic!("{}: {error:#}", entry.name);
        }
        assert_eq!(measured, phases.len(), "{}", entry.name);
    }
}
