//! Assignment of slots to threads. A slot is claimed at a thread's first guard and released when
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
    /// The calling thread is the one that has claimed it, and either a handle of its epochs is
    /// alive or the slot is pinned.
    #[inline]
    pub(super) unsafe fn slot(&self) -> &EpochSlot {
        // SAFETY: a slot lives as long as its `EpochsInner`. A live handle keeps that alive; for a
        // pinned slot the thread's claim does, for `ThreadClaims` neither prunes nor frees a claim
        // whose slot is pinned.
        unsafe { self.slot.as_ref() }
    }
}

struct SlotClaim {
    shared: Arc<EpochsInner>,
    claimed: ThreadSlot,
}

/// All claims of one thread.
#[derive(Default)]
struct ThreadClaims(Vec<SlotClaim>);

impl ThreadClaims {
    fn claim(&mut self, shared: &Arc<EpochsInner>) -> Option<ThreadSlot> {
        if let Some(claim) = self.0.iter().find(|claim| claim.shared.id == shared.id) {
            return Some(claim.claimed);
        }
        // Epochs whose last handle is gone cannot be pinned any more, so their slots need not be
        // kept.
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
                // A guard outlives the thread's claims (it is in another thread-local, or was
                // forgotten). The slot stays taken and its memory allocated, so that the guard can
                // still be dropped.
                std::mem::forget(claim.shared);
            }
        }
    }
}

thread_local! {
    /// The slot that this thread pinned last. It has no destructor, so an access needs no check for
    /// one.
    static LAST: Cell<Option<(u64, ThreadSlot)>> = const { Cell::new(None) };
    static CLAIMS: RefCell<ThreadClaims> = const { RefCell::new(ThreadClaims(Vec::new())) };
}

/// Returns the calling thread's slot; `None` if all slots are taken or the thread is ending.
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
