//! Group commit: one leader syncs for all waiting commits.
//!
//! ```text
//!   append ──► complete ──► wait(target)
//!                             │ synced ≥ target: done
//!                             │ somebody leads: sleep until he is done
//!                             │ completed < target: sleep until lower sequences are complete
//!                             └ else lead: gather, goal = completed, sync, synced = goal, wake all
//! ```
//!
//! A leader that had company last time lets others run for a moment before it syncs, as long as
//! each time brings new records: without this, the first thread to wake up after a sync would sync
//! alone, and groups would be half as large. No clock is needed for it.
//!
//! A failure is for good: [`Commit::poison`] keeps its cause, and every commit that waits or comes
//! later gets it.

use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, spin};
use crate::watermark::order;
use crate::{Error, Result};

/// How often a leader lets others run before it syncs, at most.
const MAX_GATHER: u32 = if cfg!(alluvium_model_check) { 1 } else { 64 };

/// Turns without a new record after which a leader stops gathering.
const FRUITLESS: u32 = 2;

/// What [`spin`] takes for a number of turns at which it gives the processor away.
const YIELD: u32 = 1 << 10;

/// The synced watermark, who syncs, and whether anything has failed.
#[derive(Debug)]
pub(super) struct Commit {
    synced: AtomicU64,
    /// 1 once something has failed.
    poisoned: AtomicU64,
    /// How many threads sleep until lower sequences are complete.
    sleepers: AtomicU64,
    /// How many rounds were led.
    rounds: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    leading: bool,
    /// How many wait for the leader.
    followers: u64,
    /// How many waited for the last one, himself included.
    last_group: u64,
    cause: String,
}

impl Commit {
    /// Everything up to `synced` is synced.
    #[must_use]
    pub(super) fn new(synced: u64) -> Commit {
        Commit {
            synced: AtomicU64::new(synced),
            poisoned: AtomicU64::new(0),
            sleepers: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            state: Mutex::new(State::default()),
            changed: Condvar::default(),
        }
    }

    /// Every sequence up to this one is synced.
    #[must_use]
    pub(super) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Returns how many rounds were led.
    #[must_use]
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Fails when anything has failed before.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the cause.
    pub(super) fn healthy(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let cause = self.state.lock().cause.clone();
        Err(Error::Poisoned { cause })
    }

    /// From now on nothing is acknowledged. The first cause is kept.
    pub(super) fn poison(&self, cause: &str) {
        let mut state = self.state.lock();
        self.fail(&mut state, cause);
        drop(state);
        self.changed.notify_all();
    }

    fn fail(&self, state: &mut State, cause: &str) {
        if state.cause.is_empty() {
            cause.clone_into(&mut state.cause);
        }
        assert!(!state.cause.is_empty(), "a refusal names its cause");
        self.poisoned.store(1, Ordering::Release);
    }

    /// What is at or below `synced` needs no sync any more.
    pub(super) fn raise(&self, synced: u64) {
        let state = self.state.lock();
        self.synced.fetch_max(synced, Ordering::AcqRel);
        drop(state);
        self.changed.notify_all();
    }

    /// To be called whenever the completion watermark has moved: wakes who sleeps for it.
    ///
    /// The watermark moves, then this looks for sleepers; a sleeper counts himself, then looks at
    /// the watermark. One of the two sees the other ([`order`]).
    pub(super) fn completed_moved(&self) {
        order();
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.state.lock());
            self.changed.notify_all();
        }
    }

    /// Blocks until `ready`, which depends on the completion watermark only, or until something
    /// fails.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(super) fn sleep_until(&self, ready: impl Fn() -> bool) -> Result<()> {
        loop {
            self.healthy()?;
            if ready() {
                return Ok(());
            }
            self.sleep_once(&ready);
        }
    }

    /// Sleeps until the watermark moves, unless `ready` already.
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

    /// Blocks until everything up to `target` is synced. `completed` tells the completion
    /// watermark; `sync` makes durable whatever was complete when it was called, which is at least
    /// what it is given.
    ///
    /// # Errors
    /// What `sync` failed with, for the leader; [`Error::Poisoned`] for all others.
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
            // Again, under the lock: a leader may have finished meanwhile.
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

    /// One round. The caller has set `leading`.
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
