//! Tests of thread interleavings that a caller of the public API cannot force: between evaluating a
//! condition and writing, while a keyspace is being dropped, and before a snapshot's removal is
//! durable.

mod attach;
mod kinds;

use super::{CommitPreconditions, CommitRecord, ConditionVerdict, Engine, ReadPosition};
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _, StoreScale};
use crate::db::Db;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::options::kind::DictionaryPlace;
use crate::options::{Durability, KeyspaceOptions, Options};
use crate::schema::catalog::CommitKeyspaces;
use crate::schema::format;
use crate::write::batch::WriteBatch;
use alluvium_base::MessageKind;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_dictionary::merge::MergeDirection;
use alluvium_storage::log::{self, SegmentAccess};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Enough time for a thread to complete an operation if nothing blocks it.
const WHILE: Duration = Duration::from_millis(300);

fn small() -> Db {
    let options = Options::new().memory(16 << 20).workers(1);
    options.open_in(Arc::new(MemoryDirectory::new())).unwrap()
}

fn engine(keyspace: &Keyspace) -> &Engine {
    &keyspace.shared().engine
}

fn put(keyspace: &Keyspace, key: &str, value: &str) -> CommitRecord<'static> {
    let mut commit = CommitRecord::default();
    let prefix = &keyspace.definition().prefix;
    commit.add(prefix, key.as_bytes(), MessageKind::Put, 0, value.as_bytes());
    commit
}

/// Writes `key` in a conditional commit, and runs `act` in another thread while the condition is
/// evaluated. Returns whether `act` completed within [`WHILE`], before the condition was decided.
fn beside_a_condition(keyspace: &Keyspace, act: impl Fn() + Sync) -> bool {
    let (done, is_done) = channel();
    std::thread::scope(|scope| {
        let act = &act;
        let condition = || {
            let done = done.clone();
            scope.spawn(move || {
                act();
                let _ = done.send(());
            });
            Ok(match is_done.recv_timeout(WHILE) {
                Ok(()) => ConditionVerdict::Stop,
                Err(_) => ConditionVerdict::Go,
            })
        };
        let owner = CommitKeyspaces::One(keyspace.definition());
        let commit = put(keyspace, "key", "conditional");
        let did = engine(keyspace).commit_if(
            &commit,
            owner,
            Durability::Process,
            Some(&CommitPreconditions::of_its_keys(&condition)),
        );
        did.unwrap().is_none()
    })
}

#[test]
fn nobody_writes_to_a_key_between_a_condition_on_it_and_its_write() {
    type Act = fn(&Db, &Keyspace);
    let acts: [(&str, Act, Option<&[u8]>); 7] = [
        ("put", |_, k| k.put("key", "other").unwrap(), Some(b"other")),
        ("delete", |_, k| k.delete("key").unwrap(), None),
        (
            "merge",
            |_, k| k.merge("key", "+").unwrap(),
            Some(b"conditional+"),
        ),
        ("range", |_, k| k.delete_range("a", Some(b"z")).unwrap(), None),
        ("ranges", |_, k| k.delete_range("", None).unwrap(), None),
        (
            "batch",
            |db, k| {
                let mut batch = WriteBatch::new();
                batch.put(k, "before", "").unwrap();
                batch.delete_range(k, "key", Some(b"key\0")).unwrap();
                db.write(&batch).unwrap();
            },
            None,
        ),
        (
            "ingest",
            |_, k| _ = k.ingest([("key", "loaded")]).unwrap(),
            Some(b"loaded"),
        ),
    ];
    for (name, act, after) in acts {
        let db = small();
        let options = KeyspaceOptions::new().merge_operator("append");
        let keyspace = db.keyspace_with("k", &options).unwrap();
        keyspace.put("key", "before").unwrap();
        let overtakes = beside_a_condition(&keyspace, || act(&db, &keyspace));
        assert!(!overtakes, "{name}");
        assert_eq!(keyspace.get("key").unwrap().as_deref(), after, "{name}");
    }
}

#[test]
fn whoever_drops_a_keyspace_waits_for_a_write_that_has_seen_it_alive() {
    let db = small();
    let keyspace = db.keyspace("k").unwrap();
    assert!(!beside_a_condition(&keyspace, || db.drop_keyspace("k").unwrap()));
    let mut left = engine(&keyspace).scan(
        DictionaryPlace::TREE,
        keyspace.whole(),
        MergeDirection::Forward,
        db.sequence(),
    );
    assert_eq!(left.next().unwrap(), None, "the write was not deleted");
}

