//! Neighbouring keyspaces in different structures. Deletes touch the end of one and the start of
//! the next.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Keyspace, KeyspaceOptions, Options, WriteBatch};
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;

const STRUCTURES: [&str; 5] = ["tiered", "levels,k=4", "hashed", "paged", "volatile,bytes=4M"];

/// Number of records per keyspace.
const COUNT: u32 = 60;

/// Size in bytes of a store without records. Each keyspace here is larger.
const EMPTY: u64 = 64 << 10;

/// Ways to delete all of both keyspaces, or the end of the first and the start of the second.
const WAYS: [&str; 6] = ["calls", "batch", "transaction", "ends", "drop and clear", "drops"];

fn options() -> Options {
    Options::new().memory(16 << 20)
}

fn is_ordered(structure: &str) -> bool {
    structure != "hashed"
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn count(keyspace: &Keyspace, structure: &str) -> usize {
    match is_ordered(structure) {
        true => keyspace.iter().map(Result::unwrap).count(),
        false => keyspace.unordered().map(Result::unwrap).count(),
    }
}

/// Returns a store with one keyspace in each structure, whose records are all in a checkpoint.
fn filled(directory: &Arc<MemoryDirectory>, pair: [&str; 2], value: &[u8]) -> (Db, [Keyspace; 2]) {
    let db = options().workers(0).open_in(directory.clone()).unwrap();
    let keyspaces = [("one", pair[0]), ("two", pair[1])].map(|(name, structure)| {
        let options = KeyspaceOptions::new().structure(structure.parse().unwrap());
        db.keyspace_with(name, &options).unwrap()
    });
    for number in 0..COUNT {
        for keyspace in &keyspaces {
            keyspace.put(key(number), value).unwrap();
        }
    }
    db.checkpoint().unwrap();
    (db, keyspaces)
}

/// Deletes records in this way. Returns the number of remaining records in each keyspace, or `None`
/// if it was dropped.
fn delete(db: &Db, [one, two]: &[Keyspace; 2], way: &str) -> [Option<usize>; 2] {
    match way {
        "calls" => {
            one.delete_range("", None).unwrap();
            two.delete_range("", None).unwrap();
        }
        "batch" => {
            let mut batch = WriteBatch::new();
            batch.delete_range(two, "", None).unwrap();
            batch.delete_range(one, "", None).unwrap();
            db.write(&batch).unwrap();
        }
        "transaction" => {
            let transaction = db.begin();
            transaction.delete_range(one, "", None).unwrap();
            transaction.delete_range(two, "", None).unwrap();
            transaction.commit().unwrap();
        }
        "ends" => {
            one.delete_range(key(20), None).unwrap();
            two.delete_range("", Some(&key(20))).unwrap();
            return [Some(20), Some(COUNT as usize - 20)];
        }
        "drop and clear" => {
            db.drop_keyspace("one").unwrap();
            two.delete_range("", None).unwrap();
            return [None, Some(0)];
        }
        "drops" => {
            db.drop_keyspace("one").unwrap();
            db.drop_keyspace("two").unwrap();
            return [None, None];
        }
        _ => unreachable!("each way is listed"),
    }
    [Some(0), Some(0)]
}

fn pairs() -> impl Iterator<Item = [&'static str; 2]> {
    let all = STRUCTURES
        .iter()
        .flat_map(|one| STRUCTURES.map(|two| [*one, two]));
    all.filter(|[one, two]| one != two)
}

#[test]
fn what_is_deleted_on_both_sides_of_a_bound_between_structures_stays_deleted() {
    for pair in pairs() {
        for way in WAYS {
            if way == "ends" && !pair.iter().all(|structure| is_ordered(structure)) {
                continue;
            }
            let directory = Arc::new(MemoryDirectory::new());
            let (db, keyspaces) = filled(&directory, pair, b"v");
            let remaining = delete(&db, &keyspaces, way);
            let compare = |db: &Db, when: &str| {
                for (of, name) in ["one", "two"].into_iter().enumerate() {
                    // A volatile keyspace is empty after a reopen.
                    let is_gone = pair[of].starts_with("volatile") && when == "opened";
                    let wanted = remaining[of].map(|count| if is_gone { 0 } else { count });
                    let keyspace = db.existing_keyspace(name).ok();
                    let found = keyspace.map(|keyspace| count(&keyspace, pair[of]));
                    assert_eq!(found, wanted, "{name} of {pair:?}, {way}, {when}");
                }
            };
            compare(&db, "deleted");
            db.checkpoint().unwrap();
            compare(&db, "checkpointed");
            db.compact().unwrap();
            compare(&db, "compacted");
            assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{pair:?}, {way}");
            drop(keyspaces);
            db.close().unwrap();
            let db = options().workers(0).open_existing_in(directory).unwrap();
            compare(&db, "opened");
        }
    }
}

#[test]
fn a_store_whose_neighbouring_keyspaces_were_dropped_returns_the_space_of_both() {
    let value = vec![b'v'; 2000];
    let live = |db: &Db| db.stats().space.live_bytes;
    for pair in pairs() {
        let directory = Arc::new(MemoryDirectory::new());
        let (db, keyspaces) = filled(&directory, pair, &value);
        drop(keyspaces);
        db.drop_keyspace("one").unwrap();
        db.drop_keyspace("two").unwrap();
        db.checkpoint().unwrap();
        db.compact().unwrap();
        db.checkpoint().unwrap();
        db.close().unwrap();
        let db = options().workers(0).open_existing_in(directory).unwrap();
        db.compact().unwrap();
        db.checkpoint().unwrap();
        let left = live(&db);
        assert!(left <= EMPTY, "{left} bytes of {pair:?} are left");
    }
}
