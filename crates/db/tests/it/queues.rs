//! Queues with many consumers: keys taken by threads, and keys claimed in transactions.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{
    Concurrency, Db, ErrorKind, Isolation, Keyspace, KeyspaceOptions, Options, Transaction,
    TransactionOptions,
};
use alluvium_device::memory::MemoryDirectory;
use std::collections::BTreeSet;
use std::ops::RangeFull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const STRUCTURES: [&str; 5] = [
    "tiered",
    "levels,k=4",
    "levels,cola,r=2",
    "paged",
    "volatile,bytes=4M",
];

const ALL: RangeFull = ..;

fn store() -> Db {
    let options = Options::new().memory(16 << 20);
    options.open_in(Arc::new(MemoryDirectory::new())).unwrap()
}

fn queue(db: &Db, structure: &str) -> Keyspace {
    let options = KeyspaceOptions::new().structure(structure.parse().unwrap());
    db.keyspace_with("queue", &options).unwrap()
}

fn locking() -> TransactionOptions {
    TransactionOptions::new().concurrency(Concurrency::Locking)
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn claimed(transaction: &Transaction, queue: &Keyspace) -> Option<Vec<u8>> {
    let claim = transaction.claim_first::<&[u8]>(queue, ALL).unwrap();
    claim.map(|(key, value)| {
        assert_eq!(value, [&b"job "[..], &key].concat());
        key
    })
}

fn add(queue: &Keyspace, numbers: impl IntoIterator<Item = u32>) {
    for number in numbers {
        queue
            .put(key(number), [&b"job "[..], &key(number)].concat())
            .unwrap();
    }
}

#[test]
fn threads_take_each_key_once_while_others_add() {
    const ADDED: u32 = 2000;
    for structure in STRUCTURES {
        let db = store();
        let queue = queue(&db, structure);
        add(&queue, 0..ADDED / 2);
        db.checkpoint().unwrap();
        let left = AtomicUsize::new(ADDED as usize);
        let taken: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let consumers: Vec<_> = (0..4)
                .map(|consumer| {
                    let (queue, left) = (&queue, &left);
                    scope.spawn(move || {
                        let mut own = Vec::new();
                        while left.load(Ordering::Relaxed) > 0 {
                            let found = match consumer {
                                0 => queue.pop_last().unwrap(),
                                _ => queue.pop_first().unwrap(),
                            };
                            let Some((key, value)) = found else { continue };
                            assert_eq!(value, [&b"job "[..], &key].concat());
                            left.fetch_sub(1, Ordering::Relaxed);
                            own.push(key);
                        }
                        own
                    })
                })
                .collect();
            add(&queue, ADDED / 2..ADDED);
            let all = consumers.into_iter().flat_map(|thread| thread.join().unwrap());
            all.collect()
        });
        let distinct: BTreeSet<Vec<u8>> = taken.iter().cloned().collect();
        assert_eq!(
            (taken.len(), distinct.len()),
            (ADDED as usize, ADDED as usize),
            "{structure}"
        );
        assert!(queue.first().unwrap().is_none() && queue.pop_first().unwrap().is_none());
    }
}

#[test]
fn one_thread_takes_keys_in_order_over_memtables_and_runs() {
    for structure in STRUCTURES {
        let db = store();
        let queue = queue(&db, structure);
        add(&queue, (0..300).rev());
        db.checkpoint().unwrap();
        add(&queue, 300..400);
        queue.delete(key(1)).unwrap();
        queue.delete_range(key(3), Some(&key(200))).unwrap();
        for expected in [0, 2, 200, 201] {
            assert_eq!(
                queue.pop_first().unwrap().unwrap().0,
                key(expected),
                "{structure}"
            );
        }
        assert_eq!(queue.pop_last().unwrap().unwrap().0, key(399));
        assert_eq!(queue.keys().count(), 197, "{structure}");
    }
}

#[test]
fn a_claimed_key_is_skipped_by_all_others_until_its_transaction_ends() {
    for structure in STRUCTURES {
        let db = store();
        let queue = queue(&db, structure);
        add(&queue, 0..5);
        let (one, two) = (db.begin_with(&locking()), db.begin_with(&locking()));
        assert_eq!(claimed(&one, &queue).unwrap(), key(0));
        assert_eq!(claimed(&one, &queue).unwrap(), key(0), "it is not deleted yet");
        one.delete(&queue, key(0)).unwrap();
        assert_eq!(claimed(&one, &queue).unwrap(), key(1));
        assert_eq!(claimed(&two, &queue).unwrap(), key(2));
        let last = two.claim_last(&queue, ..key(4)).unwrap().unwrap();
        assert_eq!(last.0, key(3));
        assert_eq!(queue.pop_first().unwrap().unwrap().0, key(4), "the only free one");
        assert!(queue.pop_first().unwrap().is_none() && queue.pop_last().unwrap().is_none());
        two.delete(&queue, key(2)).unwrap();
        two.rollback();
        one.commit().unwrap();
        let left: Vec<Vec<u8>> =
            std::iter::from_fn(|| queue.pop_first().unwrap().map(|(key, _)| key)).collect();
        assert_eq!(left, [key(1), key(2), key(3)], "{structure}: key 0 was deleted");
    }
}