#[test]
fn a_write_that_has_not_its_place_yet_when_a_drop_begins_is_refused() {
    let db = small();
    let (keyspace, other) = (db.keyspace("k").unwrap(), db.keyspace("other").unwrap());
    let (engine, definition) = (engine(&keyspace), keyspace.definition());
    let mut batch = WriteBatch::new();
    batch.put(&other, "key", "x").unwrap();
    batch.put(&keyspace, "key", "x").unwrap();
    let mut innocent = WriteBatch::new();
    innocent.put(&other, "key", "y").unwrap();
    let commit =
        |owners: CommitKeyspaces<'_>| engine.commit(&put(&keyspace, "key", "x"), owners, Durability::Process);
    engine.catalog.begin_drop(definition);
    let before = engine.queue.last();
    for owners in [CommitKeyspaces::One(definition), batch.owners()] {
        assert!(matches!(commit(owners), Err(Error::KeyspaceDropped { .. })));
    }
    assert_eq!(engine.queue.last(), before, "not even a number was taken");
    db.write(&innocent).unwrap();
    // Dropping the keyspace fails and leaves everything unchanged.
    definition.revive();
    db.write(&batch).unwrap();
    assert_eq!(keyspace.get("key").unwrap().unwrap(), b"x");
}

#[test]
fn a_write_that_waits_when_a_drop_begins_is_refused() {
    let db = small();
    let keyspace = db.keyspace("k").unwrap();
    let engine = engine(&keyspace);
    // A conditional write waits while ingests are being attached.
    std::thread::scope(|scope| {
        let attaching = engine.ingests.attaching.write();
        let swap = scope.spawn(|| keyspace.compare_and_set("key", None, Some(b"x")));
        std::thread::sleep(WHILE);
        engine.catalog.begin_drop(keyspace.definition());
        engine.wait_for_writers();
        drop(attaching);
        let refused = swap.join().unwrap();
        assert!(
            matches!(refused, Err(Error::KeyspaceDropped { .. })),
            "{refused:?}"
        );
    });
    keyspace.definition().revive();
    // Other writes wait for memtable space, which no worker can free while the tree must not
    // change.
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let at_rest = engine.work.at_rest();
        let puts = scope.spawn(|| {
            let value = [7; 100_000];
            loop {
                match keyspace.put(acknowledged.load(Ordering::SeqCst).to_be_bytes(), value) {
                    Ok(()) => acknowledged.fetch_add(1, Ordering::SeqCst),
                    Err(error) => return error,
                };
            }
        });
        let mut before = u64::MAX;
        while std::mem::replace(&mut before, acknowledged.load(Ordering::SeqCst)) != before || before == 0 {
            std::thread::sleep(WHILE);
        }
        engine.catalog.begin_drop(keyspace.definition());
        engine.wait_for_writers();
        drop(at_rest);
        assert!(matches!(puts.join().unwrap(), Error::KeyspaceDropped { .. }));
        assert_eq!(acknowledged.load(Ordering::SeqCst), before);
    });
}

#[test]
fn a_condition_that_fails_by_what_nobody_sees_yet_waits_until_it_is_seen() {
    let db = small();
    let keyspace = db.keyspace("locks").unwrap();
    let engine = engine(&keyspace);
    let (sender, answers) = channel();
    std::thread::scope(|scope| {
        // Sequence number of a commit that has not been applied to its memtable.
        let slow = engine.queue.assign(1, 1000, || ());
        scope.spawn(|| assert!(keyspace.compare_and_set("lock", None, Some(b"alice")).unwrap()));
        let key = format::tree_key(&keyspace.definition().prefix, b"lock");
        let newest = || {
            engine
                .get(&key, keyspace.definition(), ReadPosition::Newest)
                .unwrap()
        };
        while newest().is_none() {
            std::thread::yield_now();
        }
        scope.spawn(|| sender.send(keyspace.compare_and_set("lock", None, Some(b"bob")).unwrap()));
        let early = answers.recv_timeout(WHILE);
        let seen = keyspace.get("lock").unwrap();
        engine.void_sequences(slow.first, 1).unwrap();
        engine.visible.complete(slow.first, slow.first);
        assert_eq!(early, Err(RecvTimeoutError::Timeout));
        assert_eq!(seen, None, "it is not visible yet");
        assert!(!answers.recv().unwrap());
        assert_eq!(keyspace.get("lock").unwrap().unwrap(), b"alice");
    });
}

