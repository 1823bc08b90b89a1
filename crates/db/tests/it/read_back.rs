//! Transactions that spill a little. Their commits read the spilled writes back and log them.

use crate::spills::keyspaces_in;
use crate::transactions::kinds;
use alluvium::simulation::DirectoryOpener as _;
use alluvium::{
    Change, Db, Durability, ErrorKind, Isolation, Keyspace, Options, Transaction, TransactionOptions,
};
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Size of a memtable with the least memory, which is the share of a transaction that is alone.
const SHARE: usize = 1 << 20;

fn options() -> Options {
    Options::new().memory(16 << 20).workers(0)
}

/// Puts values of a thousand bytes with a total of at least `bytes` bytes. Returns their number.
fn fill(transaction: &Transaction, keyspace: &Keyspace, bytes: usize) -> u32 {
    let count = (bytes / 1000) as u32;
    for number in 0..count {
        let value = [number as u8; 1000];
        transaction.put(keyspace, number.to_be_bytes(), value).unwrap();
    }
    count
}

#[test]
fn a_transaction_slightly_above_its_share_is_logged_without_a_checkpoint() {
    let directory = Arc::new(MemoryDirectory::new());
    let db = options().open_in(directory.clone()).unwrap();
    let data = db.keyspace("data").unwrap();
    for (turn, kind) in kinds().into_iter().enumerate() {
        for (bytes, checkpoints) in [(SHARE * 11 / 10, 0), (3 * SHARE, 2)] {
            let before = db.stats();
            let transaction = db.begin_with(&kind);
            let count = fill(&transaction, &data, bytes);
            assert!(db.stats().transactions.spilled_bytes > 0, "it has spilled");
            transaction.commit_with(Durability::Process).unwrap();
            let after = db.stats();
            let made = after.checkpoints - before.checkpoints;
            assert_eq!(made, checkpoints, "turn {turn}, {bytes} bytes");
            let attached = after.transactions.attached - before.transactions.attached;
            assert_eq!(attached, u64::from(checkpoints > 0));
            assert_eq!(after.space.provisional_bytes, 0, "the runs are gone");
            assert_eq!(data.iter().count(), count as usize);
            data.delete_range("", None).unwrap();
        }
    }
}

/// Writes every kind of message to a keyspace whose operator is `append`. Each call spills.
fn write_all_kinds(transaction: &Transaction, [filler, lists]: &[Keyspace; 2]) {
    let spill = || {
        for number in 0..10u8 {
            transaction.put(filler, [number], [number; 600]).unwrap();
        }
    };
    let (past, future) = (
        SystemTime::now() - Duration::from_secs(3600),
        SystemTime::now() + Duration::from_secs(3600),
    );
    transaction.merge(lists, "below deleted", "x").unwrap();
    spill();
    transaction.delete_range(lists, "", None).unwrap();
    transaction.merge(lists, "above deleted", "a").unwrap();
    spill();
    transaction.put(lists, "put", "1").unwrap();
    transaction.put(lists, "deleted", "1").unwrap();
    transaction.put_until(lists, "future", "1", future).unwrap();
    transaction.put_until(lists, "past", "1", past).unwrap();
    transaction.put(lists, "long", [7; 40_000]).unwrap();
    spill();
    transaction.merge(lists, "put", "2").unwrap();
    transaction.merge(lists, "future", "2").unwrap();
    transaction.merge(lists, "past", "2").unwrap();
    transaction.delete(lists, "deleted").unwrap();
    transaction.merge(lists, "above deleted", "b").unwrap();
    spill();
    transaction.merge(lists, "put", "3").unwrap();
    transaction.merge(lists, "past", "3").unwrap();
    transaction.merge(lists, "future", "3").unwrap();
}

fn pairs(keyspace: &Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = keyspace.unordered().map(Result::unwrap);
    let mut pairs: Vec<_> = pairs.map(|(key, value)| (key, value.into_vec())).collect();
    pairs.sort();
    pairs
}

