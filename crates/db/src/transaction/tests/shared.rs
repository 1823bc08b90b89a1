//! Tests that share one transaction among threads.
//!
//! Each thread writes to keys of its own, so that a model says what it must read at any moment.
//! Some keys belong to all threads: counters, and pairs of keys whose values tell a reader whether
//! it sees one moment.

use crate::db::Db;
use crate::error::{Error, ErrorKind};
use crate::keyspace::Keyspace;
use crate::locking::fault::{self, IsolationFault};
use crate::options::{Concurrency, Isolation, KeyspaceOptions, Options, TransactionOptions};
use crate::transaction::Transaction;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: u8 = 4;

const STRUCTURES: [&str; 6] = [
    "tiered",
    "levels,k=4",
    "hashed",
    "hashed,form=bot",
    "paged,node=16384,key=64,value=2000",
    "volatile,bytes=4M",
];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A transaction that several threads use, and its keyspaces.
struct Shared {
    transaction: Transaction,
    lists: Keyspace,
    counters: Keyspace,
    /// Number of successful increments of each counter.
    tickets: AtomicU64,
    added: AtomicU64,
    is_ordered: bool,
}

/// A thread and the state of its keys.
#[derive(Clone)]
struct Worker {
    name: u8,
    random: fastrand::Rng,
    model: Model,
    pairs: u64,
}

fn shared(db: &Db, structure: &str, options: &TransactionOptions) -> Shared {
    let append = KeyspaceOptions::new().merge_operator("append");
    let lists = db
        .keyspace_with("lists", &append.structure(structure.parse().unwrap()))
        .unwrap();
    let add = KeyspaceOptions::new().merge_operator("add");
    let counters = db.keyspace_with("counters", &add).unwrap();
    Shared {
        transaction: db.begin_with(options),
        lists,
        counters,
        tickets: AtomicU64::new(0),
        added: AtomicU64::new(0),
        is_ordered: !structure.starts_with("hashed"),
    }
}

