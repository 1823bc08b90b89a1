//! Thousands of overlapping range deletes: a log that is trimmed from its start, a history that is
//! truncated, and batches of range deletes.
//!
//! `ALLUVIUM_RANGE_DELETES` sets the number of trims; the default is 20,000.

use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium::{Db, KeyspaceOptions, OpenMode, Options, WriteBatch};
use alluvium_device::memory::MemoryDirectory;
use alluvium_sim::environment::number;
use std::collections::BTreeMap;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

fn small() -> Options {
    Options::new().memory(16 << 20)
}

fn key(number: u32) -> Vec<u8> {
    format!("log:{number:08}").into_bytes()
}

fn live_bytes(db: &Db) -> u64 {
    db.stats().space.live_bytes
}

/// Trims a log from its start at every record.
fn trim(db: &Db, from: u32, to: u32) {
    let keyspace = db.keyspace("log").unwrap();
    for number in from..to {
        keyspace.put(key(number), b"x").unwrap();
        keyspace.delete_range(b"log:", Some(&key(number))).unwrap();
    }
}

#[test]
fn a_log_that_is_trimmed_at_every_record_stays_as_small_as_it_is() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = small().workers(0).open_in(directory.clone()).unwrap();
    let count = number("ALLUVIUM_RANGE_DELETES", 20_000) as u32;
    trim(&db, 0, count);
    let keyspace = db.keyspace("log").unwrap();
    assert_eq!(keyspace.iter().count(), 1);
    db.checkpoint().unwrap();
    assert!(
        live_bytes(&db) <= MIB,
        "{} bytes before a compaction",
        live_bytes(&db)
    );
    db.compact().unwrap();
    assert!(live_bytes(&db) <= MIB, "{} bytes", live_bytes(&db));
    let tree = db.stats().memory.tree;
    assert!(tree <= MIB, "{tree} bytes of memory");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    drop(keyspace);
    db.close().unwrap();
    let db = small().open_existing_in(directory).unwrap();
    let all: Vec<_> = db
        .keyspace("log")
        .unwrap()
        .iter()
        .map(|pair| pair.unwrap().0.to_vec())
        .collect();
    assert_eq!(all, [key(count - 1)]);
}

#[test]
fn range_deletes_are_left_out_where_the_tree_has_nothing_and_only_there() {
    const COUNT: u32 = 5000;
    let directory = Arc::new(MemoryDirectory::new());
    let db = small().workers(0).open_in(directory).unwrap();
    let keyspace = db.keyspace("log").unwrap();
    let delete = |first: u32| {
        for number in first..first + COUNT {
            let (start, end) = (key(10 * number), key(10 * number + 5));
            keyspace.delete_range(&start, Some(&end)).unwrap();
        }
        db.checkpoint().unwrap();
    };
    let before = live_bytes(&db);
    delete(COUNT);
    let grown = live_bytes(&db).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} bytes for deletes of nothing");
    let tree = db.stats().memory.tree;
    assert!(tree < 64 << 10, "{tree} bytes of memory");
    // Delete records that are in a run. The versions visible to an earlier snapshot remain.
    for number in 0..COUNT {
        keyspace.put(key(10 * number), b"x").unwrap();
        keyspace.put(key(10 * number + 7), b"y").unwrap();
    }
    db.checkpoint().unwrap();
    let snapshot = db.snapshot();
    delete(0);
    delete(0);
    assert_eq!(keyspace.iter().count() as u32, COUNT);
    assert_eq!(snapshot.iter(&keyspace).count() as u32, 2 * COUNT);
    drop(snapshot);
    // Range deletes share a memtable with the records that they delete and with later ones.
    for number in 2 * COUNT..3 * COUNT {
        keyspace.put(key(10 * number), b"old").unwrap();
    }
    let snapshot = db.snapshot();
    let (first, last) = (key(20 * COUNT), key(30 * COUNT));
    keyspace.delete_range(&first, Some(&last)).unwrap();
    keyspace.put(&first, b"new").unwrap();
    db.checkpoint().unwrap();
    assert_eq!(keyspace.iter().count() as u32, COUNT + 1);
    assert_eq!(snapshot.iter(&keyspace).count() as u32, 2 * COUNT);
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!(keyspace.iter().count() as u32, COUNT + 1);
    assert_eq!(keyspace.get(&first).unwrap().unwrap(), b"new");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn under_a_snapshot_every_range_delete_is_kept_once() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = small().workers(0).open_in(directory.clone()).unwrap();
    trim(&db, 0, 100);
    let snapshot = db.snapshot();
    trim(&db, 100, 10_100);
    db.checkpoint().unwrap();
    let (live, tree) = (live_bytes(&db), db.stats().memory.tree);
    assert!(
        live <= 4 * MIB && tree <= 6 * MIB,
        "{live} bytes, {tree} of memory"
    );
    let keyspace = db.keyspace("log").unwrap();
    assert_eq!(snapshot.get(&keyspace, key(99)).unwrap().unwrap(), b"x");
    assert_eq!(snapshot.get(&keyspace, key(98)).unwrap(), None);
    assert_eq!(keyspace.get(key(99)).unwrap(), None);
    assert_eq!(keyspace.iter().count(), 1);
    drop(snapshot);
    db.compact().unwrap();
    assert!(live_bytes(&db) <= MIB, "{} bytes", live_bytes(&db));
}

