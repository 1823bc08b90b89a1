//! Locks on keys and key ranges that transactions hold until they end.
//!
//! The held locks form an ordered map of disjoint segments of the key space, each with its holders.
//! A key is the segment from it to the next possible key. A range is locked whether or not it
//! contains keys, which prevents phantoms.
//!
//! ```text
//!   keys        a        f   g              p             z
//!   segments    ├─ 7 S ──┤   ├─ 7 S, 9 S ───┼─── 9 S ─────┤
//!   queue       8 X "b"  (waits for 7),  10 S "b"  (waits behind 8)
//! ```
//!
//! Requests that must wait form one FIFO queue. A request is granted once it conflicts with no
//! holder and no earlier request in the queue. It overtakes an earlier request that waits for its
//! owner, because that request cannot be granted before. Thus a holder that upgrades a lock does
//! not wait for requests that wait for it.
//!
//! While a request waits, new owners without locks are held back for a moment: they would lock keys
//! that others need, and then wait themselves. Otherwise many clients of a few keys commit only a
//! quarter as often as four clients. No request waits for an owner without locks, so this cannot
//! cause a deadlock.
//!
//! When a request starts to wait, the wait-for graph is searched for a cycle through it. One owner
//! of a cycle is rejected: a commit outside locking transactions if there is one, because it
//! retries, and otherwise the youngest.
//!
//! *Scope*: the locks and their holders, the waiting requests, and the wait-for graph.
//!
//! *Must not depend on*: the meaning of keys, and the work done under the locks.
//!
//! Invariants:
//!
//! - **L1** Either all holders of a segment are shared, or it has one exclusive holder.
//! - **L2** Segments are disjoint and not empty, and each has a holder.
//! - **L3** Each request in the queue is blocked by a holder or by an earlier request.
//! - **L4** The wait-for graph has no cycles.
//! - **L5** An owner that has released its locks is in no segment and not in the queue.

#[cfg(all(test, alluvium_model_check))]
mod model_check;
mod queue;
mod segments;
mod sync;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

use queue::{LockOutcome, LockState};
use std::fmt;
use std::time::{Duration, Instant};
use sync::{AtomicU64, Monitor, Ordering};

/// Maximum delay of an owner without locks while no lock is released.
const STANDSTILL: Duration = Duration::from_millis(1);

/// Maximum delay of an owner without locks while other locks are being released.
const HELD_BACK: Duration = Duration::from_millis(50);

/// Lock mode of a key or range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RangeLockMode {
    /// Reading; compatible with other readers.
    Shared,
    /// Writing; conflicts with readers and writers.
    Exclusive,
}

impl RangeLockMode {
    fn excludes(self, other: RangeLockMode) -> bool {
        self.max(other) == RangeLockMode::Exclusive
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockOwner {
    /// A transaction, which holds locks until it ends.
    Transaction(u64),
    /// A commit outside locking transactions; it retries after a rejection.
    Commit(u64),
}

impl LockOwner {
    /// Returns the owner's number. Owners created later have higher numbers.
    pub(crate) fn number(self) -> u64 {
        match self {
            LockOwner::Transaction(number) | LockOwner::Commit(number) => number,
        }
    }
}

/// Reason why a lock is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockRefusal {
    /// The owner was chosen as the victim of a deadlock. Lists the owners of the cycle, each with
    /// the key that it waits for; the next owner holds that key.
    Deadlock(Vec<(u64, Vec<u8>)>),
    /// The timeout has passed; lists the holders.
    TimedOut(Vec<u64>),
}

/// The locks of a store.
pub(crate) struct LockManager {
    state: Monitor<LockState>,
    next: AtomicU64,
}

impl Default for LockManager {
    fn default() -> LockManager {
        LockManager {
            state: Monitor::new(LockState::default()),
            next: AtomicU64::new(1),
        }
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").finish_non_exhaustive()
    }
}

impl LockManager {
    /// Returns a new owner number.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Locks the keys from `low` to `high`, without upper bound if there is none. Waits for
    /// conflicting holders.
    ///
    /// # Errors
    /// [`LockRefusal`]. The owner keeps the locks that it already holds.
    pub(crate) fn lock(
        &self,
        owner: LockOwner,
        low: &[u8],
        high: Option<&[u8]>,
        mode: RangeLockMode,
        timeout: Duration,
    ) -> Result<(), LockRefusal> {
        debug_assert!(high.is_none_or(|high| low < high), "a lock has keys");
        self.hold_back(owner);
        let asked = self.change(|state| state.ask(owner, low, high, mode));
        let queue::LockAnswer::Waits(ticket) = asked else {
            return Ok(());
        };
        let deadline = Instant::now().checked_add(timeout);
        let outcome = self.state.wait(ticket, deadline, |state| state.outcome(ticket));
        match outcome {
            Some(LockOutcome::Granted) => Ok(()),
            Some(LockOutcome::Refused(cycle)) => Err(LockRefusal::Deadlock(cycle)),
            None => {
                match self.change(|state| state.give_up(ticket)) {
                    // The request was decided just after the timeout.
                    Ok(LockOutcome::Granted) => Ok(()),
                    Ok(LockOutcome::Refused(cycle)) => Err(LockRefusal::Deadlock(cycle)),
                    Err(holders) => Err(LockRefusal::TimedOut(holders)),
                }
            }
        }
    }

    /// Delays an owner without locks while requests wait and locks are still being released.
    fn hold_back(&self, owner: LockOwner) {
        let mut began = None;
        loop {
            let crowd = |state: &LockState| state.is_crowded_for(owner.number()).then(|| state.released());
            let Some(released) = self.state.with(|state| crowd(state)) else {
                return;
            };
            let now = Instant::now();
            if now.duration_since(*began.get_or_insert(now)) >= HELD_BACK {
                return;
            }
            let is_over = |state: &LockState| crowd(state).is_none();
            let ended = self.state.wait_for_calm(now + STANDSTILL, is_over);
            if ended || self.state.with(|state| state.released()) == released {
                return;
            }
        }
    }

    /// Releases all locks of an owner.
    pub(crate) fn release(&self, owner: u64) {
        let is_calm = self.change(|state| {
            state.release(owner);
            state.is_calm()
        });
        if is_calm {
            self.state.wake_held_back();
        }
    }

    /// Changes the state, and wakes the owners of requests that this has decided.
    fn change<R>(&self, act: impl FnOnce(&mut LockState) -> R) -> R {
        let (result, decided) = self.state.with(|state| {
            let result = act(state);
            (result, state.take_decided())
        });
        self.state.wake(&decided);
        result
    }

    /// Returns the number of locks of an owner, as requested.
    pub(crate) fn held(&self, owner: u64) -> usize {
        self.state.with(|state| state.held(owner))
    }

    /// Returns the owners that an owner waits for.
    pub(crate) fn waits_for(&self, owner: u64) -> Vec<u64> {
        self.state.with(|state| state.waits_for(owner))
    }

    /// Merges the locks of an owner within a range that it has locked as a whole into one.
    pub(crate) fn join(&self, owner: u64, low: &[u8], high: Option<&[u8]>) {
        self.state.with(|state| state.join(owner, low, high));
    }
}
