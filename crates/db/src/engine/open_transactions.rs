//! The transactions that are open: since when, at which place they read, what they hold back.
//!
//! A transaction reads by one clock, that of its begin. So what expires after that stays for it:
//! the time up to which compactions drop what has expired never passes the clock of an open
//! transaction.

use super::Engine;
use super::ingest::UnderWay;
use super::time::MOST_BEHIND_MS;
use crate::transaction_options::{Concurrency, Isolation, TransactionOptions};
use crate::{Error, Result};
use alluvium_base::Sequence;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The least memory that a transaction has for its writes, in bytes: each spill is a run.
const LEAST_SHARE: usize = 16 << 10;

/// What a key that was read takes, about, in bytes.
const PER_READ: usize = 96;

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Committed,
    RolledBack,
    /// It met a conflict at its commit.
    Conflict,
    /// It was chosen to end a deadlock.
    Deadlock,
    /// It was older than it may be.
    TooOld,
}

/// A transaction that is open, or was.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) number: u64,
    began: Instant,
    timeout: Option<Duration>,
    pub(crate) isolation: Isolation,
    pub(crate) concurrency: Concurrency,
    /// Its clock, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// The place that it reads at, which is pinned; none if it reads what is newest under locks.
    place: Option<Sequence>,
    /// How it has ended. Operations hold the lock, so that the place stays pinned meanwhile.
    ended: RwLock<Option<Ended>>,
    /// Keys and ranges that it has read, as far as they are tracked.
    pub(crate) reads: AtomicUsize,
    /// Memory of its writes, in bytes.
    pub(crate) write_bytes: AtomicUsize,
    /// Bytes of keys and values that were spilled to disk.
    pub(crate) spilled_bytes: AtomicU64,
    /// The runs that they are in.
    spilled: Mutex<Vec<Arc<UnderWay>>>,
}

/// An operation of a transaction: it is not ended by others meanwhile.
pub(crate) type Entered<'t> = RwLockReadGuard<'t, Option<Ended>>;

impl OpenTransaction {
    /// Begins an operation.
    pub(crate) fn enter(&self) -> Result<Entered<'_>> {
        let ended = self.ended.read();
        match *ended {
            None => Ok(ended),
            Some(Ended::TooOld) => Err(self.too_old()),
            Some(how) => Err(Error::TransactionEnded {
                why: match how {
                    Ended::Deadlock => "it was chosen to end a deadlock",
                    Ended::Conflict => "it met a conflict",
                    Ended::Committed => "it was committed",
                    Ended::RolledBack | Ended::TooOld => "it was rolled back",
                },
            }),
        }
    }

    /// Notes that it writes to these runs, which end with it.
    pub(crate) fn spill_to(&self, runs: &Arc<UnderWay>) {
        self.spilled.lock().push(Arc::clone(runs));
    }

    /// Returns the place that it reads at.
    pub(crate) fn place(&self) -> Option<Sequence> {
        self.place
    }

    /// Returns whether it is older than it may be.
    pub(crate) fn is_too_old(&self) -> bool {
        self.timeout.is_some_and(|most| self.began.elapsed() >= most)
    }

    /// Returns how long it may still go on.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.timeout.map(|most| most.saturating_sub(self.began.elapsed()))
    }

    pub(crate) fn too_old(&self) -> Error {
        Error::TransactionTooOld {
            most: self.timeout.unwrap_or_default(),
        }
    }
}

/// The open transactions of a store, and how others have ended.
#[derive(Debug, Default)]
pub(crate) struct OpenTransactions {
    list: Mutex<List>,
    /// How many are in the list.
    open: AtomicU64,
    begun: AtomicU64,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    conflicts: AtomicU64,
    deadlocks: AtomicU64,
    timeouts: AtomicU64,
}

#[derive(Debug, Default)]
struct List {
    open: BTreeMap<u64, Arc<OpenTransaction>>,
    /// The time up to which what has expired may be gone.
    ticked_ms: u64,
}