impl Worker {
    fn new(name: u8, seed: u64) -> Worker {
        Worker {
            name,
            random: fastrand::Rng::with_seed(seed * 100 + u64::from(name)),
            model: Model::new(),
            pairs: 0,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        vec![b'k', self.name, self.random.u8(..20)]
    }

    fn write(&mut self, shared: &Shared) {
        let (own, lists) = (&shared.transaction, &shared.lists);
        let (key, mut value) = (self.key(), vec![self.random.u8(..); self.random.usize(..300)]);
        match self.random.u8(..16) {
            0..2 => {
                own.delete(lists, &key).unwrap();
                self.model.remove(&key);
            }
            2..7 => {
                value.truncate(4);
                own.merge(lists, &key, &value).unwrap();
                self.model.entry(key).or_default().extend(&value);
            }
            7 if shared.is_ordered => {
                let end = [&key[..2], &[key[2] + 5]].concat();
                own.delete_range(lists, &key, Some(&end)).unwrap();
                self.model.retain(|other, _| *other < key || *other >= end);
            }
            8 => {
                let before = self.model.get(&key).cloned();
                let done = own.compare_and_set(lists, &key, before.as_deref(), Some(&value));
                assert!(done.unwrap(), "no other thread writes to the key");
                self.model.insert(key, value);
            }
            9 => {
                own.merge(&shared.counters, "added", 1i64.to_le_bytes()).unwrap();
                shared.added.fetch_add(1, Ordering::Relaxed);
            }
            10 => {
                let before = own.get(&shared.counters, "tickets").unwrap();
                let before = before.map(|value| i64::from_le_bytes(value[..].try_into().unwrap()));
                let after = (before.unwrap_or(0) + 1).to_le_bytes();
                let before = before.map(i64::to_le_bytes);
                let before = before.as_ref().map(|before| &before[..]);
                let done = own.compare_and_set(&shared.counters, "tickets", before, Some(&after));
                shared
                    .tickets
                    .fetch_add(u64::from(done.unwrap()), Ordering::Relaxed);
            }
            11 => {
                self.pairs += 1;
                let value = self.pairs.to_le_bytes();
                own.put(&shared.counters, [b'a', self.name], value).unwrap();
                own.put(&shared.counters, [b'b', self.name], value).unwrap();
            }
            _ => {
                own.put(lists, &key, &value).unwrap();
                self.model.insert(key, value);
            }
        }
    }

    fn read(&mut self, shared: &Shared) {
        let (own, lists, name) = (&shared.transaction, &shared.lists, self.name);
        let key = self.key();
        match self.random.u8(..8) {
            0 if shared.is_ordered => assert_eq!(walked(own, lists, name), self.model, "thread {name}"),
            1 => {
                let keys = [self.key(), self.key(), self.key()];
                let found = own.multi_get(lists, &keys).unwrap();
                for (key, found) in keys.iter().zip(found) {
                    let expected = self.model.get(key).map(Vec::as_slice);
                    assert_eq!(found.as_deref(), expected, "thread {name}, {key:?}");
                }
            }
            2 => self.read_pairs(shared),
            3 => {
                let found = own.unordered(lists).map(|pair| pair.unwrap());
                let found = found.map(|(key, value)| (key, value.into_vec()));
                let found: Vec<(Vec<u8>, Vec<u8>)> = found.filter(|(key, _)| key[1] == name).collect();
                let model: Model = found.iter().cloned().collect();
                assert_eq!(found.len(), model.len(), "each key is returned once");
                assert_eq!(model, self.model, "thread {name}");
            }
            _ => {
                let found = own.get(lists, &key).unwrap();
                let expected = self.model.get(&key).map(Vec::as_slice);
                assert_eq!(found.as_deref(), expected, "thread {name}, {key:?}");
            }
        }
    }

    /// Reads the pairs of all threads. The first key of a pair is written before the second.
    fn read_pairs(&self, shared: &Shared) {
        let own = &shared.transaction;
        let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
        let walk = own.range(&shared.counters, "a".."c").map(|pair| pair.unwrap());
        let walked: BTreeMap<Vec<u8>, u64> = walk.map(|(key, value)| (key, number(&value))).collect();
        let keys = (0..THREADS).flat_map(|name| [[b'a', name], [b'b', name]]);
        let found = own.multi_get(&shared.counters, keys).unwrap();
        for name in 0..THREADS {
            let of = |letter| walked.get(&vec![letter, name]).copied().unwrap_or(0);
            let (first, second) = (of(b'a'), of(b'b'));
            assert!(first - second <= 1, "a walk sees one moment: {first} {second}");
            let of = |at: usize| found[2 * usize::from(name) + at].as_deref().map_or(0, number);
            let (later, second) = (of(0), of(1));
            assert!(later - second <= 1, "a read sees one moment: {later} {second}");
            assert!(later >= first, "reads are in order: {first} {later}");
        }
    }
}

fn walked(own: &Transaction, lists: &Keyspace, name: u8) -> Model {
    let walk = own.prefix(lists, [b'k', name]).map(|pair| pair.unwrap());
    walk.map(|(key, value)| (key, value.into_vec())).collect()
}

/// Runs one thread for each worker, each of which calls `step` a number of times.
fn run(workers: &mut [Worker], steps: usize, step: impl Fn(&mut Worker) + Sync) {
    let (step, planted) = (&step, fault::planted());
    thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || fault::with_any(planted, || (0..steps).for_each(|_| step(worker))));
        }
    });
}

/// Checks that the transaction has the state of all models.
fn check(shared: &Shared, workers: &[Worker]) {
    let models = workers.iter().flat_map(|worker| worker.model.clone());
    let expected: Model = models.collect();
    let found = shared
        .transaction
        .unordered(&shared.lists)
        .map(|pair| pair.unwrap());
    let found: Model = found.map(|(key, value)| (key, value.into_vec())).collect();
    assert_eq!(found, expected);
    for worker in workers.iter().filter(|_| shared.is_ordered) {
        let found = walked(&shared.transaction, &shared.lists, worker.name);
        assert_eq!(found, worker.model);
    }
    let counter = |name: &str| {
        let value = shared.transaction.get(&shared.counters, name).unwrap();
        value.map_or(0, |value| {
            i64::from_le_bytes(value[..].try_into().unwrap()) as u64
        })
    };
    assert_eq!(counter("added"), shared.added.load(Ordering::Relaxed));
    assert_eq!(counter("tickets"), shared.tickets.load(Ordering::Relaxed));
}

