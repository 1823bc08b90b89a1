//! When values that have expired are taken out of the pages: once they are as many as the pages, so
//! that a rewrite of all pages costs no more than a page for each of them.
//!
//! Values that are written are counted by the moment at which they expire. Those of an earlier
//! opening are not known; scans count what they pass over.

use alluvium_base::Sequence;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds that are counted together, as a power of two: about a second.
const TOGETHER: u32 = 10;
/// Most moments that are told apart: later ones count as the last of them.
const MOST: usize = 4096;
const _: () = assert!(MOST > 1 && TOGETHER < 64, "moments are told apart");

/// Counts values that expire.
#[derive(Debug, Default)]
pub(super) struct Expiring {
    moments: Mutex<BTreeMap<u64, u64>>,
    /// Values that have expired, that scans passed over.
    passed: AtomicU64,
    /// The place up to which the last rewrite could fold.
    folded_to: AtomicU64,
}

impl Expiring {
    /// Counts a value that expires.
    pub(super) fn note(&self, expires_ms: u64) {
        // Over when its moment is over.
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

    /// Counts values that have expired, and are in the pages.
    pub(super) fn note_passed(&self, count: u64) {
        self.passed.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns whether as many have expired as there are pages, so that a rewrite is due, which can
    /// fold up to `horizon`. Counts them from zero then.
    pub(super) fn is_due(&self, now_ms: u64, horizon: Sequence, pages: u64) -> bool {
        let mut moments = self.moments.lock();
        let now = now_ms >> TOGETHER;
        let over: u64 = moments.range(..=now).map(|(_, count)| count).sum();
        let passed = self.passed.load(Ordering::Relaxed);
        // What an open snapshot reads stays: it is tried again once that has gone.
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
        let expiring = Expiring::default();
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
        let expiring = Expiring::default();
        (0..10_000u64).for_each(|number| expiring.note(number << 20));
        assert_eq!(expiring.moments.lock().len(), MOST);
        assert!(expiring.is_due(u64::MAX, 1, 10_000));
    }
}