#[test]
fn a_claim_sees_the_writes_of_its_transaction_even_if_they_are_spilled() {
    for memory in [1 << 20, 1] {
        let db = store();
        let queue = queue(&db, "tiered");
        add(&queue, 0..10);
        let transaction = db.begin_with(&locking().memory(memory));
        transaction.delete_range(&queue, key(0), Some(&key(4))).unwrap();
        transaction
            .put(&queue, key(20), [&b"job "[..], &key(20)].concat())
            .unwrap();
        for number in 0..200u32 {
            // Enough to spill.
            transaction
                .put(&queue, [&b"z"[..], &key(number)].concat(), [7; 100])
                .unwrap();
        }
        assert_eq!(claimed(&transaction, &queue).unwrap(), key(4));
        transaction.delete_range(&queue, key(4), Some(&key(20))).unwrap();
        assert_eq!(claimed(&transaction, &queue).unwrap(), key(20));
        transaction.commit().unwrap();
        assert_eq!(queue.first().unwrap().unwrap().0, key(20));
    }
}

#[test]
fn a_claim_of_a_snapshot_passes_what_was_changed_meanwhile() {
    let db = store();
    let queue = queue(&db, "tiered");
    add(&queue, 0..4);
    let transaction = db.begin_with(&locking().isolation(Isolation::Snapshot));
    assert_eq!(queue.pop_first().unwrap().unwrap().0, key(0));
    add(&queue, [1]);
    assert_eq!(claimed(&transaction, &queue).unwrap(), key(2));
    transaction.delete(&queue, key(2)).unwrap();
    transaction.commit().unwrap();
    assert_eq!(queue.keys().count(), 2);
}

#[test]
fn only_locking_transactions_claim_and_only_in_ordered_keyspaces() {
    let db = store();
    let queue = queue(&db, "tiered");
    add(&queue, 0..2);
    let refused = db.begin().claim_first::<&[u8]>(&queue, ALL).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("Concurrency::Locking"), "{refused}");
    let options = KeyspaceOptions::new().structure("hashed".parse().unwrap());
    let hashed = db.keyspace_with("hashed", &options).unwrap();
    hashed.put("a", "b").unwrap();
    let transaction = db.begin_with(&locking());
    let unordered = [
        hashed.pop_first().unwrap_err(),
        hashed.pop_last().unwrap_err(),
        transaction.claim_last::<&[u8]>(&hashed, ALL).unwrap_err(),
    ];
    assert!(
        unordered
            .iter()
            .all(|error| error.kind() == ErrorKind::InvalidArgument)
    );
    db.drop_keyspace("queue").unwrap();
    let dropped = [
        queue.pop_first().unwrap_err(),
        transaction.claim_first::<&[u8]>(&queue, ALL).unwrap_err(),
    ];
    assert!(dropped.iter().all(|error| error.kind() == ErrorKind::Dropped));
}

/// Three workers claim jobs in transactions, and roll back every third time. Two of them use
/// snapshot isolation. A fourth thread takes jobs with `pop_first`.
#[test]
fn each_job_is_done_once_by_workers_that_fail_now_and_then() {
    const JOBS: u32 = 600;
    for structure in ["tiered", "levels,k=4", "paged"] {
        let db = store();
        let queue = queue(&db, structure);
        let done = db.keyspace("done").unwrap();
        add(&queue, 0..JOBS);
        let left = AtomicUsize::new(JOBS as usize);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (db, queue, done, left) = (&db, &queue, &done, &left);
                scope.spawn(move || {
                    let mut attempts = 0;
                    while left.load(Ordering::Relaxed) > 0 {
                        attempts += 1;
                        if worker == 0 {
                            let Some((key, _)) = queue.pop_first().unwrap() else {
                                continue;
                            };
                            assert!(done.compare_and_set(&key, None, Some(b"once")).unwrap());
                            left.fetch_sub(1, Ordering::Relaxed);
                            continue;
                        }
                        let isolation = [Isolation::Serializable, Isolation::Snapshot][worker % 2];
                        let transaction = db.begin_with(&locking().isolation(isolation));
                        let Some(key) = claimed(&transaction, queue) else {
                            continue;
                        };
                        assert!(transaction.get(done, &key).unwrap().is_none(), "{key:?} was done");
                        transaction.put(done, &key, "once").unwrap();
                        transaction.delete(queue, &key).unwrap();
                        if attempts % 3 == 0 {
                            continue;
                        }
                        transaction.commit().unwrap();
                        left.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.keys().count(), JOBS as usize, "{structure}");
        assert!(queue.first().unwrap().is_none());
        assert!(db.transactions().is_empty());
    }
}