/// An open transaction, as [`Db::transactions`](crate::Db::transactions) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionInfo {
    /// Its number: later transactions have higher ones.
    pub number: u64,
    /// How long ago it began.
    pub age: Duration,
    /// What it may see of others.
    pub isolation: Isolation,
    /// How it is kept apart from others.
    pub concurrency: Concurrency,
    /// The sequence number that it reads at: later versions of what it may read are kept beside the
    /// newest. `None` if it reads what is newest under locks.
    pub sequence: Option<u64>,
    /// How many keys and ranges it has read, as far as they are tracked.
    pub reads: usize,
    /// The memory of its writes, in bytes.
    pub write_bytes: usize,
    /// The bytes of keys and values that it has spilled to disk, being more than its share of the
    /// memory.
    pub spilled_bytes: u64,
    /// How many locks it holds.
    pub locks: usize,
    /// The numbers of the transactions for whose locks it waits.
    pub waits_for: Vec<u64>,
}

/// How many transactions there were, and how they have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionStats {
    /// Transactions that are open.
    pub open: u64,
    /// The age of the oldest of them, in milliseconds.
    pub oldest_ms: u64,
    /// The memory of their writes, in bytes.
    pub write_bytes: u64,
    /// The bytes of keys and values that they have spilled to disk.
    pub spilled_bytes: u64,
    /// Transactions that were begun.
    pub begun: u64,
    /// Those that were committed.
    pub committed: u64,
    /// Those that were rolled back by the program.
    pub rolled_back: u64,
    /// Commits that met a conflict.
    pub conflicts: u64,
    /// Those that were chosen to end a deadlock.
    pub deadlocks: u64,
    /// Those that were ended for their age.
    pub timeouts: u64,
}

impl TransactionInfo {
    /// Returns about how many bytes of memory it takes: its writes, and what it remembers as read.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        memory(self.write_bytes, self.reads)
    }
}

/// About what writes and reads of a transaction take, in bytes.
fn memory(write_bytes: usize, reads: usize) -> usize {
    write_bytes.saturating_add(reads.saturating_mul(PER_READ))
}

impl OpenTransactions {
    fn counter(&self, how: Ended) -> &AtomicU64 {
        match how {
            Ended::Committed => &self.committed,
            Ended::RolledBack => &self.rolled_back,
            Ended::Conflict => &self.conflicts,
            Ended::Deadlock => &self.deadlocks,
            Ended::TooOld => &self.timeouts,
        }
    }
}

impl Engine {
    /// Begins a transaction, and pins the place that it reads at if it has one.
    pub(crate) fn begin_transaction(&self, options: &TransactionOptions) -> Arc<OpenTransaction> {
        if options.concurrency == Concurrency::Locking {
            self.begin_locking();
        }
        let number = self.locks.next_number();
        let reads_newest =
            options.isolation == Isolation::Serializable && options.concurrency == Concurrency::Locking;
        let transactions = &self.transactions;
        let mut list = transactions.list.lock();
        let open = Arc::new(OpenTransaction {
            number,
            began: Instant::now(),
            timeout: options.timeout,
            isolation: options.isolation,
            concurrency: options.concurrency,
            // What has expired by a clock that was ahead may be gone.
            now_ms: self.now_ms().max(list.ticked_ms),
            place: (!reads_newest).then(|| self.open_snapshot()),
            ended: RwLock::new(None),
            reads: AtomicUsize::new(0),
            write_bytes: AtomicUsize::new(0),
            spilled_bytes: AtomicU64::new(0),
            spilled: Mutex::default(),
        });
        let before = list.open.insert(number, Arc::clone(&open));
        assert!(before.is_none(), "transaction {number} was begun twice");
        transactions.open.fetch_add(1, Ordering::Relaxed);
        transactions.begun.fetch_add(1, Ordering::Relaxed);
        open
    }

    /// Ends a transaction, if it has not ended: it holds nothing back any more.
    pub(crate) fn end_transaction(&self, open: &OpenTransaction, how: Ended) {
        let mut ended = open.ended.write();
        self.end_entered(open, &mut ended, how);
    }

