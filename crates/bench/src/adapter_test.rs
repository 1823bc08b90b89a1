//! A test of an engine's adapter. It runs random operations on the engine and on a map, and
//! compares all results. The adapters in all crates use it.

use crate::engine::{BenchEngine, CapEnforcement, EngineEntry, EngineSetup, WriteLogging};
use crate::workload::keys::{KeyOrdering, RecordKey};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;

/// Number of distinct keys, which is small so that many operations hit the same key.
const KEYS: u64 = 500;

/// The data that an engine must contain after it is reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReopenExpectation {
    WithEverything,
    /// The engine cannot be reopened, because it does not store its data when it is closed and
    /// rejects the files left behind.
    Refused,
}

/// Runs `operations` random operations on an engine in a directory and compares the results with
/// those of a map. Then reopens the engine and compares all data.
///
/// # Errors
/// The first result that differs from the map's, and errors of the engine.
pub fn prove(entry: &EngineEntry, directory: &Path, operations: usize, seed: u64) -> Result<()> {
    prove_with(
        entry,
        directory,
        &[],
        ReopenExpectation::WithEverything,
        operations,
        seed,
    )
}

/// Like [`prove`], but with options of the engine, which may lose its data when it is closed.
///
/// # Errors
/// The first result that differs from the map's, and errors of the engine.
pub fn prove_with(
    entry: &EngineEntry,
    directory: &Path,
    options: &[(String, String)],
    reopened: ReopenExpectation,
    operations: usize,
    seed: u64,
) -> Result<()> {
    let setup = EngineSetup {
        directory: directory.to_owned(),
        cap: 64 << 20,
        kept: CapEnforcement::Free,
        memory: None,
        log: WriteLogging::On,
        threads: 1,
        value_bytes: 100,
        records: KEYS,
        options: options.to_vec(),
    };
    let mut map = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(seed);
    let engine = (entry.open)(&setup)?;
    compare_randomly(&*engine, &mut map, operations, &mut random)?;
    ensure!(!engine.settings().is_empty(), "an engine says how it is set up");
    engine.close()?;
    if reopened == ReopenExpectation::Refused {
        ensure!(
            (entry.open)(&setup).is_err(),
            "it opens what it has left, and keeps nothing in it"
        );
        return Ok(());
    }
    let engine = (entry.open)(&setup)?;
    compare_everything(&*engine, &map)?;
    // Random operations must also work on the data of the reopened engine.
    compare_randomly(&*engine, &mut map, operations / 4, &mut random)?;
    engine.close()
}

type ExpectedRecords = BTreeMap<RecordKey, Vec<u8>>;

fn compare_randomly(
    engine: &dyn BenchEngine,
    map: &mut ExpectedRecords,
    operations: usize,
    random: &mut fastrand::Rng,
) -> Result<()> {
    let mut session = engine.session()?;
    for step in 0..operations {
        let key = KeyOrdering::default().of(random.u64(..KEYS));
        match random.u8(..11) {
            10 => {
                session.delete(&key)?;
                map.remove(&key);
            }
            0..5 => {
                let mut value = vec![0; random.usize(1..300)];
                random.fill(&mut value);
                session.put(&key, &value)?;
                map.insert(key, value);
            }
            5..8 => {
                let mut found = None;
                let is_there = session.get(&key, &mut |value| found = Some(value.to_vec()))?;
                ensure!(
                    is_there == found.is_some(),
                    "step {step}: what is there is handed out"
                );
                ensure!(
                    found.as_ref() == map.get(&key),
                    "step {step}: another value was got"
                );
            }
            8 => {
                let limit = random.usize(1..50);
                let mut found = Vec::new();
                let count = session.scan(&key, limit, &mut |key, value| {
                    found.push((key.to_vec(), value.to_vec()));
                })?;
                let expected: Vec<_> = map
                    .range(key..)
                    .take(limit)
                    .map(|(key, value)| (key.to_vec(), value.clone()))
                    .collect();
                ensure!(count == found.len(), "step {step}: {count} were counted");
                ensure!(found == expected, "step {step}: a scan of {limit} found others");
            }
            _ => {
                let keys: Vec<RecordKey> = (0..random.usize(1..20))
                    .map(|_| KeyOrdering::default().of(random.u64(..KEYS)))
                    .collect();
                let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                let mut found = vec![None; keys.len()];
                let count = session.multi_get(&slices, &mut |place, value| {
                    found[place] = Some(value.to_vec());
                })?;
                let expected: Vec<_> = keys.iter().map(|key| map.get(key).cloned()).collect();
                ensure!(
                    count == found.iter().flatten().count(),
                    "step {step}: {count} were counted"
                );
                ensure!(found == expected, "step {step}: other values were got together");
            }
        }
        if step == operations / 2 {
            engine.flush()?;
        }
    }
    Ok(())
}

fn compare_everything(engine: &dyn BenchEngine, map: &ExpectedRecords) -> Result<()> {
    let mut found = Vec::new();
    engine
        .session()?
        .scan(b"u", usize::MAX >> 33, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
        })?;
    let expected: Vec<_> = map
        .iter()
        .map(|(key, value)| (key.to_vec(), value.clone()))
        .collect();
    ensure!(
        found == expected,
        "after opening it again, other records are there"
    );
    Ok(())
}
