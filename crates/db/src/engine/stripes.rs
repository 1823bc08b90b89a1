//! The locks of conditional writes: writes that depend on what they have read.
//!
//! Ordinary writes do not take them, until the first conditional write: then all writes do, from a
//! moment on at which no write is under way that did not know of it (a grace period of the epochs).
//! So a store without conditional writes does not pay for them.

use crate::format::{Write, Writes};
use crate::locks::{HeldLocks, LockMode, LockSet, LockTable};
use alluvium_storage::Epochs;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many stripes of keys there are.
const STRIPES: usize = 1024;

/// The locks.
#[derive(Debug)]
pub(crate) struct Stripes {
    table: LockTable,
    /// Whether ordinary writes take locks.
    wanted: AtomicBool,
    /// Whether no write is under way that does not.
    settled: AtomicBool,
}

impl Default for Stripes {
    fn default() -> Stripes {
        Stripes {
            table: LockTable::new(STRIPES),
            wanted: AtomicBool::new(false),
            settled: AtomicBool::new(false),
        }
    }
}

impl Stripes {
    /// Takes the locks of an ordinary write, whose guard is pinned, if it must have them. Ordinary
    /// writes do not keep each other out.
    pub(crate) fn lock_blind(&self, writes: Writes<'_>) -> Option<HeldLocks<'_>> {
        let is_wanted = self.wanted.load(Ordering::SeqCst);
        is_wanted.then(|| self.lock(writes, LockMode::Blind))
    }

    /// Takes the locks of a conditional write: those of its keys in a mode, and those that `others`
    /// adds. No other write to the keys that are locked exclusively or shared happens while they
    /// are held, once [`Stripes::want`] has returned.
    pub(crate) fn lock_for(
        &self,
        writes: Writes<'_>,
        mode: LockMode,
        others: impl FnOnce(&mut LockSet),
    ) -> HeldLocks<'_> {
        let mut set = LockSet::default();
        others(&mut set);
        self.lock_with(set, writes, mode)
    }

    /// Takes all locks: no other write happens while they are held, once [`Stripes::want`] has
    /// returned.
    pub(crate) fn lock_everything(&self) -> HeldLocks<'_> {
        let mut set = LockSet::default();
        set.everything(LockMode::Exclusive);
        self.table.lock(set)
    }

    fn lock(&self, writes: Writes<'_>, mode: LockMode) -> HeldLocks<'_> {
        self.lock_with(LockSet::default(), writes, mode)
    }

    fn lock_with(&self, mut set: LockSet, writes: Writes<'_>, mode: LockMode) -> HeldLocks<'_> {
        for write in writes.flatten() {
            match write {
                Write::One { key, .. } => set.key(0, key, mode),
                Write::Range { .. } | Write::Ingest { .. } => set.everything(mode),
                Write::Volatile => {}
            }
        }
        self.table.lock(set)
    }

    /// Announces a conditional write; its thread has no guard of `writers`.
    pub(crate) fn want(&self, writers: &Epochs) {
        if !self.settled.load(Ordering::Acquire) {
            self.wanted.store(true, Ordering::SeqCst);
            grace(writers, || {});
            self.settled.store(true, Ordering::Release);
        }
    }
}

/// Waits until every guard that is pinned now is gone, and does meanwhile what they may wait for.
pub(crate) fn grace(epochs: &Epochs, meanwhile: impl Fn()) {
    let before = epochs.current();
    while epochs.safe() <= before {
        meanwhile();
        epochs.try_advance();
        std::thread::yield_now();
    }
}
