//! The registry of open transactions: their ages, the sequence numbers at which they read, and the
//! resources that they use.
//!
//! A transaction considers an entry expired if its expiry time had passed when the transaction
//! began. Entries that expire later remain visible to the transaction, so compactions never drop an
//! entry that some open transaction does not consider expired.

use super::Engine;
use super::ingest::{IngestOwner, RunningIngest};
use super::queue::RECORD_OVERHEAD;
use super::time::MOST_BEHIND_MS;
use crate::error::{Error, Result};
use crate::options::{Concurrency, Isolation, TransactionOptions};
use alluvium_base::SequenceNumber;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Minimum number of bytes of writes that a transaction buffers in memory before spilling them to
/// disk. Each spill creates a run, so spills must not be too small.
const LEAST_SHARE: usize = 16 << 10;

/// Approximate memory that a tracked read needs, in bytes.
const PER_READ: usize = 96;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionEnd {
    Committed,
    RolledBack,
    /// The commit of the transaction failed because of a conflict.
    Conflict,
    /// The transaction was aborted to resolve a deadlock.
    Deadlock,
    TooOld,
}

/// A registered transaction, which may have ended.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) number: u64,
    began: Instant,
    timeout: Option<Duration>,
    pub(crate) isolation: Isolation,
    pub(crate) concurrency: Concurrency,
    /// The time to which the transaction compares expiry times, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// The pinned sequence number at which the transaction reads. `None` if the transaction locks
    /// what it reads and therefore reads the newest versions.
    place: Option<SequenceNumber>,
    /// How the transaction ended, or `None` while it is open. Each operation holds this lock in
    /// shared mode, so that the transaction's sequence number stays pinned during the operation.
    ended: RwLock<Option<TransactionEnd>>,
    /// How the transaction ends. It is set before `ended`, so that operations that begin while a
    /// thread waits to end the transaction are rejected and do not delay it.
    ending: OnceLock<TransactionEnd>,
    /// Number of keys and ranges that the transaction has read and tracks.
    pub(crate) reads: AtomicUsize,
    /// Memory of the transaction's buffered writes, in bytes.
    pub(crate) write_bytes: AtomicUsize,
    /// Number of bytes of keys and values that the transaction has spilled to disk.
    pub(crate) spilled_bytes: AtomicU64,
    /// The runs that contain the spilled writes.
    spilled: Mutex<Vec<Arc<RunningIngest>>>,
}

/// Guard for an operation in progress. While it exists, no other thread can end the transaction.
pub(crate) type OperationGuard<'t> = RwLockReadGuard<'t, Option<TransactionEnd>>;

impl OpenTransaction {
    /// Begins an operation of the transaction. Fails if the transaction has ended.
    pub(crate) fn enter(&self) -> Result<OperationGuard<'_>> {
        if let Some(how) = self.ending() {
            return Err(self.ended_by(how));
        }
        // Recursive, because a thread may begin an operation inside another one or while others
        // wait for it, and must not wait for a thread that ends the transaction.
        let ended = self.ended.read_recursive();
        match *ended {
            None => Ok(ended),
            Some(how) => Err(self.ended_by(how)),
        }
    }

    /// Returns how the transaction has ended or is about to end. Returns `None` while it is open.
    pub(crate) fn ending(&self) -> Option<TransactionEnd> {
        self.ending.get().copied()
    }

    fn ended_by(&self, how: TransactionEnd) -> Error {
        Error::TransactionEnded {
            why: match how {
                TransactionEnd::TooOld => return self.too_old(),
                TransactionEnd::Deadlock => "it was aborted to resolve a deadlock",
                TransactionEnd::Conflict => "it conflicted with another commit",
                TransactionEnd::Committed => "it was committed",
                TransactionEnd::RolledBack => "it was rolled back",
            },
        }
    }

    /// Registers runs that the transaction spills writes to. They are dropped when the transaction
    /// ends.
    pub(crate) fn spill_to(self: &Arc<Self>, runs: &Arc<RunningIngest>) {
        let owner = Arc::downgrade(self);
        runs.set_owner(owner);
        self.spilled.lock().push(Arc::clone(runs));
    }

    fn spilled_layers(&self) -> u64 {
        self.spilled.lock().iter().map(|runs| runs.layers()).sum()
    }

    /// Returns the pinned sequence number at which the transaction reads, if it has one.
    pub(crate) fn place(&self) -> Option<SequenceNumber> {
        self.place
    }

    /// Returns whether the transaction has exceeded its timeout.
    pub(crate) fn is_too_old(&self) -> bool {
        self.timeout.is_some_and(|most| self.began.elapsed() >= most)
    }

    /// Returns the time left until the transaction's timeout, or `None` if it has no timeout.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.timeout.map(|most| most.saturating_sub(self.began.elapsed()))
    }

    pub(crate) fn too_old(&self) -> Error {
        Error::TransactionTooOld {
            most: self.timeout.unwrap_or_default(),
        }
    }
}

