//! Advice on settings that can be changed while a store is open, and the rollback of such changes.
//!
//! *Knows*: which shares of cache memory to ask a model about, when a change is worth it, how to
//! observe a change, and when to revert it.
//!
//! *Does not know*: how costs are computed (`alluvium_model`), how reads are counted.
//!
//! *Read in this order*: `choice.rs` (choice of advice), `watch.rs` (observation of one change),
//! this file (the changes of a store).
//!
//! Only one setting is worth a change without reopening: the share of the caches' memory for the
//! record cache. The memory limit is set by the user (`Db::set_memory`); structures are chosen when
//! keyspaces are created.
//!
//! Invariants:
//!
//! - **N12** At most one change is observed at a time, and each observation ends: the change is
//!   kept or reverted.
//! - **N13** A reverted change restores the previous setting exactly: the same share, or the
//!   store's own balancing.

mod choice;
mod watch;

pub use choice::Advice;

use super::{Engine, Tally};
use crate::error::{Error, Result};
use crate::options::store::RecordShare;
use alluvium_base::Purpose;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use watch::{Counted, Step, Watch};

/// Number of changes that are remembered.
const KEPT: usize = 16;

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It is being observed.
    Watched,
    /// The measurement was within the predicted band. The change lasts until the store is closed.
    Kept,
    /// Lookups read more than the predicted band allows. The change was reverted.
    AboveBand,
    /// Lookups read more than before the change. The change was reverted.
    WorseThanBefore,
    /// There were too few lookups for a decision within an hour. The change was reverted.
    TooFewLookups,
}

impl Outcome {
    /// Returns whether the change was reverted.
    #[must_use]
    pub fn is_rolled_back(self) -> bool {
        match self {
            Outcome::Watched | Outcome::Kept => false,
            Outcome::AboveBand | Outcome::WorseThanBefore | Outcome::TooFewLookups => true,
        }
    }

    /// Returns the outcome's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Watched => "watched",
            Outcome::Kept => "kept",
            Outcome::AboveBand => "rolled back: above the band",
            Outcome::WorseThanBefore => "rolled back: worse than before",
            Outcome::TooFewLookups => "rolled back: too few lookups to tell",
        }
    }
}

/// A change that was made while the store was open.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// The advice that was applied.
    pub advice: Advice,
    /// The record cache's share of both caches before the change.
    pub share_before: f64,
    /// When it was made, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it was kept or reverted, in milliseconds since 1970. `None` while it is being observed.
    pub ended_ms: Option<u64>,
    /// Device reads per lookup before this change, since opening or the previous change. `None` if
    /// there were too few lookups.
    pub before: Option<f64>,
    /// Device reads per lookup in the last complete interval after the change.
    pub measured: Option<f64>,
    /// The outcome.
    pub outcome: Outcome,
}

/// The change being observed.
#[derive(Debug)]
struct Open {
    watch: Watch,
    before: RecordShare,
}

#[derive(Debug, Default)]
struct State {
    open: Option<Open>,
    /// Oldest first. The last one may still be being observed.
    trials: VecDeque<Trial>,
    /// The counters at the end of the last change.
    since: Counted,
}

/// The changes made while the store is open.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    state: Mutex<State>,
    is_watching: AtomicBool,
}

impl Trials {
    /// Returns the last changes, oldest first.
    pub(crate) fn list(&self) -> Vec<Trial> {
        self.state.lock().trials.iter().copied().collect()
    }
}

impl Engine {
    /// Applies advice to the record cache's share, and starts to observe the effect.
    pub(crate) fn apply_advice(&self, advice: &Advice) -> Result<()> {
        self.health()?;
        advice.check()?;
        if self.memory_budget() == 0 {
            return Err(refused("the store has no memory limit: it is a simulation"));
        }
        let now = self.counted();
        let mut state = self.trials.state.lock();
        if state.open.is_some() {
            let why = "a change is being watched: apply the next one when that has ended";
            return Err(refused(why));
        }
        let (before, share_before) = self.record_share();
        let measured = now.since(&state.since);
        self.set_record_share(RecordShare::Fixed(advice.record_share))?;
        state.open = Some(Open {
            watch: Watch::new(advice, measured, now),
            before,
        });
        if state.trials.len() == KEPT {
            state.trials.pop_front();
        }
        state.trials.push_back(Trial {
            advice: *advice,
            share_before,
            began_ms: now.at_ms,
            ended_ms: None,
            before: measured,
            measured: None,
            outcome: Outcome::Watched,
        });
        self.trials.is_watching.store(true, Ordering::Release);
        Ok(())
    }

    /// Evaluates the change being observed, and ends the observation if it can be decided.
    pub(crate) fn watch_trial(&self) -> Result<()> {
        if !self.trials.is_watching.load(Ordering::Acquire) {
            return Ok(());
        }
        let now = self.counted();
        let mut state = self.trials.state.lock();
        let Some(open) = &mut state.open else {
            return Ok(());
        };
        let step = open.watch.look(now);
        let before = open.before;
        let measured = open.watch.measured();
        let outcome = match step {
            Step::Wait => Outcome::Watched,
            Step::End(outcome) => outcome,
        };
        if outcome.is_rolled_back() {
            self.set_record_share(before)?;
        }
        let trial = state.trials.back_mut().expect("N12: it is the last");
        trial.measured = measured;
        trial.outcome = outcome;
        if outcome != Outcome::Watched {
            trial.ended_ms = Some(now.at_ms);
            state.open = None;
            state.since = now;
            self.trials.is_watching.store(false, Ordering::Release);
        }
        Ok(())
    }

    fn counted(&self) -> Counted {
        let of = |tally| self.tallies.of(tally);
        Counted {
            at_ms: self.time.peek(),
            lookups: of(Tally::Gets) + of(Tally::MultiGetKeys),
            reads: self.device_stats().of(Purpose::Lookup).reads,
        }
    }
}

fn refused(why: &str) -> Error {
    Error::BadOption {
        option: "advice",
        why: why.to_owned(),
    }
}