    fn end_entered(&self, open: &OpenTransaction, ended: &mut Option<Ended>, how: Ended) {
        if ended.is_some() {
            return;
        }
        *ended = Some(how);
        if let Some(place) = open.place {
            self.close_snapshot(place);
        }
        for runs in open.spilled.lock().drain(..) {
            runs.end();
        }
        if open.concurrency == Concurrency::Locking {
            self.locks.end(open.number);
        }
        self.transactions.list.lock().open.remove(&open.number);
        self.transactions.open.fetch_sub(1, Ordering::Relaxed);
        self.transactions.counter(how).fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the transactions that are older than they may be, but for those in the middle of an
    /// operation. Returns how many were ended.
    pub(crate) fn end_old_transactions(&self) -> usize {
        let list = self.transactions.list.lock();
        let old = list.open.values().filter(|open| open.is_too_old());
        let old: Vec<_> = old.cloned().collect();
        drop(list);
        let end = |open: &&Arc<OpenTransaction>| {
            let Some(mut ended) = open.ended.try_write() else {
                return false;
            };
            self.end_entered(open, &mut ended, Ended::TooOld);
            true
        };
        old.iter().filter(end).count()
    }

    /// Has compactions drop what has expired, but for what open transactions may read.
    pub(super) fn tick(&self) {
        let mut list = self.transactions.list.lock();
        let now_ms = self.time.peek();
        if now_ms + MOST_BEHIND_MS < list.ticked_ms {
            // By a clock that was wrong nothing more expires.
            list.ticked_ms = now_ms;
            self.dictionaries.horizon().set_time(now_ms);
        }
        let open = list.open.values().map(|open| open.now_ms);
        let now_ms = open.chain([now_ms]).min().unwrap_or_default();
        list.ticked_ms = list.ticked_ms.max(now_ms);
        self.dictionaries.horizon().tick(now_ms);
    }

    /// Returns about how many bytes of memory open transactions take.
    pub(super) fn transaction_memory(&self) -> u64 {
        let list = self.transactions.list.lock();
        let bytes = list.open.values().map(|open| {
            let reads = open.reads.load(Ordering::Relaxed);
            memory(open.write_bytes.load(Ordering::Relaxed), reads) as u64
        });
        bytes.sum()
    }

    /// Returns how many bytes of memory the writes of a transaction may take before they are
    /// spilled: open transactions share what a memtable may take.
    pub(crate) fn share_of_transaction(&self) -> usize {
        let open = self.transactions.open.load(Ordering::Relaxed).max(1);
        let share = self.plan.scale.memtable / open;
        usize::try_from(share).unwrap_or(usize::MAX).max(LEAST_SHARE)
    }

    /// Returns how many bytes of memory savepoints and runs of a transaction may take.
    pub(crate) fn most_memory_of_transaction(&self) -> u64 {
        match self.memory_budget() {
            0 => u64::MAX,
            budget => budget / 4,
        }
    }

    /// Lists the open transactions, the oldest first.
    pub(crate) fn open_transactions(&self) -> Vec<TransactionInfo> {
        let list = self.transactions.list.lock();
        let info = |open: &Arc<OpenTransaction>| TransactionInfo {
            number: open.number,
            age: open.began.elapsed(),
            isolation: open.isolation,
            concurrency: open.concurrency,
            sequence: open.place,
            reads: open.reads.load(Ordering::Relaxed),
            write_bytes: open.write_bytes.load(Ordering::Relaxed),
            spilled_bytes: open.spilled_bytes.load(Ordering::Relaxed),
            locks: self.locks.held(open.number),
            waits_for: self.locks.waits_for(open.number),
        };
        list.open.values().map(info).collect()
    }

    /// Counts transactions.
    pub(crate) fn transaction_stats(&self) -> TransactionStats {
        let transactions = &self.transactions;
        let list = transactions.list.lock();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let open = list.open.values();
        let bytes = open.map(|open| open.write_bytes.load(Ordering::Relaxed) as u64);
        let spilled = list.open.values().map(|open| of(&open.spilled_bytes));
        let oldest = list.open.values().map(|open| open.began.elapsed()).max();
        TransactionStats {
            open: list.open.len() as u64,
            oldest_ms: oldest.unwrap_or_default().as_millis() as u64,
            write_bytes: bytes.sum(),
            spilled_bytes: spilled.sum(),
            begun: of(&transactions.begun),
            committed: of(&transactions.committed),
            rolled_back: of(&transactions.rolled_back),
            conflicts: of(&transactions.conflicts),
            deadlocks: of(&transactions.deadlocks),
            timeouts: of(&transactions.timeouts),
        }
    }
}