impl IngestOwner for OpenTransaction {
    fn why_ended(&self) -> Option<Error> {
        self.ending().map(|how| self.ended_by(how))
    }
}

/// A store's open transactions, and counters of the ended ones.
#[derive(Debug, Default)]
pub(crate) struct OpenTransactions {
    list: Mutex<TransactionList>,
    /// Number of open transactions. It equals the length of `list.open`, but can be read without
    /// the mutex.
    open: AtomicU64,
    /// Total memory of the buffered writes of open transactions, in bytes.
    buffered: AtomicUsize,
    begun: AtomicU64,
    committed: AtomicU64,
    attached: AtomicU64,
    rolled_back: AtomicU64,
    conflicts: AtomicU64,
    deadlocks: AtomicU64,
    timeouts: AtomicU64,
}

#[derive(Debug, Default)]
struct TransactionList {
    open: BTreeMap<u64, Arc<OpenTransaction>>,
    /// Compactions may have dropped entries that had expired at this time (milliseconds since
    /// 1970).
    ticked_ms: u64,
}

/// Describes an open transaction. [`Db::transactions`](crate::Db::transactions) returns a list of
/// these.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionInfo {
    /// Number of the transaction. Transactions that begin later have higher numbers.
    pub number: u64,
    /// Time since the transaction began.
    pub age: Duration,
    /// Isolation level of the transaction. It cannot change after the transaction has begun.
    pub isolation: Isolation,
    /// Concurrency control of the transaction. It cannot change after the transaction has begun.
    pub concurrency: Concurrency,
    /// The sequence number at which the transaction reads. The store keeps all versions visible at
    /// this number. `None` if the transaction locks what it reads and therefore reads the newest
    /// versions.
    pub sequence: Option<u64>,
    /// Number of keys and ranges that the transaction has read and tracks.
    pub reads: usize,
    /// Memory of the transaction's buffered writes, in bytes.
    pub write_bytes: usize,
    /// Number of bytes of keys and values spilled to disk because the transaction exceeded its
    /// share of memory.
    pub spilled_bytes: u64,
    /// Number of layers of spilled writes. Each lookup of the transaction searches them from newest
    /// to oldest. Background threads merge them, so that their number grows with the logarithm of
    /// the transaction's size.
    pub spilled_layers: u64,
    /// Number of locks that the transaction holds.
    pub locks: usize,
    /// Numbers of the transactions whose locks this transaction is waiting for.
    pub waits_for: Vec<u64>,
}

/// Counters of transactions since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionStats {
    /// Number of transactions that are open now.
    pub open: u64,
    /// Age of the oldest open transaction, in milliseconds. Zero if no transaction is open.
    pub oldest_ms: u64,
    /// Total memory of the buffered writes of open transactions, in bytes.
    pub write_bytes: u64,
    /// Total number of bytes that open transactions have spilled to disk.
    pub spilled_bytes: u64,
    /// Total number of layers of spilled writes in open transactions. See
    /// [`TransactionInfo::spilled_layers`].
    pub spilled_layers: u64,
    /// Number of transactions begun, including those still open.
    pub begun: u64,
    /// Number of transactions committed, including those without writes.
    pub committed: u64,
    /// Number of committed transactions whose writes on disk became part of the store without being
    /// logged, each with two checkpoints.
    pub attached: u64,
    /// Number of transactions rolled back by the application.
    pub rolled_back: u64,
    /// Number of transactions whose commit failed because of a conflict.
    pub conflicts: u64,
    /// Number of transactions aborted to resolve a deadlock.
    pub deadlocks: u64,
    /// Number of transactions aborted because they exceeded their timeout.
    pub timeouts: u64,
}

impl TransactionInfo {
    /// Returns the approximate memory of the transaction's buffered writes and tracked reads, in
    /// bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        memory(self.write_bytes, self.reads)
    }
}

