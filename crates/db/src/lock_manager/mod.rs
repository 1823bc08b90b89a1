//! Locks of keys and of ranges of keys that transactions hold until they end.
//!
//! What is held is an ordered map of segments of the key space that do not overlap, each with its
//! holders. A key is the segment from it to the next possible key. A range is locked whether or not
//! there are keys in it, so that no key appears in it: there are no phantoms.
//!
//! ```text
//!   keys        a        f   g              p             z
//!   segments    ├─ 7 S ──┤   ├─ 7 S, 9 S ───┼─── 9 S ─────┤
//!   queue       8 X "b"  (waits for 7),  10 S "b"  (waits behind 8)
//! ```
//!
//! Who cannot have a lock waits in one queue, in the order of arrival. A request is granted once it
//! excludes no holder and no earlier request in the queue. An earlier request that waits for the
//! owner of this one is passed by, for it cannot be granted before: so a holder that wants more,
//! such as an exclusive lock where it has a shared one, does not wait for those who wait for it.
//!
//! While a request waits, owners without locks are held back for a moment: they would lock what
//! others need, and then wait themselves. Without this, many clients of a few keys commit a quarter
//! of what four do. Nothing waits for an owner without locks, so that this closes no circle.
//!
//! When a request begins to wait, the graph of who waits for whom is searched for a circle through
//! it. Of the owners in a circle one is refused: a commit that is no transaction if there is one,
//! for it starts over, and the youngest otherwise.
//!
//! *Knows*: who holds what, who waits, and who waits for whom.
//!
//! *Does not know*: what keys mean, and what is done under the locks.
//!
//! *Read in this order*: this file (what is asked and answered), `segments.rs` (what is held),
//! `queue.rs` (who waits, and circles), `sync.rs`, `model_check.rs`.
//!
//! Invariants:
//!
//! - **L1** The holders of a segment have it shared, or one owner has it exclusively.
//! - **L2** Segments do not overlap, none is empty, and each has a holder.
//! - **L3** A request in the queue is blocked: by a holder, or by an earlier request.
//! - **L4** No circle of owners wait for each other.
//! - **L5** Once an owner has released its locks it is in no segment and not in the queue.

#[cfg(all(test, alluvium_model_check))]
mod model_check;
mod queue;
mod segments;
mod sync;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

use queue::{Outcome, State};
use std::fmt;
use std::time::{Duration, Instant};
use sync::{AtomicU64, Monitor, Ordering};

/// How long an owner without locks is held back, at most, while none is released.
const STANDSTILL: Duration = Duration::from_millis(1);

/// How long an owner without locks is held back, at most, while others are released.
const HELD_BACK: Duration = Duration::from_millis(50);

/// How a key or a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// It is read: others may read it.
    Shared,
    /// It is written to: others do neither.
    Exclusive,
}

impl Mode {
    fn excludes(self, other: Mode) -> bool {
        self.max(other) == Mode::Exclusive
    }
}

/// Who locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A transaction, which holds locks until it ends.
    Transaction(u64),
    /// A commit that is no locking transaction: refused, it starts over.
    Commit(u64),
}

impl Owner {
    /// Returns its number: later ones are higher.
    pub(crate) fn number(self) -> u64 {
        match self {
            Owner::Transaction(number) | Owner::Commit(number) => number,
        }
    }
}

/// Why a lock is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The owner was chosen to end a circle: each owner in it, with the key for which it waits. The
    /// next one holds that.
    Deadlock(Vec<(u64, Vec<u8>)>),
    /// It was waited for too long; who holds it.
    TimedOut(Vec<u64>),
}

/// The locks of a store.
pub(crate) struct LockManager {
    state: Monitor<State>,
    next: AtomicU64,
}

impl Default for LockManager {
    fn default() -> LockManager {
        LockManager {
            state: Monitor::new(State::default()),
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
    /// Returns a number for an owner.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Locks the keys from `low` up to `high`, without an end if there is none, and waits for those
    /// who hold any of it.
    ///
    /// # Errors
    /// [`Refused`]. What the owner holds already it keeps.
    pub(crate) fn lock(
        &self,
        owner: Owner,
        low: &[u8],
        high: Option<&[u8]>,
        mode: Mode,
        timeout: Duration,
    ) -> Result<(), Refused> {
        debug_assert!(high.is_none_or(|high| low < high), "a lock has keys");
        self.hold_back(owner);
        let asked = self.change(|state| state.ask(owner, low, high, mode));
        let queue::Asked::Waits(ticket) = asked else {
            return Ok(());
        };
        let deadline = Instant::now().checked_add(timeout);
        let outcome = self.state.wait(ticket, deadline, |state| state.outcome(ticket));
        match outcome {
            Some(Outcome::Granted) => Ok(()),
            Some(Outcome::Refused(cycle)) => Err(Refused::Deadlock(cycle)),
            None => {
                match self.change(|state| state.give_up(ticket)) {
                    // It came at the last moment.
                    Ok(Outcome::Granted) => Ok(()),
                    Ok(Outcome::Refused(cycle)) => Err(Refused::Deadlock(cycle)),
                    Err(holders) => Err(Refused::TimedOut(holders)),
                }
            }
        }
    }

    /// Waits while others wait for locks, if the owner holds none, and these make headway.
    fn hold_back(&self, owner: Owner) {
        let mut began = None;
        loop {
            let crowd = |state: &State| state.is_crowded_for(owner.number()).then(|| state.released());
            let Some(released) = self.state.with(|state| crowd(state)) else {
                return;
            };
            let now = Instant::now();
            if now.duration_since(*began.get_or_insert(now)) >= HELD_BACK {
                return;
            }
            let is_over = |state: &State| crowd(state).is_none();
            let ended = self.state.wait_for_calm(now + STANDSTILL, is_over);
            if ended || self.state.with(|state| state.released()) == released {
                return;
            }
        }
    }

    /// Releases everything that an owner holds.
    pub(crate) fn release(&self, owner: u64) {
        let is_calm = self.change(|state| {
            state.release(owner);
            state.is_calm()
        });
        if is_calm {
            self.state.wake_held_back();
        }
    }

    /// Changes what is held and who waits, and wakes those whose requests have an outcome now.
    fn change<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let (result, decided) = self.state.with(|state| {
            let result = act(state);
            (result, state.take_decided())
        });
        self.state.wake(&decided);
        result
    }

    /// Returns how many locks an owner holds: keys and ranges, as they were asked for.
    pub(crate) fn held(&self, owner: u64) -> usize {
        self.state.with(|state| state.held(owner))
    }

    /// Returns for whom an owner waits.
    pub(crate) fn waits_for(&self, owner: u64) -> Vec<u64> {
        self.state.with(|state| state.waits_for(owner))
    }

    /// Makes one lock of all that an owner holds within a range, which it has locked as a whole.
    pub(crate) fn join(&self, owner: u64, low: &[u8], high: Option<&[u8]>) {
        self.state.with(|state| state.join(owner, low, high));
    }
}
