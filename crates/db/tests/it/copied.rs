//! Copies of frequently read pages from slower tiers on the first tier. They reduce slow reads, and
//! never resurrect overwritten or deleted data.

use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _, StoreScale};
use alluvium::{Db, Keyspace, KeyspaceOptions, LevelsOptions, Options, Purpose, Structure};
use alluvium_device::memory::MemoryDirectory;
use alluvium_storage::TierDirectories;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of frequently read keys. The page cache holds some of them.
const HOT: u32 = 1500;
const BUDGET: u64 = 8 << 20;

fn options(copies: u64) -> Options {
    let mut scale = StoreScale::small(0xa11, 64 << 10, 768 << 10);
    scale.extents.planned_bytes = Some(0);
    Options::new().copy_hot(copies).simulated(scale, || 1000)
}

fn directories() -> TierDirectories {
    TierDirectories::from(Arc::new(MemoryDirectory::new())).and(Arc::new(MemoryDirectory::new()))
}

fn keyspace(db: &Db, kind: usize) -> Keyspace {
    let levels = KeyspaceOptions::new().structure(Structure::Levels(LevelsOptions::samt(4)));
    match kind {
        0 => db.keyspace("tree").unwrap(),
        _ => db.keyspace_with("levels", &levels).unwrap(),
    }
}

fn value(number: u32, round: u8) -> Vec<u8> {
    vec![number as u8 ^ round; 1000 + number as usize % 100]
}

type Model = BTreeMap<u32, Vec<u8>>;

fn fill(db: &Db, keyspace: &Keyspace) -> Model {
    let mut model = Model::new();
    for number in 0..2 * HOT {
        keyspace.put(number.to_be_bytes(), value(number, 0)).unwrap();
        model.insert(number, value(number, 0));
    }
    db.compact().unwrap();
    model
}

/// Reads all hot keys, running background work at intervals.
fn read_and_copy(db: &Db, keyspace: &Keyspace, model: &Model) {
    for first in (0..HOT).step_by(200) {
        read_some(keyspace, model, first..(first + 200).min(HOT));
        work(db);
    }
}

/// Reads all hot keys.
fn read(keyspace: &Keyspace, model: &Model) {
    read_some(keyspace, model, 0..HOT);
}

fn read_some(keyspace: &Keyspace, model: &Model, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let found = keyspace.get(number.to_be_bytes()).unwrap();
        assert!(
            found.as_deref() == model.get(&number).map(|value| &value[..]),
            "{number}"
        );
    }
}

fn work(db: &Db) {
    while db.work().unwrap() {}
}

/// Returns how often lookups have read from the second tier so far.
fn slow_reads(db: &Db) -> u64 {
    db.stats().tiers[1].device.of(Purpose::Lookup).reads
}

#[test]
fn what_is_read_again_and_again_is_read_from_the_first_tier() {
    for kind in 0..2 {
        let rounds = [0, BUDGET].map(|copies| {
            let db = options(copies).create_in(directories()).unwrap();
            let keyspace = keyspace(&db, kind);
            let model = fill(&db, &keyspace);
            let mut reads = Vec::new();
            for _ in 0..6 {
                let before = slow_reads(&db);
                read_and_copy(&db, &keyspace, &model);
                reads.push(slow_reads(&db) - before);
            }
            let stats = db.stats().copies;
            assert!(stats.bytes <= copies && stats.refused == 0, "{stats:?}");
            assert_eq!(stats.copies > 100, copies > 0, "{stats:?}");
            assert_eq!(db.check().unwrap(), [""; 0]);
            reads
        });
        let (without, with) = (rounds[0][5], rounds[1][5]);
        assert!(without > 150 && with * 3 < without, "kind {kind}: {rounds:?}");
    }
}

/// A change made while pages are being copied.
#[derive(Clone, Copy, Debug)]
enum Change {
    Overwrite,
    Delete,
    DeleteRange,
    /// Overwrites and compacts everything, so that the space of the old pages is reallocated.
    Rewrite,
    /// Reopens the store.
    Reopen,
}

fn change(
    db: &mut Db,
    keyspace: &mut Keyspace,
    model: &mut Model,
    change: Change,
    kind: usize,
    to: &TierDirectories,
) {
    let some = (0..HOT).filter(|number| number % 3 == 0);
    match change {
        Change::Overwrite | Change::Rewrite => {
            for number in some {
                keyspace.put(number.to_be_bytes(), value(number, 1)).unwrap();
                model.insert(number, value(number, 1));
            }
        }
        Change::Delete => {
            for number in some {
                keyspace.delete(number.to_be_bytes()).unwrap();
                model.remove(&number);
            }
        }
        Change::DeleteRange => {
            keyspace
                .delete_range(100u32.to_be_bytes(), Some(&700u32.to_be_bytes()))
                .unwrap();
            model.retain(|number, _| !(100..700).contains(number));
        }
        Change::Reopen => {
            db.clone().close().unwrap();
            *db = options(BUDGET).open_existing_in(to).unwrap();
            *keyspace = self::keyspace(db, kind);
        }
    }
    if let Change::Rewrite = change {
        db.compact().unwrap();
    }
}

#[test]
fn what_was_overwritten_or_deleted_before_during_or_after_copying_stays_so() {
    let changes = [
        Change::Overwrite,
        Change::Delete,
        Change::DeleteRange,
        Change::Rewrite,
        Change::Reopen,
    ];
    for moment in 0..5 {
        for (number, what) in changes.into_iter().enumerate() {
            let kind = (number + moment) % 2;
            let to = directories();
            let mut db = options(BUDGET).create_in(&to).unwrap();
            let mut keyspace = keyspace(&db, kind);
            let mut model = fill(&db, &keyspace);
            db.sync().unwrap();
            // The second read collects the pages to copy, and the next step writes them.
            for step in 0..5 {
                if step == moment {
                    change(&mut db, &mut keyspace, &mut model, what, kind, &to);
                }
                match step {
                    2 => work(&db),
                    _ => read(&keyspace, &model),
                }
            }
            db.compact().unwrap();
            read(&keyspace, &model);
            let count = keyspace.iter().count();
            assert_eq!(count, model.len(), "kind {kind}, {what:?} before step {moment}");
            assert_eq!(
                db.check().unwrap(),
                [""; 0],
                "kind {kind}, {what:?} before step {moment}"
            );
            db.abandon();
        }
    }
}
