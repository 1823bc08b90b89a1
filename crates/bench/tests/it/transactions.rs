//! Transactions: tiny runs of every phase, and faulty engines that a run must catch.

use alluvium_bench::engine::EngineSetup;
use alluvium_bench::run::{ChildEvent, GroupPaths, ResultRow};
use alluvium_bench::transactions::engine::{
    AckDurability, AttemptError, AttemptResult, EngineTransaction, IsolationMechanism, TransactionBody,
    TransactionClient, TransactionalEngine, TransactionalEntry,
};
use alluvium_bench::transactions::phase::TransactionPhase;
use alluvium_bench::transactions::{OWN, TransactionJob, adapter_test, run_job};
use alluvium_bench::workload::phase::WindowLength;
use anyhow::Result;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

fn job(engine: &str, directory: &Path, phases: &str) -> TransactionJob {
    TransactionJob {
        engine: engine.to_owned(),
        repetition: 1,
        directory: directory.to_owned(),
        counters: 700,
        phases: phases
            .split(',')
            .map(|text| TransactionPhase::parse(text).unwrap())
            .collect(),
        warm: WindowLength::Operations(20),
        run: WindowLength::Operations(120),
        seed: 1,
        cap: 64 << 20,
        memory: Some(16 << 20),
        interval_ms: 100,
        groups: GroupPaths::default(),
    }
}

fn rows(job: &TransactionJob, entries: &[TransactionalEntry]) -> Result<Vec<ResultRow>> {
    let mut rows = Vec::new();
    run_job(job, entries, &mut |event| {
        if let ChildEvent::Measured(row) = event {
            rows.push(*row);
        }
    })?;
    Ok(rows)
}

#[test]
fn the_transactions_of_alluvium_are_what_they_are_said_to_be() {
    for entry in OWN {
        let place = tempfile::tempdir().unwrap();
        if let Err(error) = adapter_test::prove(&entry, place.path()) {
            panic!("{}: {error:#}", entry.name);
        }
    }
}

#[test]
fn every_own_engine_goes_through_every_phase() {
    let phases = "commit:1,commit:8,txn-size:pair=32,txn-size:pair=4096,group-commit:8,rmw:4,rmw:4+later+keys=3,rmw:4+sorted";
    for entry in OWN {
        let place = tempfile::tempdir().unwrap();
        let rows = rows(&job(entry.name, place.path(), phases), &OWN).unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.phase.as_str()).collect();
        assert_eq!(names.join(","), phases, "{}", entry.name);
        for row in &rows {
            assert_eq!(row.operations, 120, "{}", row.phase);
            assert!(
                row.aborts_per_op.is_some() && row.ops_per_s > 0.0,
                "{}",
                row.phase
            );
        }
        // Keys and values have the requested total size.
        assert_eq!(rows[2].user_written_bytes, 120 * 4 * 32);
        assert_eq!(rows[6].user_written_bytes, 120 * 3 * (24 + 8));
    }
}

/// An engine's fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// No fault.
    None,
    /// Every second attempt has a conflict.
    Conflicts,
    /// Every hundredth commit of one or two pairs is acknowledged without effect.
    LosesCommits,
    /// Commits despite a conflict.
    KeepsWhatItRefuses,
    /// The last keyspace loses all puts.
    Forgets,
}

type Pairs = HashMap<(usize, Vec<u8>), Vec<u8>>;

/// An in-memory engine with one writer at a time.
struct InMemory {
    pairs: Mutex<Pairs>,
    runs: AtomicU64,
    fault: Fault,
}

fn entry(open: fn(&EngineSetup) -> Result<Box<dyn TransactionalEngine>>) -> [TransactionalEntry; 1] {
    [TransactionalEntry {
        name: "memory",
        mechanism: IsolationMechanism::OneWriter,
        open,
    }]
}

fn open(fault: Fault) -> Result<Box<dyn TransactionalEngine>> {
    Ok(Box::new(InMemory {
        pairs: Mutex::default(),
        runs: AtomicU64::new(0),
        fault,
    }))
}