#[test]
fn what_is_read_back_has_the_same_effect_as_what_is_attached() {
    for structure in [
        "tiered",
        "levels,k=2",
        "hashed",
        "hashed,form=bot",
        "volatile,bytes=1M",
    ] {
        for kind in kinds() {
            let committed = [5000, 60_000].map(|memory| {
                let db = options().in_memory().unwrap();
                let keyspaces = keyspaces_in(&db, structure);
                for key in ["below deleted", "above deleted", "put", "future", "only deleted"] {
                    keyspaces[1].put(key, "old").unwrap();
                }
                let transaction = db.begin_with(&kind.clone().memory(memory));
                // A savepoint that still refers to spilled writes does not matter.
                transaction.savepoint();
                write_all_kinds(&transaction, &keyspaces);
                fill(&transaction, &keyspaces[0], 16_000);
                let before = transaction.unordered(&keyspaces[1]).count();
                assert!(db.stats().transactions.spilled_bytes > 0);
                transaction.commit().unwrap();
                let attached = db.stats().transactions.attached;
                assert_eq!(attached, u64::from(memory == 5000), "{structure}");
                let found = pairs(&keyspaces[1]);
                assert_eq!(found.len(), before);
                assert_eq!(db.check().unwrap(), Vec::<String>::new());
                (found, pairs(&keyspaces[0]))
            });
            assert_eq!(committed[0], committed[1], "{structure}, {kind:?}");
            let value = |key: &str| {
                let found = committed[1].0.iter().find(|(name, _)| *name == key.as_bytes());
                found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
            };
            let expected = [
                ("put", "123"),
                ("future", "123"),
                ("past", "23"),
                ("above deleted", "ab"),
            ];
            for (key, expected) in expected {
                assert_eq!(value(key).as_deref(), Some(expected), "{structure}, {key}");
            }
            for key in ["below deleted", "deleted", "only deleted"] {
                assert_eq!(value(key), None, "{structure}, {key}");
            }
        }
    }
}

/// Returns a transaction that has spilled a hundred keys, and whose commit reads them back.
fn spilled(db: &Db, keyspace: &Keyspace, options: TransactionOptions) -> Transaction {
    let transaction = db.begin_with(&options.memory(14_000));
    for number in 0..100u8 {
        transaction.put(keyspace, [number], [number; 50]).unwrap();
    }
    transaction
}

#[test]
fn a_key_that_is_read_back_conflicts_like_any_other_under_snapshot_isolation() {
    let db = options().in_memory().unwrap();
    let [plain, lists] = keyspaces_in(&db, "tiered");
    let snapshot = || TransactionOptions::new().isolation(Isolation::Snapshot);
    let (meets, passes) = (spilled(&db, &plain, snapshot()), spilled(&db, &lists, snapshot()));
    let blind = spilled(&db, &plain, TransactionOptions::new());
    let ranges = spilled(&db, &plain, snapshot());
    ranges.delete_range(&lists, "x", Some(b"y")).unwrap();
    fill(&ranges, &plain, 3000);
    plain.put([3], "first").unwrap();
    lists.put("xx", "first").unwrap();
    passes.commit().unwrap();
    assert_eq!(meets.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(ranges.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(plain.get([3]).unwrap().unwrap(), b"first");
    blind.commit().unwrap();
    assert_eq!(plain.get([3]).unwrap().unwrap(), &[3; 50][..]);
    assert_eq!(db.stats().transactions.attached, 0);
}

#[test]
fn a_feed_of_changes_has_the_keys_that_were_read_back() {
    let options = Options::new().memory(16 << 20).keep_log(8 << 20);
    let db = options.in_memory().unwrap();
    let [plain, _] = keyspaces_in(&db, "tiered");
    let feed = db.changes_since(db.sequence()).unwrap();
    spilled(&db, &plain, TransactionOptions::new()).commit().unwrap();
    plain.put("after", "1").unwrap();
    let sets: Vec<_> = feed.map(Result::unwrap).collect();
    let changes: Vec<&Change> = sets.iter().flat_map(|set| &set.changes).collect();
    assert_eq!(changes.len(), 101);
    assert!(changes.iter().all(|change| matches!(change, Change::Put { .. })));
}

#[test]
fn a_dropped_keyspace_refuses_what_would_be_read_back() {
    let db = options().in_memory().unwrap();
    let [plain, _] = keyspaces_in(&db, "tiered");
    let transaction = spilled(&db, &plain, TransactionOptions::new());
    db.drop_keyspace("plain").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Dropped);
    assert_eq!(db.stats().space.provisional_bytes, 0);
}
