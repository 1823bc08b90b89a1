//! Estimates how often a lookup reaches the last run of its path and does not find its key there.
//!
//! If a key exists and no newer run contains it, it is in the last run of its path. Probing the
//! last run's maplet is then useless: it saves a read only if the key is absent. Lookups therefore
//! probe the maplets of last runs only while absent keys are common. While they are rare, the
//! maplet pages go unused, and the cache evicts them.

use std::sync::atomic::{AtomicU32, Ordering};

/// Amount by which each absent key raises the score. Each key that is found lowers it by one.
/// Tuning: `32` since 2026-11-25; not isolated; without any such probes: uniform reads 61.0 and
/// 68.4 -> 67.5 and 74.6 k/s.
const ABSENT: u32 = 32;
/// Minimum score at which absent keys are considered common.
/// Tuning: `1024` since 2026-11-25.
const COMMON: u32 = 1024;
/// Maximum score. It is low enough for the score to fall quickly once lookups of absent keys stop.
/// Tuning: `4096` since 2026-11-25.
const MOST: u32 = 4096;
/// Sampling interval for found keys: one in this many updates the score.
/// Tuning: `8` since 2026-11-25.
const SAMPLE: u32 = 8;
const _: () = assert!(SAMPLE.is_power_of_two() && ABSENT > SAMPLE && COMMON < MOST);

/// Tracks whether more than about one in 33 of the lookups that reach the last run of their path
/// are for absent keys.
#[derive(Debug, Default)]
pub(crate) struct AbsentKeys(AtomicU32);

impl AbsentKeys {
    /// Returns whether absent keys are currently common.
    #[inline]
    pub(crate) fn are_common(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= COMMON
    }

    /// Updates the score after a lookup that reached the last run of its path. `hash` is the hash
    /// of the key.
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
        // A concurrent update may be lost, which hardly affects the estimate.
        self.0.store(next, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    /// Records `lookups` lookups, one in every `every` of which is for an absent key.
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
