//! Keys without a value that scans wade through: what was deleted, and what has expired. Once scans
//! have waded through as many as are worth a merge of everything, all runs become one without them.
//!
//! A scan that skips a key reads its record. So scans have paid for a part of what a merge costs,
//! and the merge is due when that part is large enough: what is written for scans stays a multiple
//! of what they have read in vain.

use super::Levels;
use super::options::Policy;
use super::policy::Merge;
use super::state::{Kept, Version};
use alluvium_dictionary::merge::Older;
use std::sync::atomic::{AtomicU64, Ordering};

/// A merge is due once scans have waded through this part of all records.
const PART: u64 = 4;

/// How many keys scans have waded through since a merge has taken everything.
#[derive(Debug, Default)]
pub(super) struct Waded(AtomicU64);

impl Waded {
    /// Counts keys that a scan has waded through.
    pub(super) fn add(&self, keys: u64) {
        if keys > 0 {
            self.0.fetch_add(keys, Ordering::Relaxed);
        }
    }

    /// Begins to count again.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns whether scans have waded through enough, where there are `records` records.
    fn is_worth(&self, records: u64) -> bool {
        let waded = self.0.load(Ordering::Relaxed);
        waded > 0 && waded.saturating_mul(PART) >= records
    }
}

impl Levels {
    /// Returns the merge of everything that scans have paid for, if one is due. Nothing else is
    /// under way then, and space is not scarce. A reader that may still see what is newer than the
    /// horizon keeps it from being dropped: so it waits for that reader.
    pub(super) fn merge_for_scans(&self, kept: &Kept, version: &Version) -> Option<Merge> {
        let shared = &self.shared;
        let waits = !kept.jobs.is_empty() || kept.wants_all || shared.is_scarce.load(Ordering::Relaxed);
        if waits || shared.options.policy == Policy::Never {
            return None;
        }
        let runs = || version.newest_first.iter().map(|member| &member.run);
        let records = runs().map(|run| run.summary().records).sum();
        if !shared.waded.is_worth(records) {
            return None;
        }
        let horizon = shared.home.horizon.rule(Older::None).horizon;
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
        let waded = Waded::default();
        assert!(!waded.is_worth(0), "nothing was waded through");
        waded.add(24);
        assert!(waded.is_worth(96) && !waded.is_worth(97));
        waded.forget();
        assert!(!waded.is_worth(1));
    }
}
