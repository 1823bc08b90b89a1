//! Group commit: one thread, the leader, syncs on behalf of all threads that wait for a sync.
//!
//! ```text
//!   append ──► complete ──► wait(target)
//!                             │ synced ≥ target: done
//!                             │ somebody leads: sleep until he is done
//!                             │ completed < target: sleep until lower sequences are complete
//!                             └ else lead: gather, goal = completed, sync, synced = goal, wake all
//! ```
//!
//! If the last group had more than one member, the leader yields the processor before it syncs, for
//! as long as yielding brings new records. Otherwise the first thread to wake up after a sync would
//! sync alone, and groups would be half as large. No clock is needed.
//!
//! A failure is permanent. [`GroupCommit::poison`] stores its cause, and every pending or later
//! commit fails with it.

use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, spin};
use crate::watermark::order;
use crate::{Error, Result};

/// Maximum number of times a leader yields the processor before it syncs.
const MAX_GATHER: u32 = if cfg!(alluvium_model_check) { 1 } else { 64 };

/// Number of consecutive yields without a new record after which a leader stops gathering.
const FRUITLESS: u32 = 2;

/// Argument with which [`spin`] yields the processor.
const YIELD: u32 = 1 << 10;

/// The synced watermark, the state of the leader election, and the cause of the first failure.
#[derive(Debug)]
pub(super) struct GroupCommit {
    synced: AtomicU64,
    /// 0, or 1 after the first failure. Never reset.
    poisoned: AtomicU64,
    /// Number of threads sleeping until lower sequence numbers are complete.
    sleepers: AtomicU64,
    /// Number of syncs that leaders have performed, including failed syncs.
    rounds: AtomicU64,
    state: Mutex<CommitState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct CommitState {
    leading: bool,
    /// Number of threads waiting for the current leader.
    followers: u64,
    /// Number of threads in the last group, including its leader.
    last_group: u64,
    cause: String,
}

impl GroupCommit {
    /// Creates the group commit state of a log that is durable up to `synced`.
    #[must_use]
    pub(super) fn new(synced: u64) -> GroupCommit {
        GroupCommit {
            synced: AtomicU64::new(synced),
            poisoned: AtomicU64::new(0),
            sleepers: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            state: Mutex::new(CommitState::default()),
            changed: Condvar::default(),
        }
    }

    /// Returns the synced watermark: every record up to this sequence number is durable.
    #[must_use]
    pub(super) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Returns the number of syncs that leaders have performed.
    #[must_use]
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Returns an error if a failure has been recorded.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the cause of the first failure.
    pub(super) fn healthy(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let cause = self.state.lock().cause.clone();
        Err(Error::Poisoned { cause })
    }

    /// Records a failure, so that every pending or later commit fails. Only the first cause is
    /// kept.
    pub(super) fn poison(&self, cause: &str) {
        let mut state = self.state.lock();
        self.fail(&mut state, cause);
        drop(state);
        self.changed.notify_all();
    }

    fn fail(&self, state: &mut CommitState, cause: &str) {
        if state.cause.is_empty() {
            cause.clone_into(&mut state.cause);
        }
        assert!(!state.cause.is_empty(), "a refusal names its cause");
        self.poisoned.store(1, Ordering::Release);
    }

    /// Raises the synced watermark without a sync, because a durable checkpoint contains these
    /// sequence numbers.
    pub(super) fn raise(&self, synced: u64) {
        let state = self.state.lock();
        self.synced.fetch_max(synced, Ordering::AcqRel);
        drop(state);
        self.changed.notify_all();
    }

    /// Wakes the threads that wait for the completion watermark. Call this each time the watermark
    /// has moved.
    ///
    /// The caller moves the watermark and then checks for sleepers, while a sleeper registers
    /// itself and then checks the watermark. The fence [`order`] ensures that at least one of them
    /// sees the other's write.
    pub(super) fn completed_moved(&self) {
        order();
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.state.lock());
            self.changed.notify_all();
        }
    }

    /// Blocks until `ready` returns true or a failure is recorded. The result of `ready` may depend
    /// only on the completion watermark.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failure.
    pub(super) fn sleep_until(&self, ready: impl Fn() -> bool) -> Result<()> {
        loop {
            self.healthy()?;
            if ready() {
                return Ok(());
            }
            self.sleep_once(&ready);
        }
    }

    /// Sleeps until the completion watermark moves, unless `ready` already returns true.
    fn sleep_once(&self, ready: &impl Fn() -> bool) {
        let state = self.state.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        order();
        if !ready() && self.poisoned.load(Ordering::Relaxed) == 0 {
            drop(self.changed.wait(state));
        }
        let before = self.sleepers.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a sleeper leaves once");
    }

    /// Blocks until every record up to `target` is durable. `completed` must return the completion
    /// watermark. `sync` must make every record that is complete at the time of the call durable;
    /// its argument is a sequence number up to which all records were complete.
    ///
    /// # Errors
    /// The error of `sync` if this thread was the leader; [`Error::Poisoned`] for all other
    /// threads.
    pub(super) fn wait(
        &self,
        target: u64,
        completed: impl Fn() -> u64,
        sync: impl Fn(u64) -> Result<()>,
    ) -> Result<()> {
        loop {
            self.healthy()?;
            if self.synced() >= target {
                return Ok(());
            }
            let mut state = self.state.lock();
            // Check again under the lock, because a leader may have finished in the meantime.
            if self.synced() >= target || self.poisoned.load(Ordering::Relaxed) != 0 {
                continue;
            }
            if state.leading {
                state.followers += 1;
                let mut state = self.changed.wait(state);
                state.followers = state.followers.saturating_sub(1);
                continue;
            }
            if completed() < target {
                drop(state);
                self.sleep_once(&|| completed() >= target || self.synced() >= target);
                continue;
            }
            state.leading = true;
            debug_assert!(completed() >= target, "a leader syncs what is complete");
            let company = state.last_group > 1;
            drop(state);
            if company {
                self.gather(&completed);
            }
            self.lead(&completed, &sync)?;
        }
    }

    fn gather(&self, completed: &impl Fn() -> u64) {
        let (mut seen, mut fruitless) = (completed(), 0);
        for _ in 0..MAX_GATHER {
            spin(YIELD);
            let now = completed();
            fruitless = if now == seen { fruitless + 1 } else { 0 };
            seen = now;
            if fruitless == FRUITLESS {
                return;
            }
        }
    }

    /// Performs one sync as the leader. The caller must have set `leading`.
    fn lead(&self, completed: &impl Fn() -> u64, sync: &impl Fn(u64) -> Result<()>) -> Result<()> {
        let goal = completed();
        let outcome = sync(goal);
        self.rounds.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        assert!(state.leading, "one thread leads at a time");
        state.leading = false;
        state.last_group = state.followers + 1;
        match &outcome {
            Ok(()) => {
                self.synced.fetch_max(goal, Ordering::AcqRel);
            }
            Err(error) => self.fail(&mut state, &error.to_string()),
        }
        drop(state);
        self.changed.notify_all();
        outcome
    }
}
