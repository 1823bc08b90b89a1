//! Advice on what can be changed while a store is open, and its undoing.
//!
//! *Knows*: which shares of the caches' memory a model is asked about, when one is worth a change,
//! how a change is watched, and when it is taken back.
//!
//! *Does not know*: how costs come about (`alluvium_model`), how reads are counted.
//!
//! *Read in this order*: `choice.rs` (which advice), `watch.rs` (one change, watched), this file (a
//! store's changes).
//!
//! One thing is worth a change without another opening: how much of the caches' memory holds
//! records, and how much pages. The limit of the memory is the user's to set (`Db::set_memory`);
//! structures are chosen when keyspaces are created.
//!
//! Invariants:
//!
//! - **N12** At most one change is watched at a time, and each ends: it is kept or taken back.
//! - **N13** What is taken back is as it was before: the same share, or the store's own balance.

mod choice;
mod watch;

pub use choice::Advice;

use super::{Engine, Tally};
use crate::options::RecordShare;
use crate::{Error, Result};
use alluvium_base::Purpose;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use watch::{Counted, Step, Watch};

/// Changes that are remembered.
const KEPT: usize = 16;

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It is being watched.
    Watched,
    /// What was measured lay within the band: it stays until the store is closed.
    Kept,
    /// Lookups read more than the band allows: it was taken back.
    AboveBand,
    /// Lookups read more than before the change: it was taken back.
    WorseThanBefore,
    /// For an hour there were too few lookups to tell: it was taken back.
    TooFewLookups,
}

impl Outcome {
    /// Returns whether the change was taken back.
    #[must_use]
    pub fn is_rolled_back(self) -> bool {
        match self {
            Outcome::Watched | Outcome::Kept => false,
            Outcome::AboveBand | Outcome::WorseThanBefore | Outcome::TooFewLookups => true,
        }
    }

    /// Returns its name.
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
    /// What was advised.
    pub advice: Advice,
    /// The share of records before.
    pub share_before: f64,
    /// When it was made, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it was kept or taken back.
    pub ended_ms: Option<u64>,
    /// Reads of the device for each key looked up, from opening or the last change to this one.
    /// None if there were too few lookups.
    pub before: Option<f64>,
    /// The same in the last interval that was looked at.
    pub measured: Option<f64>,
    /// What became of it.
    pub outcome: Outcome,
}

/// A change under way.
#[derive(Debug)]
struct Open {
    watch: Watch,
    before: RecordShare,
}

#[derive(Debug, Default)]
struct State {
    open: Option<Open>,
    /// Oldest first; the last one is that under way, if one is.
    trials: VecDeque<Trial>,
    /// What had been counted at the last change.
    since: Counted,
}

/// The changes of a store.
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
    /// Changes the share of records, and begins to watch what comes of it.
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

    /// Looks at what has come of a change under way, and ends it where it can be told.
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
