//! Locks over keys, for writes that depend on what they have read.
//!
//! Ordinary writes do not take them, until the first conditional write: then all writes do, from a
//! moment on at which no write is under way that did not know of it (a grace period of the epochs).
//! So a store without conditional writes does not pay for them.

use crate::format::{Write, Writes};
use alluvium_base::checksum;
use alluvium_storage::Epochs;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many locks there are. More than one lock of a batch is taken in ascending order.
const STRIPES: usize = 256;

/// The locks.
#[derive(Debug)]
pub(crate) struct Stripes {
    locks: Box<[Mutex<()>]>,
    /// Whether writes take them.
    wanted: AtomicBool,
    /// Whether no write is under way that does not.
    settled: AtomicBool,
}

/// Locks that are held.
pub(crate) type Held<'a> = SmallVec<[MutexGuard<'a, ()>; 1]>;

impl Default for Stripes {
    fn default() -> Stripes {
        Stripes {
            locks: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            wanted: AtomicBool::new(false),
            settled: AtomicBool::new(false),
        }
    }
}

impl Stripes {
    fn stripe(key: &[u8]) -> usize {
        checksum(key) as usize % STRIPES
    }

    /// For an ordinary write, whose guard is pinned: its locks, if it must take them.
    pub(crate) fn lock_if_wanted(&self, writes: Writes<'_>) -> Held<'_> {
        if self.wanted.load(Ordering::SeqCst) {
            self.lock(writes)
        } else {
            Held::new()
        }
    }

    /// Takes the locks of every key of some writes. No other writer can write to them while they
    /// are held, once [`Stripes::want`] has returned.
    pub(crate) fn lock(&self, writes: Writes<'_>) -> Held<'_> {
        let mut stripes: SmallVec<[usize; 4]> = SmallVec::new();
        for write in writes.flatten() {
            match write {
                Write::One { key, .. } => stripes.push(Self::stripe(key)),
                Write::Range { .. } | Write::Ingest { .. } => {
                    stripes = (0..STRIPES).collect();
                    break;
                }
            }
        }
        stripes.sort_unstable();
        stripes.dedup();
        stripes.iter().map(|&stripe| self.locks[stripe].lock()).collect()
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
