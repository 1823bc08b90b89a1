//! Transactions: tiny runs of every phase, and faulty engines that a run must detect.

use alluvium_bench::engine::Setup;
use alluvium_bench::run::{Event, Groups, Row};
use alluvium_bench::transactions::engine::{
    Body, Client, Durability, Entry, Mechanism, Stop, Transaction, TransactionalEngine, Tried,
};
use alluvium_bench::transactions::phase::Phase;
use alluvium_bench::transactions::{Job, OWN, prove, run_job};
use alluvium_bench::workload::phase::Amount;
use anyhow::Result;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

fn job(engine: &str, directory: &Path, phases: &str) -> Job {
    Job {
        engine: engine.to_owned(),
        repetition: 1,
        directory: directory.to_owned(),
        counters: 700,
        phases: phases
            .split(',')
            .map(|text| Phase::parse(text).unwrap())
            .collect(),
        warm: Amount::Operations(20),
        run: Amount::Operations(120),
        seed: 1,
        cap: 64 << 20,
        memory: Some(16 << 20),
        interval_ms: 100,
        groups: Groups::default(),
    }
}

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
fn the_transactions_of_alluvium_are_what_they_are_said_to_be() {
    for entry in OWN {
        let place = tempfile::tempdir().unwrap();
        if let Err(error) = prove::prove(&entry, place.path()) {
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
        // Pairs have the requested size, keys and values together.
        assert_eq!(rows[2].user_written_bytes, 120 * 4 * 32);
        assert_eq!(rows[6].user_written_bytes, 120 * 3 * (24 + 8));
    }
}

/// The fault of an engine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// No fault.
    None,
    /// Every second run meets a conflict.
    Conflicts,
    /// Every hundredth commit of one or two pairs is acknowledged without effect.
    LosesCommits,
    /// Commits despite a conflict.
    KeepsWhatItRefuses,
    /// The last keyspace loses all puts.
    Forgets,
}

type Pairs = HashMap<(usize, Vec<u8>), Vec<u8>>;

/// An engine in memory with one writer at a time.
struct InMemory {
    pairs: Mutex<Pairs>,
    runs: AtomicU64,
    fault: Fault,
}

fn entry(open: fn(&Setup) -> Result<Box<dyn TransactionalEngine>>) -> [Entry; 1] {
    [Entry {
        name: "memory",
        mechanism: Mechanism::OneWriter,
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
    fn client(&self, _: Durability) -> Result<Box<dyn Client + '_>> {
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

impl Client for Thread<'_> {
    fn attempt(&mut self, body: Body<'_>) -> Tried<()> {
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
            Fault::Conflicts if is_small && run.is_multiple_of(2) => return Err(Stop::Conflict),
            Fault::LosesCommits if is_small && run % 100 == 99 => return Ok(()),
            Fault::Forgets => writes.retain(|(keyspace, _), _| *keyspace < 3),
            _ => {}
        }
        pairs.extend(writes);
        if self.0.fault == Fault::KeepsWhatItRefuses && is_small && run % 100 == 99 {
            return Err(Stop::Conflict);
        }
        Ok(())
    }
}

struct Open<'a> {
    pairs: &'a Pairs,
    writes: Pairs,
}

impl Transaction for Open<'_> {
    fn get_for_update(&mut self, keyspace: usize, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Tried<bool> {
        let place = (keyspace, key.to_vec());
        let value = self.writes.get(&place).or_else(|| self.pairs.get(&place));
        value.inspect(|value| found(value));
        Ok(value.is_some())
    }

    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> Tried<()> {
        self.writes.insert((keyspace, key.to_vec()), value.to_vec());
        Ok(())
    }
}

#[test]
fn each_run_that_meets_a_conflict_is_counted() {
    let place = tempfile::tempdir().unwrap();
    let rows_of = |entries: &[Entry]| rows(&job("memory", place.path(), "rmw:1,commit:1"), entries).unwrap();
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
    let why = |phase: &str, entries: &[Entry]| {
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
        error.contains("of keyspace 3 was committed, and does not read as it was put"),
        "{error}"
    );
    // The adapters' own test also detects faulty engines.
    for faulty in [
        entry(|_| open(Fault::LosesCommits)),
        entry(|_| open(Fault::Forgets)),
        entry(|_| open(Fault::KeepsWhatItRefuses)),
    ] {
        prove::prove(&faulty[0], place.path()).unwrap_err();
    }
}

#[test]
fn an_engine_that_is_not_there_is_named() {
    let place = tempfile::tempdir().unwrap();
    let error = rows(&job("elsewhere", place.path(), "rmw"), &OWN).unwrap_err();
    assert!(format!("{error:#}").contains("\"elsewhere\""), "{error:#}");
}
