//! Epochs, which make it safe to reclaim the memory of objects that readers may still access.
//!
//! *Scope*: the readers, and the epoch at which each is pinned.
//!
//! *Must not depend on*: the objects that are read, unlinked or freed.
//!
//! A reader pins itself before it follows pointers: it stores the epoch that it sees in its own
//! word, which has a cache line of its own. (This is a minimal form of SplinterDB's distributed
//! reader counters; the scheme is that of Fraser 2004, *Practical lock-freedom*, §5.2.3.) A writer
//! unlinks an object, reads the epoch `e`, and frees the object once `e <` [`Epochs::safe`]. The
//! epoch advances only when every pinned participant has seen the current one.
//!
//! # Why that is right
//!
//! Let *G* be the epoch. To pin, a thread reads *G* = w, stores w in its slot, executes fence F1,
//! and reads *G* again; it starts over unless *G* is still w. To unlink, a thread stores, executes
//! fence F2, and reads *G* = e. To advance from n, a thread reads *G* = n, executes fence F3, reads
//! all slots and counters, and changes *G* to n + 1 by compare-and-exchange. Suppose that a guard
//! pinned at w loads the link *before* it is unlinked, and that the object is freed at *G* ≥ e + 2
//! while the guard lives. All fences are totally ordered. F1 < F2, because the guard's load after
//! F1 does not see the store before F2.
//!
//! 1. w ≤ e. Suppose w ≥ e + 1. Then the guard read *G* from the advance to e + 1 or a later one.
//!    The thread of F2 does not see that advance after F2, so F2 < F1, which is a contradiction.
//! 2. In the advance from e + 1 to e + 2, F3 comes after the advance to e + 1. If F1 < F3, this
//!    advance saw the slot at w ≤ e and did not change *G*. If F3 < F1, then F3 < F2, and the
//!    thread of F2 must have read *G* ≥ e + 1. Both are contradictions.
//!
//! The second read of *G* ensures more: while a guard at w lives, *G* is w or w + 1. An
//! [`EpochHold`], which is counted under its epoch, can therefore be created at the epoch of the
//! thread's guard, and protects everything that the guard protects. It also follows that counted
//! participants are at no more than two different epochs at any time.
//!
//! Invariants:
//!
//! - **R1** While a guard or hold at epoch w lives, `current()` is w or w + 1.
//! - **R2** Counted participants, which are holds and the guards of threads without a slot, are at
//!   epoch `current()` or the one before it.
//! - **R3** An object that was unlinked before `e = current()` was read is out of reach of every
//!   guard and hold once `e < safe()`.
//! - **R4** Only the thread that owns a slot writes the slot's word.

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

/// The id of the next `Epochs`. Ids are never reused, so a stale id never matches.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
struct EpochsInner {
    id: u64,
    handles: AtomicUsize,
    ledger: EpochLedger,
}

impl EpochsInner {
    /// Returns whether no handle is left, so that no more threads can pin themselves.
    fn is_abandoned(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }
}

/// The epochs of one store. Clones of this handle refer to the same epochs.
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

    /// Pins the calling thread. If the thread already has a guard, this costs only two ordinary
    /// stores.
    ///
    /// Each of the first 512 threads has a word of its own. Any more threads are counted in a
    /// shared word, which is slower but otherwise equivalent.
    #[inline]
    #[must_use]
    pub fn pin(&self) -> EpochGuard {
        match threads::claimed(&self.shared) {
            Some(claimed) => {
                // SAFETY: the calling thread owns the slot, and `self` is a live handle.
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

    /// Returns whether the calling thread is known to be pinned. This is always `false` for threads
    /// beyond the first 512, which have no slots.
    #[must_use]
    pub fn is_pinned_here(&self) -> bool {
        debug_assert!(!self.shared.is_abandoned(), "a live handle is asked");
        threads::claimed(&self.shared).is_some_and(|claimed| {
            // SAFETY: the calling thread owns the slot, and `self` is a live handle.
            unsafe { claimed.slot() }.depth() > 0
        })
    }

    /// Creates a participant that is not bound to a thread, for a read in flight or another object
    /// that outlives a call. It protects everything that the calling thread's guards protect, and
    /// everything reachable right now.
    #[must_use]
    pub fn hold(&self) -> EpochHold {
        let guard = self.pin();
        // While the guard lives, a participant at its epoch still holds the epoch back (R1).
        self.shared.ledger.count_in_at(guard.epoch);
        EpochHold {
            shared: Arc::clone(&self.shared),
            epoch: guard.epoch,
        }
    }

    /// Returns the current epoch. A writer must call this *after* it has unlinked an object, and
    /// later compare the result with [`Epochs::safe`].
    #[must_use]
    pub fn current(&self) -> u64 {
        self.shared.ledger.current()
    }

    /// Advances the epoch if every participant has seen the current one. Returns the epoch that is
    /// current afterwards.
    pub fn try_advance(&self) -> u64 {
        self.shared.ledger.advance()
    }

    /// Returns the safe epoch. No guard or hold can reach an object unlinked at an earlier epoch
    /// (R3).
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

/// Keeps all objects that its thread can reach from being freed. A guard cannot move to another
/// thread. The guards of a thread may be dropped in any order.
pub struct EpochGuard {
    id: u64,
    epoch: u64,
    participant: EpochParticipant,
    _not_send: PhantomData<*const ()>,
}

impl EpochGuard {
    /// Returns the epoch at which the thread is pinned.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns whether this guard was created by `epochs` or a clone of it.
    #[inline]
    #[must_use]
    pub fn is_of(&self, epochs: &Epochs) -> bool {
        self.id == epochs.shared.id
    }

    /// Returns a small number that is unique among the pinned threads of these epochs, for example
    /// to select a stripe. Returns `None` for threads beyond the first 512, which have no slots.
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
            // SAFETY: the guard is not `Send`, so this is the thread that owns the slot, and the
            // slot is pinned.
            EpochParticipant::Slot(claimed) => unsafe { claimed.slot() }.leave(),
            EpochParticipant::Counted(shared) => shared.ledger.count_out(self.epoch),
        }
    }
}

impl fmt::Debug for EpochGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochGuard")
            .field("epoch", &self.epoch)
            .field("slot", &self.slot())
            .finish_non_exhaustive()
    }
}

/// Like a guard, protects objects from being freed, but belongs to an object instead of a thread,
/// such as a read in flight or an idle iterator.
pub struct EpochHold {
    shared: Arc<EpochsInner>,
    epoch: u64,
}

impl EpochHold {
    /// Returns the epoch at which this hold is counted.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Clone for EpochHold {
    fn clone(&self) -> Self {
        // `self` stays counted during the call, so a participant can still be added at its epoch
        // (R1).
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
        f.debug_struct("EpochHold")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}
