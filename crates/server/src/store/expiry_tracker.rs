//! Estimates how much stored data has expired, so that the server reclaims its space even if no
//! client writes.
//!
//! The store drops expired data when it compacts the data around it, which may never happen without
//! writes. The server therefore counts all bytes written with an expiry time, and compacts the
//! whole store once half of its size has expired. The counts exist only in memory and are lost when
//! the server stops.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Resolution of the expiry times in milliseconds. Data that expires within the same interval of
/// this length shares one count.
const TOGETHER_MS: u64 = 4_000;

/// Maximum number of intervals. Beyond it, data that would need a new interval is counted in the
/// next later one, or in the last one if there is none.
const MOST: usize = 4_096;

/// Minimum number of expired bytes that make a compaction worthwhile.
const LEAST: u64 = 1 << 20;

#[derive(Debug, Default)]
struct ExpiryTrackerState {
    /// Number of bytes and keys that expire in each interval.
    due: BTreeMap<u64, (u64, u64)>,
    expired: u64,
    /// Total number of keys that have passed their expiry time.
    expired_keys: u64,
}

/// Tracks the amount of data written with an expiry time.
#[derive(Debug, Default)]
pub(crate) struct ExpiryTracker {
    counts: Mutex<ExpiryTrackerState>,
}

impl ExpiryTracker {
    /// Counts bytes and keys written with the expiry time `expires_ms`.
    pub(crate) fn note(&self, expires_ms: u64, bytes: u64, keys: u64) {
        let mut counts = self.counts.lock();
        let mut at = expires_ms / TOGETHER_MS;
        if counts.due.len() >= MOST
            && !counts.due.contains_key(&at)
            && let Some((&last, _)) = counts.due.last_key_value()
        {
            at = counts.due.range(at..).next().map_or(last, |(&later, _)| later);
        }
        let due = counts.due.entry(at).or_default();
        *due = (due.0 + bytes, due.1 + keys);
    }

    /// Returns whether at least half of the store's size has expired; `size` returns that size in
    /// bytes. If so, resets the count of expired bytes.
    pub(crate) fn is_much(
        &self,
        now_ms: u64,
        size: impl FnOnce() -> alluvium::Result<u64>,
    ) -> alluvium::Result<bool> {
        let mut counts = self.counts.lock();
        let later = counts.due.split_off(&(now_ms / TOGETHER_MS));
        let passed = std::mem::replace(&mut counts.due, later);
        for (bytes, keys) in passed.into_values() {
            counts.expired += bytes;
            counts.expired_keys += keys;
        }
        if counts.expired < LEAST || counts.expired < size()? / 2 {
            return Ok(false);
        }
        counts.expired = 0;
        Ok(true)
    }
}

impl ExpiryTracker {
    /// Returns the number of keys that have passed their expiry time. Includes keys that were
    /// overwritten or deleted before they expired.
    pub(crate) fn expired_keys(&self) -> u64 {
        self.counts.lock().expired_keys
    }

    /// Resets the number of expired keys to zero.
    pub(crate) fn reset_expired_keys(&self) {
        self.counts.lock().expired_keys = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_counted_until_it_is_half_of_everything() {
        let expiring = ExpiryTracker::default();
        expiring.note(10_000, LEAST, 2);
        expiring.note(50_000, 3 * LEAST, 5);
        let is_much = |now_ms, size| expiring.is_much(now_ms, || Ok(size)).unwrap();
        assert!(!is_much(9_000, 1));
        assert!(!is_much(20_000, 3 * LEAST));
        assert!(is_much(20_000, 2 * LEAST));
        assert!(!is_much(20_000, 1), "it is counted once");
        assert_eq!(expiring.expired_keys(), 2);
        assert!(is_much(60_000, 6 * LEAST));
        assert_eq!(expiring.expired_keys(), 7);
    }

    #[test]
    fn there_are_no_more_counts_than_may_be() {
        let expiring = ExpiryTracker::default();
        for number in 0..3 * MOST as u64 {
            expiring.note(number * TOGETHER_MS, LEAST, 1);
        }
        let counts = expiring.counts.lock();
        assert_eq!(counts.due.len(), MOST);
        let sum = |of: fn(&(u64, u64)) -> u64| counts.due.values().map(of).sum::<u64>();
        assert_eq!(sum(|due| due.0), 3 * MOST as u64 * LEAST);
        assert_eq!(sum(|due| due.1), 3 * MOST as u64);
    }
}
