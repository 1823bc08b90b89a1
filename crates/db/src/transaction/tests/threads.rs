//! Tests that run transactions of all kinds on several threads, along with writes outside of
//! transactions and a background worker. The commit order is unknown, so only the cycle checker
//! applies.

use super::cycles;
use super::driver::scale;
use super::history::{Committed, History, LISTS, Op, State};
use crate::admin::simulation::DirectoryOpener as _;
use crate::db::Db;
use crate::error::{ErrorKind, Result};
use crate::keyspace::Keyspace;
use crate::locking::fault::{self, IsolationFault};
use crate::options::{Concurrency, Isolation, KeyspaceOptions, Options, TransactionOptions};
use crate::write::batch::WriteBatch;
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

const THREADS: u64 = 4;
const KEYS: u8 = 4;

/// Number of transactions that each thread commits.
const EACH: usize = 150;

struct World {
    db: Db,
    lists: Keyspace,
    isolation: Isolation,
    elements: AtomicU32,
    names: AtomicUsize,
    /// Number of commits whose calls have returned.
    returned: AtomicUsize,
    committed: Mutex<Vec<Committed>>,
}

impl World {
    fn element(&self) -> Vec<u8> {
        let element = 1 + self.elements.fetch_add(1, Ordering::Relaxed);
        element.to_be_bytes().to_vec()
    }

    /// Runs a transaction. Returns its operations, or `None` if it must be retried.
    fn run(&self, random: &mut fastrand::Rng) -> Result<Option<Vec<Op>>> {
        let concurrency = match random.bool() {
            true => Concurrency::Optimistic,
            false => Concurrency::Locking,
        };
        let options = TransactionOptions::new()
            .isolation(self.isolation)
            .concurrency(concurrency);
        let transaction = self.db.begin_with(&options);
        let mut ops = Vec::new();
        for _ in 0..random.usize(1..5) {
            let key = vec![LISTS, b'a' + random.u8(0..KEYS)];
            let name = &key[1..];
            match random.u32(0..5) {
                0 => {
                    let seen = transaction.get(&self.lists, name)?.map(Vec::from);
                    ops.push(Op::Get {
                        key,
                        seen,
                        for_update: false,
                    });
                }
                1 => {
                    let (low, high) = (vec![LISTS, b'a'], vec![LISTS, b'z']);
                    let pairs = transaction.range(&self.lists, &low[1..]..&high[1..]);
                    let pairs =
                        pairs.map(|pair| pair.map(|(key, value)| ([&[LISTS], &key[..]].concat(), value)));
                    let seen = pairs.map(|pair| pair.map(|(key, value)| (key, value.into_vec())));
                    ops.push(Op::Walk {
                        low,
                        high,
                        is_backward: false,
                        seen: seen.collect::<Result<_>>()?,
                        has_ended: true,
                    });
                }
                2 => {
                    let element = self.element();
                    transaction.merge(&self.lists, name, &element)?;
                    ops.push(Op::Append { key, element });
                }
                _ => {
                    let seen = transaction.get_for_update(&self.lists, name)?.map(Vec::from);
                    let mut list = seen.clone().unwrap_or_default();
                    list.extend(self.element());
                    transaction.put(&self.lists, name, &list)?;
                    ops.push(Op::Get {
                        key: key.clone(),
                        seen,
                        for_update: true,
                    });
                    ops.push(Op::Put { key, value: list });
                }
            }
        }
        transaction.commit()?;
        Ok(Some(ops))
    }

    fn write_plainly(&self, random: &mut fastrand::Rng) -> Result<Vec<Op>> {
        let key = vec![LISTS, b'a' + random.u8(0..KEYS)];
        let element = self.element();
        self.lists.merge(&key[1..], &element)?;
        Ok(vec![Op::Append { key, element }])
    }

    /// Runs transactions until the thread has committed the required number.
    fn work(&self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut done = 0;
        while done < EACH {
            let began = self.returned.load(Ordering::SeqCst);
            let ran = match random.u32(0..8) {
                0 => self.write_plainly(&mut random).map(Some),
                _ => self.run(&mut random),
            };
            let ops = match ran {
                Ok(Some(ops)) => ops,
                Ok(None) => continue,
                Err(error) => {
                    let kind = error.kind();
                    let is_expected = matches!(kind, ErrorKind::Conflict | ErrorKind::Deadlock);
                    assert!(is_expected, "{error}");
                    continue;
                }
            };
            done += 1;
            let mut committed = self.committed.lock().unwrap();
            let ended = 1 + self.returned.fetch_add(1, Ordering::SeqCst);
            committed.push(Committed {
                name: self.names.fetch_add(1, Ordering::Relaxed),
                began,
                ended,
                ops,
            });
        }
    }
}

