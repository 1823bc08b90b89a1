//! Decides when expired values are removed from the pages: once there are as many as pages, so that
//! a rewrite of all pages costs at most one page for each of them.
//!
//! Written values are counted by their expiry. Values written before the last opening are not
//! known; scans count those that they skip.

use alluvium_base::SequenceNumber;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// log2 of the milliseconds that share a counter: about a second.
const TOGETHER: u32 = 10;
/// The most counters. Later expiries are added to the last one.
const MOST: usize = 4096;
const _: () = assert!(MOST > 1 && TOGETHER < 64, "moments are told apart");

/// Numbers of values that expire: of written ones by moment, of skipped ones in total.
#[derive(Debug, Default)]
pub(super) struct PagedExpiryCounts {
    moments: Mutex<BTreeMap<u64, u64>>,
    /// Expired values that scans have skipped.
    passed: AtomicU64,
    /// The horizon of the last rewrite.
    folded_to: AtomicU64,
}

impl PagedExpiryCounts {
    /// Counts a value that expires.
    pub(super) fn note(&self, expires_ms: u64) {
        // The end of the interval that has the expiry.
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

    /// Counts expired values that are still in the pages.
    pub(super) fn note_passed(&self, count: u64) {
        self.passed.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns whether as many values have expired as there are pages, so that a rewrite is due,
    /// which can fold up to `horizon`. Resets the counts in this case.
    pub(super) fn is_due(&self, now_ms: u64, horizon: SequenceNumber, pages: u64) -> bool {
        let mut moments = self.moments.lock();
        let now = now_ms >> TOGETHER;
        let over: u64 = moments.range(..=now).map(|(_, count)| count).sum();
        let passed = self.passed.load(Ordering::Relaxed);
        // A rewrite keeps values that an open snapshot reads, so it is repeated only once the
        // horizon has risen or more values have expired.
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
