//! How often lookups come to the last run of their path and find nothing.
//!
//! A key that is there is in the last run of its path, unless a newer one has it: asking a maplet
//! about that run tells nothing then. Only for absent keys does the answer save a read. So the
//! maplets of last runs are asked while absent keys are common; else their pages are not used, and
//! the cache gives their memory to others.

use std::sync::atomic::{AtomicU32, Ordering};

/// What a lookup that found nothing adds to the score. One that found its key takes one away.
const ABSENT: u32 = 32;
/// From this score on absent keys are common.
const COMMON: u32 = 1024;
/// The score never exceeds this, so that it falls soon when absent keys are no longer asked for.
const MOST: u32 = 4096;
/// One in this number of lookups is counted, for all of them.
const SAMPLE: u32 = 8;
const _: () = assert!(SAMPLE.is_power_of_two() && ABSENT > SAMPLE && COMMON < MOST);

/// The share of absent keys among lookups in last runs: above or below one in 33, about.
#[derive(Debug, Default)]
pub(crate) struct AbsentKeys(AtomicU32);

impl AbsentKeys {
    /// Returns whether lookups often find nothing.
    #[inline]
    pub(crate) fn are_common(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= COMMON
    }

    /// Notes a lookup that came to the last run of its path, by the hash of its key.
    #[inline]
    pub(crate) fn note(&self, hash: u64, is_absent: bool) {
        let score = self.0.load(Ordering::Relaxed);
        let next = if is_absent {
            (score + ABSENT).min(MOST)
        } else if score > 0 && (hash as u32).is_multiple_of(SAMPLE) {
            score.saturating_sub(SAMPLE)
        } else {
            return;
        };
        debug_assert!(next <= MOST, "a score of {next}");
        // Notes of others that come between are lost, which changes little.
        self.0.store(next, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    /// Notes lookups of which every n-th finds nothing.
    fn note_many(keys: &AbsentKeys, lookups: u64, every: u64) {
        for lookup in 0..lookups {
            keys.note(lookup, lookup % every == 0);
        }
    }

    #[test]
    fn absent_keys_are_common_above_one_lookup_in_33() {
        let keys = AbsentKeys::default();
        assert!(!keys.are_common());
        note_many(&keys, 100_000, 101);
        assert!(!keys.are_common(), "one in a hundred is seldom");
        note_many(&keys, 5_000, 10);
        assert!(keys.are_common());
        note_many(&keys, 5_000, 101);
        assert!(!keys.are_common(), "it is forgotten");
    }
}
