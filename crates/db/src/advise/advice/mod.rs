//! Advice on settings that can be changed while a store is open, and the rollback of such changes.
//!
//! *Scope*: which shares of cache memory to ask a model about, when a change is worth it, how to
//! observe a change, and when to revert it.
//!
//! *Must not depend on*: how costs are computed (`alluvium_model`), how reads are counted.
//!
//! `engine/advice.rs` applies a change and observes it.
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
pub(crate) mod watch;

pub use choice::CacheAdvice;

use crate::error::Error;
use crate::options::store::RecordShare;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use watch::{LookupCounters, TrialWatch};

/// Number of changes that are remembered.
pub(crate) const KEPT: usize = 16;

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TrialOutcome {
    /// The change is still being observed.
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

impl TrialOutcome {
    /// Returns whether the change was reverted.
    #[must_use]
    pub fn is_rolled_back(self) -> bool {
        match self {
            TrialOutcome::Watched | TrialOutcome::Kept => false,
            TrialOutcome::AboveBand | TrialOutcome::WorseThanBefore | TrialOutcome::TooFewLookups => true,
        }
    }

    /// Returns the outcome in words, with the reason for a rollback.
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

/// A change that was made while the store was open.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// The advice that was applied.
    pub advice: CacheAdvice,
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
    /// Whether the change was kept, reverted, or is still observed.
    pub outcome: TrialOutcome,
}

/// The change being observed, and the share to which it can be reverted.
#[derive(Debug)]
pub(crate) struct OpenTrial {
    pub(crate) watch: TrialWatch,
    pub(crate) before: RecordShare,
}

#[derive(Debug, Default)]
pub(crate) struct TrialState {
    pub(crate) open: Option<OpenTrial>,
    /// Oldest first. The last one may still be being observed.
    pub(crate) trials: VecDeque<Trial>,
    /// The counters at the end of the last change.
    pub(crate) since: LookupCounters,
}

/// The changes made while the store is open.
#[derive(Debug, Default)]
pub(crate) struct TrialHistory {
    pub(crate) state: Mutex<TrialState>,
    pub(crate) is_watching: AtomicBool,
}

impl TrialHistory {
    /// Returns the last changes, oldest first.
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