fn history(isolation: Isolation, seed: u64) -> History {
    let options = Options::new().simulated(scale(), || 1000).workers(1);
    let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let append = KeyspaceOptions::new().merge_operator("append");
    let lists = db.keyspace_with("lists", &append).unwrap();
    let world = World {
        db,
        lists,
        isolation,
        elements: AtomicU32::new(0),
        names: AtomicUsize::new(1),
        returned: AtomicUsize::new(0),
        committed: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let world = &world;
            scope.spawn(move || world.work(seed * THREADS + thread));
        }
    });
    assert!(world.db.transactions().is_empty());
    let mut last = State::new();
    for pair in world.lists.iter() {
        let (key, value) = pair.unwrap();
        last.insert([&[LISTS], &key[..]].concat(), value.into_vec());
    }
    History {
        committed: world.committed.into_inner().unwrap(),
        last,
        reads_newest: false,
        refused: 0,
        full: 0,
        beside: 0,
    }
}

#[test]
fn threads_with_both_mechanisms_leave_histories_that_are_permitted() {
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        for seed in 1..4 {
            let history = history(isolation, seed);
            let found = cycles::check(&history, isolation);
            assert!(found.is_empty(), "{isolation:?} {seed}: {found:#?}\n{history}");
        }
    }
}

/// Tests whether a locking transaction can see only part of a batch. Writers set two keys to the
/// same value in a batch, while locking transactions run and another thread lets writes skip the
/// locks whenever possible. Returns whether a transaction that had locked the first key ever saw a
/// different value in the second key.
fn sees_half_of_a_batch(seed: u64, do_writers_ignore_locks: bool) -> bool {
    let db = Options::new().memory(16 << 20).workers(1).in_memory().unwrap();
    let pairs = db.keyspace("pairs").unwrap();
    let engine = &pairs.shared().engine;
    let locking = TransactionOptions::new().concurrency(Concurrency::Locking);
    let (is_over, has_seen) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        for writer in 0..2u32 {
            let (db, pairs, is_over) = (&db, &pairs, &is_over);
            threads.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let value = (2 * number + writer).to_be_bytes();
                    let mut batch = WriteBatch::new();
                    batch.put(pairs, "one", value).unwrap();
                    batch.put(pairs, "two", value).unwrap();
                    match do_writers_ignore_locks {
                        true => fault::with(IsolationFault::WritesIgnoreLocks, || db.write(&batch)).unwrap(),
                        false => db.write(&batch).unwrap(),
                    };
                }
            });
        }
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                engine.locks.disable_if_idle();
                std::thread::yield_now();
            }
        });
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..400 {
            let transaction = db.begin_with(&locking);
            let one = transaction.get(&pairs, "one").unwrap();
            for _ in 0..random.u32(..4) {
                std::thread::yield_now();
            }
            has_seen.fetch_or(one != transaction.get(&pairs, "two").unwrap(), Ordering::Relaxed);
            transaction.rollback();
            for _ in 0..random.u32(..4) {
                std::thread::yield_now();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    has_seen.into_inner()
}

#[test]
fn locks_hold_although_writes_leave_them_alone_between_transactions() {
    assert!(!sees_half_of_a_batch(28, false));
    let finds = (0..1_000).any(|seed| sees_half_of_a_batch(seed, true));
    assert!(finds, "writes that ignore locks are noticed");
}

#[test]
fn writes_leave_the_locks_alone_once_no_locking_transaction_is_open() {
    let db = Options::new().memory(16 << 20).workers(0).in_memory().unwrap();
    let pairs = db.keyspace("pairs").unwrap();
    let locks = &pairs.shared().engine.locks;
    let locking = TransactionOptions::new().concurrency(Concurrency::Locking);
    assert!(!locks.are_required());
    let open = db.begin_with(&locking);
    for _ in 0..3 {
        locks.disable_if_idle();
        assert!(locks.are_required(), "one is open");
    }
    open.rollback();
    locks.disable_if_idle();
    assert!(locks.are_required(), "one was open a moment ago");
    db.begin_with(&locking).rollback();
    locks.disable_if_idle();
    assert!(locks.are_required(), "one was begun meanwhile");
    locks.disable_if_idle();
    assert!(!locks.are_required());
    drop(db.begin_with(&locking));
    assert!(locks.are_required());
}
