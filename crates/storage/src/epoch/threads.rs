//! Assigns slots to threads. A thread gets a slot with its first guard, and the slot is freed when
//! the thread ends.

use super::EpochsInner;
use super::ledger::EpochSlot;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;

/// A slot owned by the calling thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadSlot {
    slot: NonNull<EpochSlot>,
    pub(super) index: usize,
}

impl ThreadSlot {
    /// Returns the slot.
    ///
    /// # Safety
    /// The calling thread must own the slot, and either a handle of its epochs must be alive or the
    /// slot must be pinned.
    #[inline]
    pub(super) unsafe fn slot(&self) -> &EpochSlot {
        // SAFETY: a slot exists as long as its `EpochsInner`. A live handle keeps the `EpochsInner`
        // alive. If the slot is pinned, the thread's claim does, because `ThreadClaims` neither
        // removes nor frees a claim whose slot is pinned.
        unsafe { self.slot.as_ref() }
    }
}

struct SlotClaim {
    shared: Arc<EpochsInner>,
    claimed: ThreadSlot,
}

/// All slots owned by a single thread, for different epochs.
#[derive(Default)]
struct ThreadClaims(Vec<SlotClaim>);

impl ThreadClaims {
    fn claim(&mut self, shared: &Arc<EpochsInner>) -> Option<ThreadSlot> {
        if let Some(claim) = self.0.iter().find(|claim| claim.shared.id == shared.id) {
            return Some(claim.claimed);
        }
        // Once the last handle of some epochs is dropped, no thread can be pinned there, so do not
        // keep slots of theirs that are no longer pinned.
        self.0.retain(|claim| {
            !claim.shared.is_abandoned() || claim.shared.ledger.slot(claim.claimed.index).depth() > 0
        });
        let index = shared.ledger.claim()?;
        let claimed = ThreadSlot {
            slot: NonNull::from(shared.ledger.slot(index)),
            index,
        };
        let shared = Arc::clone(shared);
        self.0.push(SlotClaim { shared, claimed });
        Some(claimed)
    }
}

impl Drop for ThreadClaims {
    fn drop(&mut self) {
        let _ = LAST.try_with(|last| last.set(None));
        for claim in self.0.drain(..) {
            if claim.shared.ledger.slot(claim.claimed.index).depth() == 0 {
                claim.shared.ledger.give_back(claim.claimed.index);
            } else {
                // A guard outlives its thread's claims, because it is in another thread-local
                // variable or was leaked. Leave the slot in use and its memory allocated, so that
                // the guard can still be dropped.
                std::mem::forget(claim.shared);
            }
        }
    }
}

thread_local! {
    /// The slot that this thread used last. It has no destructor, so accesses need not check
    /// whether it was destroyed.
    static LAST: Cell<Option<(u64, ThreadSlot)>> = const { Cell::new(None) };
    static CLAIMS: RefCell<ThreadClaims> = const { RefCell::new(ThreadClaims(Vec::new())) };
}

/// Returns the slot of the calling thread, or `None` if all slots are in use or the thread is
/// ending.
#[inline]
pub(super) fn claimed(shared: &Arc<EpochsInner>) -> Option<ThreadSlot> {
    match LAST.get() {
        Some((id, claimed)) if id == shared.id => Some(claimed),
        _ => claim(shared),
    }
}

#[cold]
fn claim(shared: &Arc<EpochsInner>) -> Option<ThreadSlot> {
    let claimed = CLAIMS
        .try_with(|claims| claims.borrow_mut().claim(shared))
        .ok()
        .flatten()?;
    LAST.set(Some((shared.id, claimed)));
    Some(claimed)
}
