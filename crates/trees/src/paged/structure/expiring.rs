//! Decides when to remove expired values from the pages. They are removed once there are as many of
//! them as pages, so that a rewrite of all pages costs at most one page per expired value.
//!
//! Each written value is counted under the interval of its expiry time. Values that were written
//! before the store was opened are not counted in this way; instead, scans count the expired values
//! that they skip.

use alluvium_base::SequenceNumber;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Values that expire in the same interval of 2 to the power of this many milliseconds, about one
/// second, share a counter.
const TOGETHER: u32 = 10;
/// Maximum number of counters. Values that expire later than all of them are added to the last one.
const MOST: usize = 4096;
const _: () = assert!(MOST > 1 && TOGETHER < 64, "moments are told apart");

/// The numbers of expiring values: written values by expiry time, and skipped values in total.
#[derive(Debug, Default)]
pub(super) struct PagedExpiryCounts {
    moments: Mutex<BTreeMap<u64, u64>>,
    /// Number of expired values that scans have skipped.
    passed: AtomicU64,
    /// The horizon at the time of the last rewrite.
    folded_to: AtomicU64,
}

impl PagedExpiryCounts {
    /// Counts a written value that expires at `expires_ms`.
    pub(super) fn note(&self, expires_ms: u64) {
        // Use the end of the interval that contains the expiry time.
        let moment = (expires_ms >> TOGETHER) + 1;
        let mut moments = self.moments.lock();
        *moments.entry(moment).or_default() += 1;
        if moments.len() > MOST
            && let Some((_, last)) = moments.pop_last()
            && let Some(mut before) = moments.last_entry()
        {
            *before.get_mut() += last;
        }
        assert!(moments.len() <= MOST, "the latest moments are one");
    }

    /// Counts expired values that a scan has found in the pages and skipped.
    pub(super) fn note_passed(&self, count: u64) {
        self.passed.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns whether a rewrite is due, because as many values have expired as there are pages.
    /// The rewrite can drop versions up to `horizon`. If it is due, the counts are reset.
    pub(super) fn is_due(&self, now_ms: u64, horizon: SequenceNumber, pages: u64) -> bool {
        let mut moments = self.moments.lock();
        let now = now_ms >> TOGETHER;
        let over: u64 = moments.range(..=now).map(|(_, count)| count).sum();
        let passed = self.passed.load(Ordering::Relaxed);
        // A rewrite keeps expired values that an open snapshot can read, so it is repeated only
        // once the horizon has risen or more values have expired.
        let folds_more = horizon > self.folded_to.load(Ordering::Relaxed);
        if over + passed < pages.max(1) || !(folds_more || over > 0) {
            return false;
        }
        *moments = moments.split_off(&(now + 1));
        self.passed.store(0, Ordering::Relaxed);
        self.folded_to.store(horizon, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewrite_is_due_once_as_many_have_expired_as_there_are_pages() {
        let expiring = PagedExpiryCounts::default();
        (0..10).for_each(|number| expiring.note(5000 + number));
        assert!(!expiring.is_due(5000, 1, 10), "none of them has expired");
        assert!(!expiring.is_due(9000, 1, 11));
        assert!(expiring.is_due(9000, 1, 10));
        assert!(!expiring.is_due(9000, 1, 1), "they were taken out");
        expiring.note_passed(7);
        assert!(!expiring.is_due(9000, 1, 7), "a snapshot keeps them");
        assert!(!expiring.is_due(9000, 2, 8) && expiring.is_due(9000, 2, 7));
        assert!(!expiring.is_due(9000, 3, 0), "there are none");
    }

    #[test]
    fn moments_far_away_count_as_one() {
        let expiring = PagedExpiryCounts::default();
        (0..10_000u64).for_each(|number| expiring.note(number << 20));
        assert_eq!(expiring.moments.lock().len(), MOST);
        assert!(expiring.is_due(u64::MAX, 1, 10_000));
    }
}
