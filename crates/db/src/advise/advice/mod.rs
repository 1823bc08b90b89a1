//! Advice on the one setting that can be changed while a store is open, and the rollback of a
//! change that does not help.
//!
//! *Scope*: for which shares of cache memory the model is evaluated, whether a change is
//! worthwhile, how its effect is measured, and when it is reverted.
//!
//! *Must not depend on*: how costs are computed (`alluvium_model`), how reads are counted.
//!
//! `engine/advice.rs` applies a change and measures its effect.
//!
//! The only setting worth changing without reopening the store is the record cache's share of cache
//! memory. The memory limit is set by the user (`Db::set_memory`), and the structure of a keyspace
//! is chosen when the keyspace is created.
//!
//! Invariants:
//!
//! - **N12** At most one change is on trial at a time, and every trial ends: the change is either
//!   kept or reverted.
//! - **N13** Reverting a change restores the previous setting exactly: the same share, or automatic
//!   balancing by the store.

mod choice;
pub(crate) mod watch;

pub use choice::CacheAdvice;

use crate::error::Error;
use crate::options::store::RecordShare;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use watch::{LookupCounters, TrialWatch};

/// Number of changes in the history; older ones are discarded.
pub(crate) const KEPT: usize = 16;

/// The outcome of a change on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TrialOutcome {
    /// The effect of the change is still being measured.
    Watched,
    /// The measured reads were within the predicted range. The change remains until the store is
    /// closed.
    Kept,
    /// Lookups read more than the upper bound of the prediction, so the change was reverted.
    AboveBand,
    /// Lookups read more than before the change, so the change was reverted.
    WorseThanBefore,
    /// There were too few lookups within an hour to measure the effect, so the change was reverted.
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

    /// Returns the outcome in words. For a reverted change the text includes the reason.
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

/// A change to the record cache's share, made on trial while the store was open.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// The advice that was applied.
    pub advice: CacheAdvice,
    /// The record cache's share of cache memory before the change.
    pub share_before: f64,
    /// Time of the change, in milliseconds since 1970.
    pub began_ms: u64,
    /// Time at which the change was kept or reverted, in milliseconds since 1970. `None` while its
    /// effect is still being measured.
    pub ended_ms: Option<u64>,
    /// Device reads per lookup before the change, measured since the store was opened or since the
    /// previous change. `None` if there were too few lookups to measure.
    pub before: Option<f64>,
    /// Device reads per lookup in the last complete measurement interval after the change.
    pub measured: Option<f64>,
    /// Whether the change was kept, was reverted, or is still on trial.
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
    /// The latest changes, oldest first. Only the last one can still be on trial.
    pub(crate) trials: VecDeque<Trial>,
    /// Counters at the time when the last trial ended.
    pub(crate) since: LookupCounters,
}

/// The history of changes made on trial since the store was opened.
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