/// Returns the approximate memory of `write_bytes` bytes of buffered writes and `reads` tracked
/// reads, in bytes.
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
    /// Begins a transaction, and pins the sequence number at which it reads. A transaction that
    /// reads the newest versions under locks pins none.
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
            // The clock may have been fast before. Entries that had expired by that clock may
            // already have been dropped, so the transaction must consider them expired.
            now_ms: self.now_ms().max(list.ticked_ms),
            place: (!reads_newest).then(|| self.open_snapshot()),
            ended: RwLock::new(None),
            ending: OnceLock::new(),
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

    /// Ends a transaction and releases all its resources. Does nothing if the transaction has
    /// already ended.
    pub(crate) fn end_transaction(&self, open: &OpenTransaction, how: TransactionEnd) {
        open.ending.get_or_init(|| how);
        let mut ended = open.ended.write();
        self.end_entered(open, &mut ended, how);
        // If the transaction had already timed out, its owner may have counted writes since then.
        self.set_write_bytes(open, 0);
    }

    fn end_entered(&self, open: &OpenTransaction, ended: &mut Option<TransactionEnd>, how: TransactionEnd) {
        if ended.is_some() {
            return;
        }
        let how = *open.ending.get_or_init(|| how);
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
        self.set_write_bytes(open, 0);
        self.transactions.list.lock().open.remove(&open.number);
        self.transactions.open.fetch_sub(1, Ordering::Relaxed);
        self.transactions.counter(how).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a transaction whose commit attached its runs.
    pub(crate) fn count_attached(&self) {
        self.transactions.attached.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the transactions that have exceeded their timeout, except those with an operation in
    /// progress. Returns how many were ended.
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

    /// Advances the time up to which compactions drop expired entries, but keeps entries that an
    /// open transaction may still read.
    pub(super) fn tick(&self) {
        let mut list = self.transactions.list.lock();
        let now_ms = self.time.peek();
        if now_ms + MOST_BEHIND_MS < list.ticked_ms {
            // The earlier clock was wrong. From now on, keep entries that have expired only by that
            // clock.
            list.ticked_ms = now_ms;
            self.dictionaries.horizon().set_time(now_ms);
        }
        let open = list.open.values().map(|open| open.now_ms);
        let now_ms = open.chain([now_ms]).min().unwrap_or_default();
        list.ticked_ms = list.ticked_ms.max(now_ms);
        self.dictionaries.horizon().tick(now_ms);
    }

    /// Returns the approximate memory of all open transactions, in bytes.
    pub(super) fn transaction_memory(&self) -> u64 {
        let list = self.transactions.list.lock();
        let bytes = list.open.values().map(|open| {
            let reads = open.reads.load(Ordering::Relaxed);
            memory(open.write_bytes.load(Ordering::Relaxed), reads) as u64
        });
        bytes.sum()
    }

    /// Returns how many bytes of writes the transaction `open` may buffer in memory before spilling
    /// them to disk: whatever the other open transactions leave of one memtable's size, but at
    /// least an equal share of half a memtable. Idle or small transactions therefore do not make
    /// others spill.
    pub(crate) fn share_of_transaction(&self, open: &OpenTransaction) -> usize {
        let count = self.transactions.open.load(Ordering::Relaxed).max(1);
        let all = self.transactions.buffered.load(Ordering::Relaxed);
        let others = all.saturating_sub(open.write_bytes.load(Ordering::Relaxed));
        let memtable = self.plan.scale.memtable;
        let share = memtable.saturating_sub(others as u64).max(memtable / (2 * count));
        usize::try_from(share).unwrap_or(usize::MAX).max(LEAST_SHARE)
    }

    /// Returns the maximum number of memtable bytes of a transaction whose commit reads spilled
    /// writes back, which is `most` or less. The commit needs a memtable of its own, which must not
    /// be much larger than others, and it must fit into the log.
    pub(crate) fn most_read_back(&self, most: u64) -> u64 {
        let scale = &self.plan.scale;
        most.min(2 * scale.memtable).min(scale.log.limit_bytes / 2)
    }

    /// Returns the maximum number of memtable bytes that `records` records with keys and values of
    /// `bytes` bytes can need.
    pub(crate) fn memtable_bytes(&self, bytes: u64, records: u64) -> u64 {
        bytes + records * RECORD_OVERHEAD
    }

    /// Sets the memory of a transaction's buffered writes to `bytes`.
    pub(crate) fn set_write_bytes(&self, open: &OpenTransaction, bytes: usize) {
        let buffered = &self.transactions.buffered;
        buffered.fetch_add(bytes, Ordering::Relaxed);
        buffered.fetch_sub(open.write_bytes.swap(bytes, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the maximum memory for the savepoints and runs of one transaction, in bytes.
    pub(crate) fn most_memory_of_transaction(&self) -> u64 {
        match self.memory_budget() {
            0 => u64::MAX,
            budget => budget / 4,
        }
    }

    /// Returns a list of the open transactions, oldest first.
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
            spilled_layers: open.spilled_layers(),
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
            spilled_layers: list.open.values().map(|open| open.spilled_layers()).sum(),
            begun: of(&transactions.begun),
            committed: of(&transactions.committed),
            attached: of(&transactions.attached),
            rolled_back: of(&transactions.rolled_back),
            conflicts: of(&transactions.conflicts),
            deadlocks: of(&transactions.deadlocks),
            timeouts: of(&transactions.timeouts),
        }
    }
}
