//! The locks of conditional writes: writes that depend on what they have read.
//!
//! Ordinary writes take no locks until the first conditional write. From then on all writes take
//! them; the first conditional write waits until no write is in progress that started without locks
//! (a grace period of the epochs). A store without conditional writes therefore does not pay for
//! them.

use crate::locking::locks::{HeldLocks, LockMode, LockSet, LockTable};
use crate::schema::format::{LogWrite, LogWriteIter};
use alluvium_storage::Epochs;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of lock stripes that keys are hashed to.
const STRIPES: usize = 1024;

/// Striped locks, which ordinary writes take as well after the first conditional write.
#[derive(Debug)]
pub(crate) struct ConditionalLocks {
    table: LockTable,
    /// Whether ordinary writes take locks.
    wanted: AtomicBool,
    /// Whether all writes in progress take locks.
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
    /// Takes the locks of an ordinary write if they are required. The caller has pinned `writers`.
    /// Ordinary writes do not exclude each other.
    pub(crate) fn lock_blind(&self, writes: LogWriteIter<'_>) -> Option<HeldLocks<'_>> {
        let is_wanted = self.wanted.load(Ordering::SeqCst);
        is_wanted.then(|| self.lock(writes, LockMode::Blind))
    }

    /// Takes the locks of a conditional write: those of its keys in `mode`, and those that `others`
    /// adds. After [`ConditionalLocks::require_locks`] has returned, no other write changes keys
    /// locked as exclusive or shared while the locks are held.
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

    /// Takes all locks. After [`ConditionalLocks::require_locks`] has returned, no other write
    /// happens while they are held.
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

    /// Makes all writes take locks from now on. The calling thread must not have pinned `writers`.
    pub(crate) fn require_locks(&self, writers: &Epochs) {
        if !self.settled.load(Ordering::Acquire) {
            self.wanted.store(true, Ordering::SeqCst);
            wait_for_grace_period(writers, || {});
            self.settled.store(true, Ordering::Release);
        }
    }
}

/// Waits until every guard pinned now is released. Calls `meanwhile` repeatedly, for work that the
/// guards' owners may wait for.
pub(crate) fn wait_for_grace_period(epochs: &Epochs, meanwhile: impl Fn()) {
    let before = epochs.current();
    while epochs.safe() <= before {
        meanwhile();
        epochs.try_advance();
        std::thread::yield_now();
    }
}
