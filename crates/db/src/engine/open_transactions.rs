//! The registry of open transactions: their age, their read position and the resources that they
//! hold.
//!
//! A transaction reads by one clock, taken at its begin; entries that expire later stay visible to
//! it. The time up to which compactions drop expired entries therefore never passes the clock of an
//! open transaction.

use super::Engine;
use super::ingest::RunningIngest;
use super::time::MOST_BEHIND_MS;
use crate::error::{Error, Result};
use crate::options::{Concurrency, Isolation, TransactionOptions};
use alluvium_base::SequenceNumber;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Minimum write memory of a transaction before it spills, in bytes. Each spill creates a run.
const LEAST_SHARE: usize = 16 << 10;

/// Approximate memory of a tracked read, in bytes.
const PER_READ: usize = 96;

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionEnd {
    Committed,
    RolledBack,
    /// Its commit failed with a conflict.
    Conflict,
    /// It was chosen as the victim of a deadlock.
    Deadlock,
    TooOld,
}

/// A transaction, open or ended.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) number: u64,
    began: Instant,
    timeout: Option<Duration>,
    pub(crate) isolation: Isolation,
    pub(crate) concurrency: Concurrency,
    /// Its clock, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// The pinned sequence number that it reads at. `None` if it reads the newest versions under
    /// locks.
    place: Option<SequenceNumber>,
    /// How it ended. Operations hold this lock shared, so that the read position stays pinned
    /// during them.
    ended: RwLock<Option<TransactionEnd>>,
    /// Number of tracked keys and ranges that it has read.
    pub(crate) reads: AtomicUsize,
    /// Memory of its buffered writes, in bytes.
    pub(crate) write_bytes: AtomicUsize,
    /// Bytes of keys and values spilled to disk.
    pub(crate) spilled_bytes: AtomicU64,
    /// The runs that hold the spilled writes.
    spilled: Mutex<Vec<Arc<RunningIngest>>>,
}

/// An operation in progress. While it lives, other threads cannot end the transaction.
pub(crate) type OperationGuard<'t> = RwLockReadGuard<'t, Option<TransactionEnd>>;

impl OpenTransaction {
    /// Begins an operation. Fails if the transaction has ended.
    pub(crate) fn enter(&self) -> Result<OperationGuard<'_>> {
        let ended = self.ended.read();
        match *ended {
            None => Ok(ended),
            Some(TransactionEnd::TooOld) => Err(self.too_old()),
            Some(how) => Err(Error::TransactionEnded {
                why: match how {
                    TransactionEnd::Deadlock => "it was aborted to resolve a deadlock",
                    TransactionEnd::Conflict => "it conflicted with another commit",
                    TransactionEnd::Committed => "it was committed",
                    TransactionEnd::RolledBack | TransactionEnd::TooOld => "it was rolled back",
                },
            }),
        }
    }

    /// Registers runs that the transaction spills to. They are dropped when it ends.
    pub(crate) fn spill_to(&self, runs: &Arc<RunningIngest>) {
        self.spilled.lock().push(Arc::clone(runs));
    }

    /// Returns the sequence number that it reads at.
    pub(crate) fn place(&self) -> Option<SequenceNumber> {
        self.place
    }

    /// Returns whether it exceeds its timeout.
    pub(crate) fn is_too_old(&self) -> bool {
        self.timeout.is_some_and(|most| self.began.elapsed() >= most)
    }

    /// Returns the time until its timeout.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.timeout.map(|most| most.saturating_sub(self.began.elapsed()))
    }

    pub(crate) fn too_old(&self) -> Error {
        Error::TransactionTooOld {
            most: self.timeout.unwrap_or_default(),
        }
    }
}

/// The open transactions of a store, and counters of ended ones.
#[derive(Debug, Default)]
pub(crate) struct OpenTransactions {
    list: Mutex<TransactionList>,
    /// Length of `list.open`, readable without the mutex.
    open: AtomicU64,
    begun: AtomicU64,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    conflicts: AtomicU64,
    deadlocks: AtomicU64,
    timeouts: AtomicU64,
}

#[derive(Debug, Default)]
struct TransactionList {
    open: BTreeMap<u64, Arc<OpenTransaction>>,
    /// The time up to which expired entries may have been dropped.
    ticked_ms: u64,
}

/// An open transaction, as listed by [`Db::transactions`](crate::Db::transactions).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionInfo {
    /// The transaction's number. Later transactions have higher numbers.
    pub number: u64,
    /// Time since the transaction began.
    pub age: Duration,
    /// Its isolation level, fixed when it began.
    pub isolation: Isolation,
    /// Its concurrency control, fixed when it began.
    pub concurrency: Concurrency,
    /// The sequence number that it reads at: old versions visible there are kept. `None` if it
    /// reads the newest versions under locks.
    pub sequence: Option<u64>,
    /// Number of tracked keys and ranges that it has read.
    pub reads: usize,
    /// Memory of its buffered writes, in bytes.
    pub write_bytes: usize,
    /// Bytes of keys and values spilled to disk because they exceeded its share of memory.
    pub spilled_bytes: u64,
    /// Number of locks that it holds.
    pub locks: usize,
    /// The transactions that hold locks for which it waits.
    pub waits_for: Vec<u64>,
}

