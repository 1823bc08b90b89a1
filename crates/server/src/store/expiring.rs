//! How much will have expired when, so that its space comes back though nobody writes.
//!
//! The store drops what has expired when it compacts what lies around it, which nobody's writes may ever bring about. So it is counted what is
//! written to expire; when as much has expired as half of the store takes, the store is compacted as a whole. What was counted is forgotten when
//! the server ends.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Bytes that expire within so many milliseconds of each other are counted together.
const TOGETHER_MS: u64 = 4_000;

/// The most counts that are kept: beyond, what expires last is counted together.
const MOST: usize = 4_096;

/// With less than this it is not worth while.
const LEAST: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Counts {
    /// Bytes by when the last of them expire.
    due: BTreeMap<u64, u64>,
    expired: u64,
}

/// What was written to expire.
#[derive(Debug, Default)]
pub(crate) struct Expiring {
    counts: Mutex<Counts>,
}

impl Expiring {
    /// So many bytes were written that expire then.
    pub(crate) fn note(&self, expires_ms: u64, bytes: u64) {
        let mut counts = self.counts.lock();
        let mut at = expires_ms / TOGETHER_MS;
        if counts.due.len() >= MOST
            && !counts.due.contains_key(&at)
            && let Some((&last, _)) = counts.due.last_key_value()
        {
            at = counts.due.range(at..).next().map_or(last, |(&later, _)| later);
        }
        *counts.due.entry(at).or_default() += bytes;
    }

    /// Whether so much has expired that a store of `size` bytes is half empty. It is counted anew from then on.
    pub(crate) fn is_much(
        &self,
        now_ms: u64,
        size: impl FnOnce() -> alluvium::Result<u64>,
    ) -> alluvium::Result<bool> {
        let mut counts = self.counts.lock();
        let later = counts.due.split_off(&(now_ms / TOGETHER_MS));
        let passed = std::mem::replace(&mut counts.due, later);
        counts.expired += passed.into_values().sum::<u64>();
        if counts.expired < LEAST || counts.expired < size()? / 2 {
            return Ok(false);
        }
        counts.expired = 0;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_counted_until_it_is_half_of_everything() {
        let expiring = Expiring::default();
        expiring.note(10_000, LEAST);
        expiring.note(50_000, 3 * LEAST);
        let is_much = |now_ms, size| expiring.is_much(now_ms, || Ok(size)).unwrap();
        assert!(!is_much(9_000, 1));
        assert!(!is_much(20_000, 3 * LEAST));
        assert!(is_much(20_000, 2 * LEAST));
        assert!(!is_much(20_000, 1), "it is counted once");
        assert!(is_much(60_000, 6 * LEAST));
    }

    #[test]
    fn there_are_no_more_counts_than_may_be() {
        let expiring = Expiring::default();
        for number in 0..3 * MOST as u64 {
            expiring.note(number * TOGETHER_MS, LEAST);
        }
        let counts = expiring.counts.lock();
        assert_eq!(counts.due.len(), MOST);
        assert_eq!(counts.due.values().sum::<u64>(), 3 * MOST as u64 * LEAST);
    }
}
