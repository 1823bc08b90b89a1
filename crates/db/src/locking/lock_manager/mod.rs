//! The lock manager: locks on keys and key ranges, which transactions hold until they end.
//!
//! The held locks form an ordered map of disjoint segments of the key space, each with a list of
//! its holders. A lock on a single key is a segment from that key to the next possible key. A lock
//! on a range covers all possible keys in it, whether or not they exist, so it prevents phantoms.
//!
//! ```text
//!   keys        a        f   g              p             z
//!   segments    ├─ 7 S ──┤   ├─ 7 S, 9 S ───┼─── 9 S ─────┤
//!   queue       8 X "b"  (waits for 7),  10 S "b"  (waits behind 8)
//! ```
//!
//! Requests that must wait form a single FIFO queue. A request is granted once it conflicts with no
//! holder and with no earlier request in the queue. There is one exception: a request overtakes an
//! earlier request that waits for the overtaking owner itself, because the earlier request could
//! not be granted before that owner releases its locks anyway. A holder that upgrades its lock
//! therefore does not wait for requests that wait for the holder itself.
//!
//! While any request waits, a new owner that holds no locks is delayed briefly. Without the delay,
//! it would lock keys that others need and then wait for others itself, and many clients that use a
//! few keys would commit only a quarter as often as four clients. No request waits for an owner
//! without locks, so the delay cannot cause a deadlock.
//!
//! When a request starts to wait, the wait-for graph is searched for a cycle through its owner. If
//! there is one, the request of one owner in the cycle is rejected. A commit outside locking
//! transactions is preferred, because it simply tries again. Otherwise the youngest transaction is
//! chosen.
//!
//! *Scope*: the locks and their holders, the waiting requests, and the wait-for graph.
//!
//! *Must not depend on*: the meaning of keys, and the work done under the locks.
//!
//! Invariants:
//!
//! - **L1** All holders of a segment hold it in the same mode. A segment that is held exclusively
//!   has a single holder.
//! - **L2** Segments are disjoint and not empty, and each segment has at least one holder.
//! - **L3** Each request in the queue is blocked by a holder of a lock or by an earlier request.
//! - **L4** The wait-for graph has no cycles.
//! - **L5** An owner that has released its locks holds no segment and has no request in the queue.

#[cfg(all(test, alluvium_model_check))]
mod model_check;
mod queue;
mod segments;
mod sync;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub(crate) use queue::HeldLock;

use crate::locking::fault::{IsolationFault, is_planted};
use alluvium_dictionary::range::KeyRange;
use queue::{LockOutcome, LockState};
use std::fmt;
use std::time::{Duration, Instant};
use sync::{AtomicU64, Monitor, Ordering};

/// Maximum time that an owner without locks is delayed while no other owner releases its locks.
const STANDSTILL: Duration = Duration::from_millis(1);

/// Maximum total time that an owner without locks is delayed while other owners are releasing their
/// locks.
const HELD_BACK: Duration = Duration::from_millis(50);

/// Mode of a lock on a key or range.
///
/// | | shared | merge | exclusive |
/// |---|---|---|---|
/// | **shared** | together | waits | waits |
/// | **merge** | waits | together | waits |
/// | **exclusive** | waits | waits | waits |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeLockMode {
    /// For reading. Compatible with other shared locks.
    Shared,
    /// For merging operands in any order without reading the value. Compatible with other locks of
    /// this mode.
    Merge,
    /// For writing. Conflicts with all other locks.
    Exclusive,
}

impl RangeLockMode {
    fn excludes(self, other: RangeLockMode) -> bool {
        let pair = [self, other];
        if pair.contains(&RangeLockMode::Merge)
            && pair.contains(&RangeLockMode::Shared)
            && is_planted(IsolationFault::MergesIgnoreReaders)
        {
            return false;
        }
        self.with(other) == RangeLockMode::Exclusive
    }

    /// Returns whether an owner that holds a lock in this mode need not also acquire it in the mode
    /// `asked`.
    fn permits(self, asked: RangeLockMode) -> bool {
        self == asked || self == RangeLockMode::Exclusive
    }