#[test]
fn what_only_the_log_has_of_them_is_replayed_and_repaired() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let db = small().open(&path).unwrap();
    trim(&db, 0, 3000);
    db.abandon();
    drop(db);
    let db = small().mode(OpenMode::ReadOnly).open(&path).unwrap();
    assert_eq!(db.existing_keyspace("log").unwrap().iter().count(), 1);
    drop(db);
    assert!(small().repair(&path).unwrap().is_whole());
    let db = small().open(&path).unwrap();
    let keyspace = db.keyspace("log").unwrap();
    assert_eq!(keyspace.get(key(2999)).unwrap().unwrap(), b"x");
    assert_eq!(keyspace.iter().count(), 1);
}

#[test]
fn a_batch_may_hold_tens_of_thousands_of_them() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = small().open_in(directory.clone()).unwrap();
    let keyspace = db.keyspace("log").unwrap();
    let mut batch = WriteBatch::new();
    for number in 0..40_000u32 {
        batch.put(&keyspace, key(number), b"x").unwrap();
        let (start, end) = (key(20_000 - number / 2), key(20_000 + number / 2));
        batch.delete_range(&keyspace, start, Some(&end)).unwrap();
    }
    db.write(&batch).unwrap();
    assert_eq!(keyspace.get(key(20_001)).unwrap(), None);
    let left = keyspace.iter().count();
    db.abandon();
    drop((keyspace, db));
    let db = small().open_in(directory).unwrap();
    assert_eq!(db.keyspace("log").unwrap().iter().count(), left);
    db.checkpoint().unwrap();
    assert!(db.stats().memory.tree <= 4 * MIB);
}

#[test]
fn random_ones_say_what_a_map_says_with_snapshots_and_without() {
    for seed in 0..4 {
        let mut random = fastrand::Rng::with_seed(seed);
        let db = small()
            .workers(0)
            .open_in(Arc::new(MemoryDirectory::new()))
            .unwrap();
        let keyspace = db.keyspace_with("log", &KeyspaceOptions::new()).unwrap();
        let mut model: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut snapshots = Vec::new();
        for step in 0..6000u32 {
            let number = random.u32(..500);
            if random.bool() {
                keyspace.put(key(number), step.to_string()).unwrap();
                model.insert(key(number), step);
            } else {
                let (start, end) = (key(number), key(number + random.u32(..60)));
                keyspace.delete_range(&start, Some(&end)).unwrap();
                model.retain(|key, _| *key < start || *key >= end);
            }
            match random.u32(..1000) {
                0..4 => snapshots.push((db.snapshot(), model.clone())),
                4..8 if !snapshots.is_empty() => drop(snapshots.swap_remove(random.usize(..snapshots.len()))),
                8..11 => db.checkpoint().unwrap(),
                11 => db.compact().unwrap(),
                _ => {}
            }
        }
        let wanted = |model: &BTreeMap<Vec<u8>, u32>| -> Vec<(Vec<u8>, Vec<u8>)> {
            let text = |(key, step): (&Vec<u8>, &u32)| (key.clone(), step.to_string().into_bytes());
            model.iter().map(text).collect()
        };
        let pairs = |iter: alluvium::Iter| -> Vec<(Vec<u8>, Vec<u8>)> {
            let pair = |pair: alluvium::Result<(Vec<u8>, alluvium::Value)>| {
                let (key, value) = pair.unwrap();
                (key, value.to_vec())
            };
            iter.map(pair).collect()
        };
        assert_eq!(pairs(keyspace.iter()), wanted(&model), "seed {seed}");
        for (snapshot, model) in &snapshots {
            assert_eq!(pairs(snapshot.iter(&keyspace)), wanted(model), "seed {seed}");
            for number in 0..500 {
                let value = snapshot.get(&keyspace, key(number)).unwrap();
                let step = model.get(&key(number)).map(|step| step.to_string().into_bytes());
                assert_eq!(value.map(|value| value.to_vec()), step, "seed {seed}");
            }
        }
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}