/// Reads from several threads while another one writes, spills, and rolls back to a savepoint.
fn read_during_rollbacks(shared: &Shared, workers: &mut [Worker]) {
    let (is_over, own) = (AtomicBool::new(false), &shared.transaction);
    let planted = fault::planted();
    thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            fault::with_any(planted, || {
                let mut turns = 0;
                while !is_over.load(Ordering::Relaxed) && turns < 200 {
                    turns += 1;
                    let savepoint = own.savepoint();
                    for name in 0..THREADS {
                        own.merge(&shared.lists, [b'k', name, turns % 20], "junk")
                            .unwrap();
                        own.put(&shared.lists, [b'k', name, 200], [7; 400]).unwrap();
                    }
                    own.rollback_to(&savepoint).unwrap();
                    own.release(&savepoint).unwrap();
                }
            });
        });
        scope.spawn(move || {
            fault::with_any(planted, || {
                // Each read is that of a moment inside or outside of a turn, so it has either no
                // junk or all of it.
                for worker in &mut *workers {
                    for key in (0..20).map(|at| vec![b'k', worker.name, at]) {
                        let found = own.get(&shared.lists, &key).unwrap();
                        let before = worker.model.get(&key).map_or(&b""[..], Vec::as_slice);
                        let found = found.as_deref().unwrap_or_default();
                        let after = [before, b"junk"].concat();
                        assert!(found == before || found == after, "{key:?}: {found:?} {before:?}");
                    }
                }
                is_over.store(true, Ordering::Relaxed);
            });
        });
    });
}

/// Runs a transaction on several threads, and panics if a thread reads anything wrong.
fn story(seed: u64, structure: &str, options: &TransactionOptions) {
    let db = Options::new().memory(16 << 20).in_memory().unwrap();
    let mut shared = shared(&db, structure, options);
    let mut workers: Vec<Worker> = (0..THREADS).map(|name| Worker::new(name, seed)).collect();
    let write_and_read = |worker: &mut Worker| {
        worker.write(&shared);
        worker.read(&shared);
        if worker.random.u8(..40) == 0 {
            // Other threads may remove the savepoint, because they release an earlier one.
            let savepoint = shared.transaction.savepoint();
            worker.write(&shared);
            let released = shared.transaction.release(&savepoint);
            assert!(matches!(released, Ok(()) | Err(Error::NoSuchSavepoint)));
        }
    };
    run(&mut workers, 150, write_and_read);
    check(&shared, &workers);

    let savepoint = shared.transaction.savepoint();
    let before = workers.clone();
    let counts = (
        shared.added.load(Ordering::Relaxed),
        shared.tickets.load(Ordering::Relaxed),
    );
    run(&mut workers, 60, |worker| {
        worker.write(&shared);
        worker.read(&shared);
    });
    check(&shared, &workers);
    // A scan sees the writes of its creation, although they are rolled back while it runs.
    let expected: Model = workers.iter().flat_map(|worker| worker.model.clone()).collect();
    let mut scan = shared
        .transaction
        .unordered(&shared.lists)
        .map(|pair| pair.unwrap());
    let mut found: Model = scan
        .by_ref()
        .take(3)
        .map(|(key, value)| (key, value.into_vec()))
        .collect();
    shared.transaction.rollback_to(&savepoint).unwrap();
    found.extend(scan.map(|(key, value)| (key, value.into_vec())));
    assert_eq!(found, expected);
    shared.added.store(counts.0, Ordering::Relaxed);
    shared.tickets.store(counts.1, Ordering::Relaxed);
    workers = before;
    check(&shared, &workers);
    read_during_rollbacks(&shared, &mut workers);
    check(&shared, &workers);
    run(&mut workers, 60, |worker| worker.write(&shared));
    check(&shared, &workers);

    let (transaction, next) = (shared.transaction, db.begin());
    transaction.commit().unwrap();
    drop(next);
    shared.transaction = db.begin();
    check(&shared, &workers);
}

#[test]
fn threads_that_share_a_transaction_read_what_they_have_written() {
    for (seed, structure) in (1..).zip(STRUCTURES) {
        for (at, options) in kinds().into_iter().enumerate() {
            for memory in [None, Some(3000)] {
                let options = match memory {
                    None => options.clone(),
                    Some(memory) => options.clone().memory(memory),
                };
                story(seed * 10 + at as u64, structure, &options);
            }
        }
    }
}

#[test]
fn planted_races_between_threads_of_a_transaction_are_found() {
    for planted in [
        IsolationFault::SpillsAreNotNoticed,
        IsolationFault::CompareAndSetIsNotAtomic,
    ] {
        let options = TransactionOptions::new().memory(1500);
        let is_found = (1..60).any(|seed| {
            let run = || fault::with(planted, || story(seed, "tiered", &options));
            std::panic::catch_unwind(run).is_err()
        });
        assert!(is_found, "{planted:?}");
    }
}

/// Waits until a transaction of the store waits for locks of another one.
fn wait_for_waiting(db: &Db, number: u64) {
    let waits = || {
        db.transactions()
            .into_iter()
            .any(|one| one.number == number && !one.waits_for.is_empty())
    };
    while !waits() {
        thread::sleep(Duration::from_millis(1));
    }
}

