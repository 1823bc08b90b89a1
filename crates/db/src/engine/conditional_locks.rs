//! Locks for conditional writes, which depend on data that they have read.
//!
//! Ordinary writes acquire no locks until the first conditional write, so a store without
//! conditional writes has no locking cost. From then on, all writes acquire locks. The first
//! conditional write waits until every write that started without locks has finished, which is a
//! grace period of the epochs.

use crate::locking::locks::{HeldLocks, LockMode, LockSet, LockTable};
use crate::schema::format::{LogWrite, LogWriteIter};
use alluvium_storage::Epochs;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of lock stripes. Each key hashes to one of them.
const STRIPES: usize = 1024;

/// Striped locks of conditional writes. After the first conditional write, ordinary writes acquire
/// them too.
#[derive(Debug)]
pub(crate) struct ConditionalLocks {
    table: LockTable,
    /// Whether ordinary writes must acquire locks.
    wanted: AtomicBool,
    /// Whether every write in progress has acquired locks, because the grace period after `wanted`
    /// was set is over.
    settled: AtomicBool,
}

impl Default for ConditionalLocks {
    fn default() -> ConditionalLocks {
        ConditionalLocks {
            table: LockTable::new(STRIPES),
            wanted: AtomicBool::new(false),
            settled: AtomicBool::new(false),
        }
    }
}

impl ConditionalLocks {
    /// Acquires the locks of an ordinary write, or returns `None` if ordinary writes need no locks
    /// yet. The caller must have pinned `writers`. Ordinary writes do not exclude each other.
    pub(crate) fn lock_blind(&self, writes: LogWriteIter<'_>) -> Option<HeldLocks<'_>> {
        let is_wanted = self.wanted.load(Ordering::SeqCst);
        is_wanted.then(|| self.lock(writes, LockMode::Blind))
    }

    /// Acquires the locks of a conditional write: those of its written keys, in mode `mode`, and
    /// those that `others` adds. The caller must have called [`ConditionalLocks::require_locks`].
    /// While the locks are held, no other write changes keys that are locked in exclusive or shared
    /// mode.
    pub(crate) fn lock_for(
        &self,
        writes: LogWriteIter<'_>,
        mode: LockMode,
        others: impl FnOnce(&mut LockSet),
    ) -> HeldLocks<'_> {
        let mut set = LockSet::default();
        others(&mut set);
        self.lock_with(set, writes, mode)
    }

    /// Acquires all locks, which excludes all other writes while they are held. The caller must
    /// have called [`ConditionalLocks::require_locks`].
    pub(crate) fn lock_everything(&self) -> HeldLocks<'_> {
        let mut set = LockSet::default();
        set.everything(LockMode::Exclusive);
        self.table.lock(set)
    }

    fn lock(&self, writes: LogWriteIter<'_>, mode: LockMode) -> HeldLocks<'_> {
        self.lock_with(LockSet::default(), writes, mode)
    }

    fn lock_with(&self, mut set: LockSet, writes: LogWriteIter<'_>, mode: LockMode) -> HeldLocks<'_> {
        for write in writes.flatten() {
            match write {
                LogWrite::One { key, .. } => set.key(0, key, mode),
                LogWrite::Range { .. } | LogWrite::Ingest { .. } => set.everything(mode),
                LogWrite::Volatile => {}
            }
        }
        self.table.lock(set)
    }

    /// Makes all writes acquire locks from now on, and waits for writes that started without locks.
    /// The calling thread must not have pinned `writers`, or it would wait for itself.
    pub(crate) fn require_locks(&self, writers: &Epochs) {
        if !self.settled.load(Ordering::Acquire) {
            self.wanted.store(true, Ordering::SeqCst);
            wait_for_grace_period(writers, || {});
            self.settled.store(true, Ordering::Release);
        }
    }
}

/// Waits until every guard that was pinned when this was called has been released. While waiting,
/// calls `meanwhile` repeatedly to do work that the guards' owners may depend on.
pub(crate) fn wait_for_grace_period(epochs: &Epochs, meanwhile: impl Fn()) {
    let before = epochs.current();
    while epochs.safe() <= before {
        meanwhile();
        epochs.try_advance();
        std::thread::yield_now();
    }
}
