//! Estimates how often a lookup reaches the last run of its path and finds nothing.
//!
//! An existing key is in the last run of its path, unless a newer run has it; asking a maplet about
//! that run is then useless. Only for absent keys does the maplet save a read. Lookups therefore
//! ask the maplets of last runs only while absent keys are common. Otherwise the maplet pages are
//! not used, and the cache evicts them.

use std::sync::atomic::{AtomicU32, Ordering};

/// Added to the score for an absent key. A found key subtracts one.
/// Tuning: `32` since 2026-11-25; not isolated; without any such probes: uniform reads 61.0 and
/// 68.4 -> 67.5 and 74.6 k/s.
const ABSENT: u32 = 32;
/// Absent keys are common from this score on.
/// Tuning: `1024` since 2026-11-25.
const COMMON: u32 = 1024;
/// Upper bound of the score, so that it falls quickly when lookups of absent keys stop.
/// Tuning: `4096` since 2026-11-25.
const MOST: u32 = 4096;
/// Sampling interval: one in this many lookups of existing keys is counted.
/// Tuning: `8` since 2026-11-25.
const SAMPLE: u32 = 8;
const _: () = assert!(SAMPLE.is_power_of_two() && ABSENT > SAMPLE && COMMON < MOST);

/// Tracks whether more than about one in 33 lookups in last runs is for an absent key.
#[derive(Debug, Default)]
pub(crate) struct AbsentKeys(AtomicU32);

impl AbsentKeys {
    /// Returns whether absent keys are common.
    #[inline]
    pub(crate) fn are_common(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= COMMON
    }

    /// Records the outcome of a lookup that reached the last run of its path, given the hash of its
    /// key.
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
        // Concurrent updates may be lost, which changes little.
        self.0.store(next, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    /// Records lookups of which every n-th finds nothing.
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
