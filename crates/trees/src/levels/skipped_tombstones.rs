//! Counts the dead keys (deleted or expired) that scans skip. Once they have skipped enough to
//! justify the cost, all runs are merged into one run, which drops these keys.
//!
//! For each skipped key, a scan reads a record, which costs part of what merging that record costs.
//! The merge is due once these costs add up. Such merges therefore write at most a constant
//! multiple of the bytes that scans have read in vain.

use super::LevelsDictionary;
use super::options::MergePolicy;
use super::policy::LevelMergePlan;
use super::state::{LevelsVersion, LevelsWriterState};
use alluvium_dictionary::merge::OlderData;
use std::sync::atomic::{AtomicU64, Ordering};

/// The merge is due when scans have skipped as many keys as the number of all records divided by
/// this.
const PART: u64 = 4;

/// The number of dead keys that scans have skipped since the last merge of the whole structure.
#[derive(Debug, Default)]
pub(super) struct SkippedTombstones(AtomicU64);

impl SkippedTombstones {
    /// Adds the dead keys that a scan has skipped.
    pub(super) fn add(&self, keys: u64) {
        if keys > 0 {
            self.0.fetch_add(keys, Ordering::Relaxed);
        }
    }

    /// Resets the count to zero, because a merge of all runs has started.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns whether scans have skipped enough keys to justify a merge of `records` records.
    fn is_worth(&self, records: u64) -> bool {
        let waded = self.0.load(Ordering::Relaxed);
        waded > 0 && waded.saturating_mul(PART) >= records
    }
}

impl LevelsDictionary {
    /// Returns the plan to merge all runs, if scans have skipped enough dead keys. Returns `None`
    /// while another merge is running or space is scarce. Also returns `None` if a run has messages
    /// above the horizon, because a reader may still need them, so the merge could not drop them.
    pub(super) fn merge_for_scans(
        &self,
        kept: &LevelsWriterState,
        version: &LevelsVersion,
    ) -> Option<LevelMergePlan> {
        let shared = &self.shared;
        let waits = !kept.jobs.is_empty() || kept.wants_all || shared.is_scarce.load(Ordering::Relaxed);
        if waits || shared.options.policy == MergePolicy::Never {
            return None;
        }
        let runs = || version.newest_first.iter().map(|member| &member.run);
        let records = runs().map(|run| run.summary().records).sum();
        if !shared.skipped_tombstones.is_worth(records) {
            return None;
        }
        let horizon = shared.home.horizon.rule(OlderData::None).horizon;
        let is_settled = runs().all(|run| run.newest() <= horizon);
        let view = kept.view(version, &shared.options, shared.home.store.tiers());
        view.all().filter(|_| is_settled && !view.has_lost())
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn a_merge_is_due_once_scans_have_waded_through_a_part_of_all_records() {
        let waded = SkippedTombstones::default();
        assert!(!waded.is_worth(0), "nothing was waded through");
        waded.add(24);
        assert!(waded.is_worth(96) && !waded.is_worth(97));
        waded.forget();
        assert!(!waded.is_worth(1));
    }
}