impl TransactionalEngine for InMemory {
    fn client(&self, _: AckDurability) -> Result<Box<dyn TransactionClient + '_>> {
        Ok(Box::new(Thread(self)))
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("kept".into(), "in memory".into())]
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct Thread<'a>(&'a InMemory);

impl TransactionClient for Thread<'_> {
    fn attempt(&mut self, body: TransactionBody<'_>) -> AttemptResult<()> {
        let mut pairs = self.0.pairs.lock().unwrap();
        let mut open = Open {
            pairs: &pairs,
            writes: HashMap::new(),
        };
        body(&mut open)?;
        let mut writes = open.writes;
        let run = self.0.runs.fetch_add(1, Ordering::Relaxed);
        let is_small = (1..3).contains(&writes.len());
        match self.0.fault {
            Fault::Conflicts if is_small && run.is_multiple_of(2) => return Err(AttemptError::Conflict),
            Fault::LosesCommits if is_small && run % 100 == 99 => return Ok(()),
            Fault::Forgets => writes.retain(|(keyspace, _), _| *keyspace < 3),
            _ => {}
        }
        pairs.extend(writes);
        if self.0.fault == Fault::KeepsWhatItRefuses && is_small && run % 100 == 99 {
            return Err(AttemptError::Conflict);
        }
        Ok(())
    }
}

struct Open<'a> {
    pairs: &'a Pairs,
    writes: Pairs,
}

impl EngineTransaction for Open<'_> {
    fn get_for_update(
        &mut self,
        keyspace: usize,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> AttemptResult<bool> {
        let place = (keyspace, key.to_vec());
        let value = self.writes.get(&place).or_else(|| self.pairs.get(&place));
        value.inspect(|value| found(value));
        Ok(value.is_some())
    }

    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> AttemptResult<()> {
        self.writes.insert((keyspace, key.to_vec()), value.to_vec());
        Ok(())
    }
}

#[test]
fn each_run_that_meets_a_conflict_is_counted() {
    let place = tempfile::tempdir().unwrap();
    let rows_of = |entries: &[TransactionalEntry]| {
        rows(&job("memory", place.path(), "rmw:1,commit:1"), entries).unwrap()
    };
    for row in rows_of(&entry(|_| open(Fault::Conflicts))) {
        assert_eq!(row.aborts_per_op, Some(1.0), "{}", row.phase);
    }
    for row in rows_of(&entry(|_| open(Fault::None))) {
        assert_eq!(row.aborts_per_op, Some(0.0), "{}", row.phase);
    }
}

#[test]
fn lost_updates_and_lost_pairs_end_the_run() {
    let place = tempfile::tempdir().unwrap();
    let why = |phase: &str, entries: &[TransactionalEntry]| {
        let error = rows(&job("memory", place.path(), phase), entries).unwrap_err();
        format!("{error:#}")
    };
    let error = why("rmw:2", &entry(|_| open(Fault::LosesCommits)));
    assert!(
        error.contains("phase rmw:2: the counters add up to 278, and 280 increments"),
        "{error}"
    );
    let error = why("rmw:2", &entry(|_| open(Fault::KeepsWhatItRefuses)));
    assert!(
        error.contains("some took effect that were not acknowledged"),
        "{error}"
    );
    let error = why("txn-size:2", &entry(|_| open(Fault::Forgets)));
    assert!(
        error.contains("of keyspace 3 was committed, but has another value than was put"),
        "{error}"
    );
    // The adapter test catches faulty engines, too.
    for faulty in [
        entry(|_| open(Fault::LosesCommits)),
        entry(|_| open(Fault::Forgets)),
        entry(|_| open(Fault::KeepsWhatItRefuses)),
    ] {
        adapter_test::prove(&faulty[0], place.path()).unwrap_err();
    }
}

#[test]
fn an_engine_that_is_not_there_is_named() {
    let place = tempfile::tempdir().unwrap();
    let error = rows(&job("elsewhere", place.path(), "rmw"), &OWN).unwrap_err();
    assert!(format!("{error:#}").contains("\"elsewhere\""), "{error:#}");
}