fn kinds() -> [TransactionOptions; 4] {
    let of = |isolation, concurrency| {
        TransactionOptions::new()
            .isolation(isolation)
            .concurrency(concurrency)
    };
    [
        of(Isolation::Serializable, Concurrency::Optimistic),
        of(Isolation::Serializable, Concurrency::Locking),
        of(Isolation::Snapshot, Concurrency::Optimistic),
        of(Isolation::Snapshot, Concurrency::Locking),
    ]
}

fn locking(isolation: Isolation) -> TransactionOptions {
    let options = TransactionOptions::new().isolation(isolation);
    options
        .concurrency(Concurrency::Locking)
        .lock_timeout(Duration::from_secs(60))
}

#[test]
fn a_thread_that_waits_for_a_lock_delays_no_other_thread_of_its_transaction() {
    let db = Options::new().memory(16 << 20).in_memory().unwrap();
    let data = db.keyspace("data").unwrap();
    data.put("hot", "old").unwrap();
    let holder = db.begin_with(&locking(Isolation::Serializable));
    holder.put(&data, "hot", "new").unwrap();
    let own = db.begin_with(&locking(Isolation::Serializable));
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| own.get_for_update(&data, "hot").unwrap().unwrap()))
            .collect();
        let replaced = scope.spawn(|| own.compare_and_set(&data, "hot", Some(b"new"), Some(b"newest")));
        wait_for_waiting(&db, own.number());
        own.put(&data, "cold", "1").unwrap();
        assert_eq!(own.get(&data, "cold").unwrap().unwrap(), b"1");
        let savepoint = own.savepoint();
        own.delete_range(&data, "a", Some(b"d")).unwrap();
        own.rollback_to(&savepoint).unwrap();
        assert_eq!(own.prefix(&data, "c").count(), 1);
        holder.commit().unwrap();
        for waiter in waiters {
            let found = waiter.join().unwrap();
            assert!(found == b"new"[..] || found == b"newest"[..], "{found:?}");
        }
        assert!(replaced.join().unwrap().unwrap());
    });
    own.commit().unwrap();
    assert_eq!(data.get("hot").unwrap().unwrap(), b"newest");
}

#[test]
fn the_end_of_a_transaction_ends_the_waiting_of_its_threads_and_leaves_no_lock() {
    let db = Options::new().memory(16 << 20).in_memory().unwrap();
    let data = db.keyspace("data").unwrap();
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let other = db.begin_with(&locking(isolation));
        other.put(&data, "one", "1").unwrap();
        other.put(&data, "two", "2").unwrap();
        let own = db.begin_with(&locking(isolation));
        own.put(&data, "three", "3").unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| own.put(&data, "one", "11"));
            wait_for_waiting(&db, own.number());
            let blocked = scope.spawn(|| other.put(&data, "three", "33"));
            // The waiting threads and this one form a circle, and `own` is the youngest in it.
            let ended = waiter.join().unwrap().unwrap_err();
            let second = own.put(&data, "two", "22").unwrap_err();
            assert!(matches!(ended.kind(), ErrorKind::Deadlock), "{ended}");
            assert!(matches!(second, Error::TransactionEnded { .. }), "{second}");
            blocked.join().unwrap().unwrap();
        });
        assert!(own.get(&data, "x").is_err());
        drop(own);
        other.commit().unwrap();
        // Nothing is locked any more.
        data.put("three", "4").unwrap();
    }
}

#[test]
fn all_waiting_threads_of_a_transaction_that_is_rolled_back_by_a_deadlock_return() {
    let db = Options::new().memory(16 << 20).in_memory().unwrap();
    let data = db.keyspace("data").unwrap();
    let [first, second] = [(), ()].map(|()| db.begin_with(&locking(Isolation::Serializable)));
    first.put(&data, "first", "1").unwrap();
    second.put(&data, "second", "2").unwrap();
    let own = db.begin_with(&locking(Isolation::Serializable));
    own.put(&data, "own", "3").unwrap();
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            barrier.wait();
            own.put(&data, "second", "33")
        });
        barrier.wait();
        wait_for_waiting(&db, own.number());
        let blocked = scope.spawn(|| first.put(&data, "own", "11"));
        wait_for_waiting(&db, first.number());
        // This closes a circle. The other waiting thread is in no circle, but its transaction ends.
        let refused = own.put(&data, "first", "31").unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Deadlock), "{refused}");
        let ended = waiter.join().unwrap().unwrap_err();
        assert!(
            matches!(ended, Error::Deadlock { .. } | Error::TransactionEnded { .. }),
            "{ended}"
        );
        blocked.join().unwrap().unwrap();
    });
    drop(own);
    first.commit().unwrap();
    second.commit().unwrap();
    assert_eq!(data.get("own").unwrap().unwrap(), b"11");
}
