//! Tuning advice for the one setting that can change while a store is open. A change that does not
//! help is reverted.
//!
//! *Scope*: for which shares of cache memory the model is evaluated, whether a change is
//! worthwhile, how its effect is measured, and when it is reverted.
//!
//! *Must not depend on*: how costs are computed (`alluvium_model`), how reads are counted.
//!
//! `engine/advice.rs` applies a change and measures its effect.
//!
//! Only one setting is worth changing without reopening the store: the record cache's share of
//! cache memory. The user sets the memory limit (`Db::set_memory`), and a keyspace's structure is
//! chosen at its creation.
//!
//! Invariants:
//!
//! - **N12** At most one change is on trial at a time. Every trial ends with the change kept or
//!   reverted.
//! - **N13** Reverting a change restores the previous setting exactly, whether that was a fixed
//!   share or automatic balancing by the store.

mod choice;
pub(crate) mod watch;

pub use choice::CacheAdvice;

use crate::error::Error;
use crate::options::store::RecordShare;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use watch::{LookupCounters, TrialWatch};

/// Number of changes kept in the history. Older ones are discarded.
pub(crate) const KEPT: usize = 16;

/// The outcome of a change on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TrialOutcome {
    /// The effect of the change is still being measured.
    Watched,
    /// The measured reads were within the predicted range. The change stays in effect until the
    /// store is closed.
    Kept,
    /// The change was reverted because lookups read more than the upper bound of the prediction.
    AboveBand,
    /// The change was reverted because lookups read more than before it.
    WorseThanBefore,
    /// The change was reverted because an hour saw too few lookups to measure its effect.
    TooFewLookups,
}

impl TrialOutcome {
    /// Returns whether the change was reverted.
    #[must_use]
    pub fn is_rolled_back(self) -> bool {
        match self {
            TrialOutcome::Watched | TrialOutcome::Kept => false,
            TrialOutcome::AboveBand | TrialOutcome::WorseThanBefore | TrialOutcome::TooFewLookups => true,
        }
    }

    /// Returns the outcome in words, including the reason for a rollback.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TrialOutcome::Watched => "watched",
            TrialOutcome::Kept => "kept",
            TrialOutcome::AboveBand => "rolled back: above the band",
            TrialOutcome::WorseThanBefore => "rolled back: worse than before",
            TrialOutcome::TooFewLookups => "rolled back: too few lookups to tell",
        }
    }
}

/// A trial change to the record cache's share, made while the store was open.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// The advice that was applied.
    pub advice: CacheAdvice,
    /// The record cache's share of cache memory before the change.
    pub share_before: f64,
    /// Time of the change, in milliseconds since 1970.
    pub began_ms: u64,
    /// Time at which the change was kept or reverted, in milliseconds since 1970. `None` while the
    /// trial is running.
    pub ended_ms: Option<u64>,
    /// Device reads per lookup before the change, measured since the store was opened or since the
    /// previous change. `None` if there were too few lookups.
    pub before: Option<f64>,
    /// Device reads per lookup in the last complete measurement interval after the change.
    pub measured: Option<f64>,
    /// Whether the change was kept or reverted, or is still on trial.
    pub outcome: TrialOutcome,
}

/// The change that is on trial, with the share to restore if it is reverted.
#[derive(Debug)]
pub(crate) struct OpenTrial {
    pub(crate) watch: TrialWatch,
    pub(crate) before: RecordShare,
}

#[derive(Debug, Default)]
pub(crate) struct TrialState {
    pub(crate) open: Option<OpenTrial>,
    /// The latest changes, oldest first. Only the newest can still be on trial.
    pub(crate) trials: VecDeque<Trial>,
    /// Lookup counters when the last trial ended.
    pub(crate) since: LookupCounters,
}

/// The history of trial changes since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct TrialHistory {
    pub(crate) state: Mutex<TrialState>,
    pub(crate) is_watching: AtomicBool,
}

impl TrialHistory {
    /// Returns the latest changes, oldest first.
    pub(crate) fn list(&self) -> Vec<Trial> {
        self.state.lock().trials.iter().copied().collect()
    }
}

pub(crate) fn refused(why: &str) -> Error {
    Error::BadOption {
        option: "advice",
        why: why.to_owned(),
    }
}
