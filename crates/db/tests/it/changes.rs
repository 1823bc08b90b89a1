//! The change stream of a store.

use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium::{Change, Db, Error, KeyspaceOptions, Options, WriteBatch};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn small() -> Options {
    Options::new().memory(16 << 20)
}

fn open(options: &Options) -> Db {
    options.open_in(Arc::new(MemoryDirectory::new())).unwrap()
}

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Applies a change to a map.
fn follow(pairs: &mut Pairs, change: Change) {
    match change {
        Change::Put { key, value, .. } => {
            pairs.insert(key, value);
        }
        Change::Delete { key, .. } => {
            pairs.remove(&key);
        }
        Change::Merge { key, operand, .. } => pairs.entry(key).or_default().extend(operand),
        Change::DeleteRange { start, end, .. } => {
            pairs.retain(|key, _| *key < start || end.as_ref().is_some_and(|end| key >= end));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_follower_sees_every_commit_whole_and_in_its_order() {
    let db = open(&small().keep_log(64 << 20));
    let options = KeyspaceOptions::new().merge_operator("append");
    let keyspace = db.keyspace_with("followed", &options).unwrap();
    let begun = db.sequence();
    let mut changes = db.changes_since(begun).unwrap();
    assert!(changes.next().is_none());
    let mut batch = WriteBatch::new();
    batch
        .put(&keyspace, "a", "1")
        .unwrap()
        .merge(&keyspace, "a", "2")
        .unwrap();
    batch.delete_range(&keyspace, "b", None).unwrap();
    db.write(&batch).unwrap();
    let set = changes.next().unwrap().unwrap();
    assert_eq!((set.sequence, set.changes.len()), (begun + 3, 3));
    assert!(
        matches!(&set.changes[2], Change::DeleteRange { keyspace, start, end: None } if keyspace == "followed" && start == b"b")
    );
    keyspace.ingest([("x", "1"), ("z", "2")]).unwrap();
    let set = changes.next().unwrap().unwrap();
    assert!(
        matches!(&set.changes[..], [Change::Ingest { first, last, .. }] if first == b"x" && last == b"z")
    );
    // The store's internal keys do not appear.
    db.keyspace("another").unwrap();
    assert!(changes.next().is_none());
    let sequence = db.sequence();
    for number in 0..30_000u32 {
        keyspace.put(number.to_be_bytes(), [7; 300]).unwrap();
    }
    db.checkpoint().unwrap();
    let sets: Vec<_> = changes.map(Result::unwrap).collect();
    assert_eq!(sets.len(), 30_000);
    // Sequence numbers without changes are skipped.
    assert!(sequence < sets[0].sequence && sets[sets.len() - 1].sequence == db.sequence());
    assert!(sets.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
}

#[test]
fn a_follower_beside_many_writers_ends_with_what_is_there() {
    let db = open(&small().keep_log(256 << 20));
    let keyspace = db.keyspace("followed").unwrap();
    let mut changes = db.changes_since(db.sequence()).unwrap();
    let (done, mut pairs) = (AtomicBool::new(false), Pairs::new());
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u8)
            .map(|writer| {
                let keyspace = &keyspace;
                scope.spawn(move || {
                    for number in 0..8000u32 {
                        let key = [&[writer % 2], &(number % 1000).to_be_bytes()[..]].concat();
                        if number % 5 == 0 {
                            keyspace.delete(&key).unwrap();
                        } else {
                            keyspace.put(&key, [number as u8; 100]).unwrap();
                        }
                    }
                })
            })
            .collect();
        let (pairs, done) = (&mut pairs, &done);
        scope.spawn(move || {
            loop {
                let last = done.load(Ordering::SeqCst);
                for set in changes.by_ref() {
                    set.unwrap()
                        .changes
                        .into_iter()
                        .for_each(|change| follow(pairs, change));
                }
                if last {
                    break;
                }
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::SeqCst);
    });
    let wanted: Pairs = keyspace
        .iter()
        .map(|pair| pair.unwrap())
        .map(|(key, value)| (key, value.into_vec()))
        .collect();
    assert!(pairs == wanted, "{} and {}", pairs.len(), wanted.len());
}

#[test]
fn a_follower_that_has_fallen_behind_is_told_where_the_log_begins() {
    let db = open(&small());
    let keyspace = db.keyspace("followed").unwrap();
    let begun = db.sequence();
    let mut slow = db.changes_since(begun).unwrap();
    for round in 0..3 {
        for number in 0..20_000u32 {
            keyspace.put(number.to_be_bytes(), [round; 300]).unwrap();
        }
        db.checkpoint().unwrap();
    }
    let error = slow.next().unwrap().unwrap_err();
    let Error::ChangesGone { after, oldest } = error else {
        panic!("{error}");
    };
    assert_eq!(after, begun);
    assert!((begun..=db.sequence()).contains(&oldest));
    assert!(matches!(db.changes_since(begun), Err(Error::ChangesGone { .. })));
    let mut again = db.changes_since(oldest).unwrap();
    keyspace.put("new", "one").unwrap();
    assert!(again.by_ref().map(Result::unwrap).count() >= 1);
    assert!(
        db.stats().log.disk_bytes < 32 << 20,
        "what is not asked for is not kept"
    );
}

#[test]
fn a_follower_goes_on_after_a_crash_where_the_log_does() {
    let world = SimDirectory::new(11);
    let shared = |world: &SimDirectory| Arc::new(world.clone()) as Arc<dyn Directory>;
    let options = small().workers(0);
    let db = options.create_in(shared(&world)).unwrap();
    let keyspace = db.keyspace("followed").unwrap();
    db.checkpoint().unwrap();
    let at = db.sequence();
    keyspace.put("a", "1").unwrap();
    keyspace.put("b", "2").unwrap();
    let died = world.image(CrashSurvival::Process, 1);
    db.abandon();
    let db = options.open_existing_in(shared(&died)).unwrap();
    let sets: Vec<_> = db.changes_since(at + 1).unwrap().map(Result::unwrap).collect();
    assert_eq!(sets.len(), 1);
    assert!(matches!(&sets[0].changes[..], [Change::Put { key, .. }] if key == b"b"));
}