    /// Returns the weakest mode that permits everything that either of the two modes permits.
    pub(crate) fn with(self, other: RangeLockMode) -> RangeLockMode {
        match self == other {
            true => self,
            // A transaction that reads a key and merges into it changes a value that it has read.
            false => RangeLockMode::Exclusive,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockOwner {
    /// A transaction, which holds its locks until it ends.
    Transaction(u64),
    /// A commit outside locking transactions. If its request is rejected, it tries again.
    Commit(u64),
}

impl LockOwner {
    /// Returns the number of the owner. An owner that was created later has a higher number.
    pub(crate) fn number(self) -> u64 {
        match self {
            LockOwner::Transaction(number) | LockOwner::Commit(number) => number,
        }
    }
}

/// Why a lock was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockRefusal {
    /// The owner was chosen as the victim of a deadlock. Each owner in the cycle is listed with the
    /// key that it waits for, which the next owner in the list has locked.
    Deadlock(Vec<(u64, Vec<u8>)>),
    /// The lock was not granted before the timeout. The list contains the owners that the request
    /// was waiting for.
    TimedOut(Vec<u64>),
    /// The owner released its locks while another of its threads was waiting for this one.
    OwnerEnded,
}

/// The lock manager of a store.
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
    /// Returns a new owner number, which is higher than all earlier ones.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Locks the keys from `low` (inclusive) to `high` (exclusive), or all keys from `low` on if
    /// `high` is `None`. Waits at most `timeout` for owners of conflicting locks.
    ///
    /// # Errors
    /// [`LockRefusal`] if the lock was not granted. The owner keeps the locks that it already
    /// holds.
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
            Some(LockOutcome::OwnerEnded) => Err(LockRefusal::OwnerEnded),
            None => {
                match self.change(|state| state.give_up(ticket)) {
                    // The request was granted or rejected just after the timeout.
                    Ok(LockOutcome::Granted) => Ok(()),
                    Ok(LockOutcome::Refused(cycle)) => Err(LockRefusal::Deadlock(cycle)),
                    Ok(LockOutcome::OwnerEnded) => Err(LockRefusal::OwnerEnded),
                    Err(holders) => Err(LockRefusal::TimedOut(holders)),
                }
            }
        }
    }

    /// Locks a range as [`LockManager::lock`] does, but only if no other owner's lock or earlier
    /// request conflicts. Never waits. Returns whether the owner has the lock.
    pub(crate) fn try_lock(
        &self,
        owner: LockOwner,
        low: &[u8],
        high: Option<&[u8]>,
        mode: RangeLockMode,
    ) -> bool {
        debug_assert!(high.is_none_or(|high| low < high), "a lock has keys");
        self.change(|state| state.try_ask(owner, low, high, mode))
    }

    /// Returns whether an owner without locks would have to wait for the exclusive lock on a range.
    /// The answer may be outdated when the caller receives it.
    pub(crate) fn is_locked(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        self.state.with(|state| state.is_locked(low, high))
    }

    /// Delays an owner that holds no locks for as long as requests are waiting and locks are being
    /// released.
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

    /// Releases all locks that an owner holds, and rejects its waiting requests. Several threads
    /// may make requests for one owner.
    pub(crate) fn release(&self, owner: u64) {
        let is_calm = self.change(|state| {
            state.release(owner);
            state.is_calm()
        });
        if is_calm {
            self.state.wake_held_back();
        }
    }

    /// Changes the state by calling `act`, and wakes the owners of all requests that this granted
    /// or rejected.
    fn change<R>(&self, act: impl FnOnce(&mut LockState) -> R) -> R {
        let (result, decided) = self.state.with(|state| {
            let result = act(state);
            (result, state.take_decided())
        });
        self.state.wake(&decided);
        result
    }

    /// Returns the number of an owner's locks. Each granted request counts as one lock.
    pub(crate) fn held(&self, owner: u64) -> usize {
        self.state.with(|state| state.held(owner))
    }

    /// Returns the numbers of the owners that an owner is waiting for.
    pub(crate) fn waits_for(&self, owner: u64) -> Vec<u64> {
        self.state.with(|state| state.waits_for(owner))
    }

    /// Returns the locks of an owner, ordered by their lower bounds.
    pub(crate) fn locks_of(&self, owner: u64) -> Vec<HeldLock> {
        self.state.with(|state| state.locks_of(owner))
    }

    /// Returns the parts of a range that an owner has locked only for merging.
    pub(crate) fn merge_locks(&self, owner: u64, low: &[u8], high: Option<&[u8]>) -> Vec<KeyRange> {
        self.state.with(|state| state.merge_locks(owner, low, high))
    }

    /// Merges all locks that an owner holds inside each of the given ranges into a single lock. The
    /// owner must have locked the ranges, which must be disjoint and ordered.
    pub(crate) fn join(&self, owner: u64, joined: &[HeldLock]) {
        self.state.with(|state| state.join(owner, joined));
    }
}
