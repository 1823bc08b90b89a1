//! How much will have expired when, so that its space comes back though no client writes.
//!
//! The store drops what has expired when it compacts what lies around it, which no write may ever
//! bring about. So it is counted what is written to expire; when as much has expired as half of the
//! store takes, the store is compacted as a whole. What was counted is forgotten when the server
//! ends.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Bytes that expire within this number of milliseconds of each other are counted together.
const TOGETHER_MS: u64 = 4_000;

/// The most counts that are kept: beyond, what expires last is counted together.
const MOST: usize = 4_096;

/// With less than this it is not worth while.
const LEAST: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Counts {
    /// Bytes and keys by when the last of them expire.
    due: BTreeMap<u64, (u64, u64)>,
    expired: u64,
    /// Keys whose time has come, ever.
    expired_keys: u64,
}

/// What was written to expire.
#[derive(Debug, Default)]
pub(crate) struct Expiring {
    counts: Mutex<Counts>,
}

impl Expiring {
    /// Bytes of a number of keys were written that expire then.
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

    /// Whether so much has expired that a store of `size` bytes is half empty. Counting begins
    /// again then.
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

impl Expiring {
    /// Returns how many keys were written whose time has come. A key that was written again before,
    /// or deleted, is among them.
    pub(crate) fn expired_keys(&self) -> u64 {
        self.counts.lock().expired_keys
    }

    /// Counts them from zero again.
    pub(crate) fn reset_expired_keys(&self) {
        self.counts.lock().expired_keys = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_counted_until_it_is_half_of_everything() {
        let expiring = Expiring::default();
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
        let expiring = Expiring::default();
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
