//! Epochs: safe memory reclamation for objects that readers may still reach.
//!
//! *Scope*: the readers, and the epoch each of them is pinned at.
//!
//! *Must not depend on*: the objects that are read, unlinked or freed.
//!
//! A reader pins: it stores the epoch it sees in its own word, on its own cache line, and only then
//! follows pointers (SplinterDB's distributed reader counters in their cheapest form; Fraser 2004,
//! *Practical lock-freedom*, §5.2.3, is the scheme). A writer unlinks an object, reads the epoch
//! `e`, and frees the object once `e <` [`Epochs::safe`]. The epoch advances only when every pinned
//! participant has seen it.
//!
//! # Why that is right
//!
//! *G* is the epoch. Pinning: read *G* = w, store the slot, fence F1, read *G* again and start over
//! unless it is still w. Unlinking: store, fence F2, read *G* = e. Advancing from n: read *G* = n,
//! fence F3, read all slots and counts, compare-exchange *G* to n + 1. Suppose that a guard pinned
//! at w loads the link *before* it is unlinked, and that the object is freed at *G* ≥ e + 2 while
//! the guard lives. Fences are totally ordered, and F1 < F2, because the guard's load after F1 does
//! not see the store before F2.
//!
//! 1. w ≤ e: if w ≥ e + 1, the guard read from the advance to e + 1 or a later one, which F2's
//!    thread does not see after F2, so F2 < F1, a contradiction.
//! 2. The advance from e + 1 to e + 2 has its F3 after the advance to e + 1. If F1 < F3, it saw the
//!    slot at w ≤ e and did not advance. If F3 < F1, then F3 < F2, and F2's thread must have read
//!    *G* ≥ e + 1. Both are contradictions.
//!
//! The second read of *G* gives more: while a guard at w lives, *G* is w or w + 1. Hence a
//! [`EpochHold`], which is counted under its epoch, can be created at the epoch of the thread's
//! guard and protects everything that the guard does, and at most two epochs have counted
//! participants at any time.
//!
//! Invariants:
//!
//! - **R1** While a guard or hold at epoch w is alive, `current()` is w or w + 1.
//! - **R2** Counted participants (holds, and guards of threads without a slot) are at epoch
//!   `current()` or the one before.
//! - **R3** An object unlinked before `e = current()` was read is unreachable by every guard and
//!   hold once `e < safe()`.
//! - **R4** Only the thread that has claimed a slot writes its word.

pub(crate) mod ledger;
#[cfg(all(test, alluvium_model_check))]
mod model_check;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod threads;

use ledger::EpochLedger;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use threads::ThreadSlot;

/// The id of the next `Epochs`. Ids are never reused, so a stale one never matches.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
struct EpochsInner {
    id: u64,
    handles: AtomicUsize,
    ledger: EpochLedger,
}

impl EpochsInner {
    /// Returns whether no handle is left, so that no thread can pin any more.
    fn is_abandoned(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }
}

/// The epochs of one store. Clones share them.
///
/// ```
/// use alluvium_storage::Epochs;
/// let epochs = Epochs::new();
/// let guard = epochs.pin();
/// let unlinked_at = epochs.current();
/// epochs.try_advance();
/// epochs.try_advance();
/// assert!(epochs.safe() <= unlinked_at, "the guard may still see it");
/// drop(guard);
/// epochs.try_advance();
/// assert!(unlinked_at < epochs.safe());
/// ```
#[derive(Debug)]
pub struct Epochs {
    shared: Arc<EpochsInner>,
}

impl Epochs {
    #[must_use]
    pub fn new() -> Epochs {
        let shared = EpochsInner {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            handles: AtomicUsize::new(1),
            ledger: EpochLedger::new(),
        };
        Epochs {
            shared: Arc::new(shared),
        }
    }

    /// Pins the calling thread. Pinning again while a guard lives costs two plain stores.
    ///
    /// The first 512 threads have their own words. A thread beyond them is counted in a shared
    /// word, which is slower but otherwise equivalent.
    #[inline]
    #[must_use]
    pub fn pin(&self) -> EpochGuard {
        match threads::claimed(&self.shared) {
            Some(claimed) => {
                // SAFETY: the calling thread has claimed it, and `self` is a live handle.
                let epoch = self.shared.ledger.enter(unsafe { claimed.slot() });
                EpochGuard {
                    id: self.shared.id,
                    epoch,
                    participant: EpochParticipant::Slot(claimed),
                    _not_send: PhantomData,
                }
            }
            None => self.pin_counted(),
        }
    }