/// Options of a small simulated store with several log lanes, only the first of which a checkpoint
/// syncs.
fn simulated() -> Options {
    let mut scale = StoreScale::small(0xa11, 6 << 10, 96 << 10);
    scale.log.lanes = 3;
    scale.log.access = SegmentAccess::Mapped;
    Options::new().simulated(scale, || 1000)
}

/// Makes compactions merge the versions that no reader needs, and makes a checkpoint of the result.
/// Commits that are only in the log are not synced.
fn fold(engine: &Engine) {
    engine.raise_horizon();
    engine.dictionaries.tree.compact_fully(&[]).unwrap();
    while engine.compactions() > 0 {
        engine.compact_slice(usize::MAX).unwrap();
    }
    engine.checkpoint_now().unwrap();
}

#[test]
fn a_removal_that_only_the_log_has_is_not_taken_for_durable_by_an_opening() {
    log::write_as(0);
    let machine = SimDirectory::new(3);
    let at = {
        let db = simulated().create_in(Arc::new(machine.clone())).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        keyspace.put("key", "old").unwrap();
        let at = db.create_snapshot("monday").unwrap().sequence();
        keyspace.put("key", "new").unwrap();
        db.checkpoint().unwrap();
        // Only the log records that this snapshot was created and removed.
        db.create_snapshot("tuesday").unwrap();
        db.remove_snapshot("tuesday").unwrap();
        db.remove_snapshot("monday").unwrap();
        db.abandon();
        at
    };
    let image = machine.image(CrashSurvival::Process, 1);
    let db = simulated().open_existing_in(Arc::new(image.clone())).unwrap();
    assert_eq!((db.snapshots(), db.stats().snapshots), (vec![], 0));
    let keyspace = db.existing_keyspace("k").unwrap();
    let engine = engine(&keyspace);
    fold(engine);
    {
        let image = image.image(CrashSurvival::None, 1);
        let db = simulated().open_existing_in(Arc::new(image)).unwrap();
        let keyspace = db.existing_keyspace("k").unwrap();
        assert_eq!(
            db.snapshots(),
            [("monday".to_owned(), at)],
            "the removal was lost"
        );
        let monday = db.open_snapshot("monday").unwrap();
        assert_eq!(monday.get(&keyspace, "key").unwrap().unwrap(), b"old");
    }
    db.sync().unwrap();
    fold(engine);
    let horizon = engine.dictionaries.horizon().sequence();
    assert!(horizon > at, "it is given up in the end");
}

#[test]
fn what_a_named_snapshot_held_is_kept_until_its_removal_survives_the_loss_of_power() {
    log::write_as(0);
    let machine = SimDirectory::new(3);
    let db = simulated().create_in(Arc::new(machine.clone())).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("key", "old").unwrap();
    let at = db.create_snapshot("monday").unwrap().sequence();
    keyspace.put("key", "new").unwrap();
    db.checkpoint().unwrap();
    let engine = engine(&keyspace);
    db.remove_snapshot("monday").unwrap();
    assert_eq!(db.stats().snapshots, 0);
    fold(engine);
    let image = machine.image(CrashSurvival::None, 1);
    {
        let db = simulated().open_existing_in(Arc::new(image)).unwrap();
        assert_eq!(
            db.snapshots(),
            [("monday".to_owned(), at)],
            "the removal was lost"
        );
        let keyspace = db.existing_keyspace("k").unwrap();
        let monday = db.open_snapshot("monday").unwrap();
        assert_eq!(monday.get(&keyspace, "key").unwrap().unwrap(), b"old");
    }
    db.sync().unwrap();
    fold(engine);
    assert!(
        engine.dictionaries.horizon().sequence() > at,
        "it is given up in the end"
    );
    let image = machine.image(CrashSurvival::None, 1);
    let after = simulated().open_existing_in(Arc::new(image)).unwrap();
    assert_eq!(after.snapshots(), []);
}