/// Counts of transactions since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionStats {
    /// Transactions that are open now.
    pub open: u64,
    /// Age of the oldest open transaction, in milliseconds; zero if none is open.
    pub oldest_ms: u64,
    /// Memory of the buffered writes of open transactions, in bytes.
    pub write_bytes: u64,
    /// Bytes that open transactions have spilled to disk.
    pub spilled_bytes: u64,
    /// Transactions begun, including those still open.
    pub begun: u64,
    /// Transactions committed, including those without writes.
    pub committed: u64,
    /// Transactions rolled back by the program.
    pub rolled_back: u64,
    /// Transactions whose commit failed with a conflict.
    pub conflicts: u64,
    /// Transactions ended to resolve a deadlock.
    pub deadlocks: u64,
    /// Transactions ended by their timeout.
    pub timeouts: u64,
}

impl TransactionInfo {
    /// Returns the approximate memory of the transaction in bytes: buffered writes and tracked
    /// reads.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        memory(self.write_bytes, self.reads)
    }
}

/// Returns the approximate memory of buffered writes and tracked reads, in bytes.
fn memory(write_bytes: usize, reads: usize) -> usize {
    write_bytes.saturating_add(reads.saturating_mul(PER_READ))
}

impl OpenTransactions {
    fn counter(&self, how: TransactionEnd) -> &AtomicU64 {
        match how {
            TransactionEnd::Committed => &self.committed,
            TransactionEnd::RolledBack => &self.rolled_back,
            TransactionEnd::Conflict => &self.conflicts,
            TransactionEnd::Deadlock => &self.deadlocks,
            TransactionEnd::TooOld => &self.timeouts,
        }
    }
}

impl Engine {
    /// Begins a transaction and pins its read position, if it has one.
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
            // Entries that expired by an earlier, faster clock may have been dropped already.
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

    /// Ends a transaction, unless it has ended, and releases all its resources.
    pub(crate) fn end_transaction(&self, open: &OpenTransaction, how: TransactionEnd) {
        let mut ended = open.ended.write();
        self.end_entered(open, &mut ended, how);
    }

    fn end_entered(&self, open: &OpenTransaction, ended: &mut Option<TransactionEnd>, how: TransactionEnd) {
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

    /// Ends the transactions that exceed their timeout, except those in the middle of an operation.
    /// Returns the number of ended transactions.
    pub(crate) fn end_old_transactions(&self) -> usize {
        let list = self.transactions.list.lock();
        let old = list.open.values().filter(|open| open.is_too_old());
        let old: Vec<_> = old.cloned().collect();
        drop(list);
        let end = |open: &&Arc<OpenTransaction>| {
            let Some(mut ended) = open.ended.try_write() else {
                return false;
            };
            self.end_entered(open, &mut ended, TransactionEnd::TooOld);
            true
        };
        old.iter().filter(end).count()
    }

    /// Lets compactions drop expired entries, except those that open transactions may read.
    pub(super) fn tick(&self) {
        let mut list = self.transactions.list.lock();
        let now_ms = self.time.peek();
        if now_ms + MOST_BEHIND_MS < list.ticked_ms {
            // The previous clock was wrong: entries that only it considers expired must be kept
            // from now on.
            list.ticked_ms = now_ms;
            self.dictionaries.horizon().set_time(now_ms);
        }
        let open = list.open.values().map(|open| open.now_ms);
        let now_ms = open.chain([now_ms]).min().unwrap_or_default();
        list.ticked_ms = list.ticked_ms.max(now_ms);
        self.dictionaries.horizon().tick(now_ms);
    }

    /// Returns the approximate memory of open transactions in bytes.
    pub(super) fn transaction_memory(&self) -> u64 {
        let list = self.transactions.list.lock();
        let bytes = list.open.values().map(|open| {
            let reads = open.reads.load(Ordering::Relaxed);
            memory(open.write_bytes.load(Ordering::Relaxed), reads) as u64
        });
        bytes.sum()
    }

    /// Returns the write memory of a transaction before it spills, in bytes: open transactions
    /// share the size of one memtable.
    pub(crate) fn share_of_transaction(&self) -> usize {
        let open = self.transactions.open.load(Ordering::Relaxed).max(1);
        let share = self.plan.scale.memtable / open;
        usize::try_from(share).unwrap_or(usize::MAX).max(LEAST_SHARE)
    }

    /// Returns the memory limit of the savepoints and runs of a transaction, in bytes.
    pub(crate) fn most_memory_of_transaction(&self) -> u64 {
        match self.memory_budget() {
            0 => u64::MAX,
            budget => budget / 4,
        }
    }

    /// Lists the open transactions, oldest first.
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