    #[cold]
    fn pin_counted(&self) -> EpochGuard {
        EpochGuard {
            id: self.shared.id,
            epoch: self.shared.ledger.count_in(),
            participant: EpochParticipant::Counted(Arc::clone(&self.shared)),
            _not_send: PhantomData,
        }
    }

    /// Returns whether the calling thread is known to be pinned. Always `false` for a thread
    /// without a slot, beyond the first 512.
    #[must_use]
    pub fn is_pinned_here(&self) -> bool {
        debug_assert!(!self.shared.is_abandoned(), "a live handle is asked");
        threads::claimed(&self.shared).is_some_and(|claimed| {
            // SAFETY: the calling thread has claimed it, and `self` is a live handle.
            unsafe { claimed.slot() }.depth() > 0
        })
    }

    /// Creates a participant that is not bound to a thread, for reads in flight and other objects
    /// that outlive a call. It protects everything that the calling thread's guards protect, and
    /// everything that is reachable now.
    #[must_use]
    pub fn hold(&self) -> EpochHold {
        let guard = self.pin();
        // The guard is alive, so its epoch has not passed (R1).
        self.shared.ledger.count_in_at(guard.epoch);
        EpochHold {
            shared: Arc::clone(&self.shared),
            epoch: guard.epoch,
        }
    }

    /// Returns the current epoch. If it is read *after* an object was unlinked, it is the stamp to
    /// compare with [`Epochs::safe`].
    #[must_use]
    pub fn current(&self) -> u64 {
        self.shared.ledger.current()
    }

    /// Advances the epoch if every participant has seen the current one. Returns the current epoch.
    pub fn try_advance(&self) -> u64 {
        self.shared.ledger.advance()
    }

    /// Returns the safe epoch: objects unlinked at an earlier epoch are unreachable by every guard
    /// and hold (R3).
    #[must_use]
    pub fn safe(&self) -> u64 {
        self.shared.ledger.safe()
    }
}

impl Default for Epochs {
    fn default() -> Self {
        Epochs::new()
    }
}

impl Clone for Epochs {
    fn clone(&self) -> Self {
        let handles = self.shared.handles.fetch_add(1, Ordering::Relaxed);
        assert!(handles > 0, "a handle is cloned while it lives");
        Epochs {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for Epochs {
    fn drop(&mut self) {
        let handles = self.shared.handles.fetch_sub(1, Ordering::Release);
        assert!(handles > 0, "a handle is dropped once");
    }
}

enum EpochParticipant {
    Slot(ThreadSlot),
    Counted(Arc<EpochsInner>),
}

/// Protects all objects that its thread can reach. It stays on its thread; guards of one thread may
/// be dropped in any order.
pub struct EpochGuard {
    id: u64,
    epoch: u64,
    participant: EpochParticipant,
    _not_send: PhantomData<*const ()>,
}

impl EpochGuard {
    /// Returns the epoch that the thread is pinned at.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns whether this guard belongs to these epochs.
    #[inline]
    #[must_use]
    pub fn is_of(&self, epochs: &Epochs) -> bool {
        self.id == epochs.shared.id
    }

    /// Returns a small number that is unique among the pinned threads of these epochs, for
    /// striping. `None` for a thread beyond the first 512.
    #[inline]
    #[must_use]
    pub fn slot(&self) -> Option<usize> {
        match &self.participant {
            EpochParticipant::Slot(claimed) => Some(claimed.index),
            EpochParticipant::Counted(_) => None,
        }
    }
}

impl Drop for EpochGuard {
    #[inline]
    fn drop(&mut self) {
        match &self.participant {
            // SAFETY: the guard is not `Send`, so this is the thread that has claimed the slot,
            // which is pinned.
            EpochParticipant::Slot(claimed) => unsafe { claimed.slot() }.leave(),
            EpochParticipant::Counted(shared) => shared.ledger.count_out(self.epoch),
        }
    }
}

impl fmt::Debug for EpochGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("epoch", &self.epoch)
            .field("slot", &self.slot())
            .finish_non_exhaustive()
    }
}

/// Participates in the epochs like a guard, but is owned by an object instead of a thread: a read
/// in flight, or an idle iterator.
pub struct EpochHold {
    shared: Arc<EpochsInner>,
    epoch: u64,
}

impl EpochHold {
    /// Returns the epoch that is held.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Clone for EpochHold {
    fn clone(&self) -> Self {
        // `self` is counted during the call, so the epoch has not passed (R1).
        self.shared.ledger.count_in_at(self.epoch);
        EpochHold {
            shared: Arc::clone(&self.shared),
            epoch: self.epoch,
        }
    }
}

impl Drop for EpochHold {
    fn drop(&mut self) {
        self.shared.ledger.count_out(self.epoch);
    }
}

impl fmt::Debug for EpochHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}
