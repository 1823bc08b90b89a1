//! Tracks when each key was last used, approximately, for OBJECT IDLETIME.
//!
//! The table has a fixed number of slots, to which keys are hashed. A slot stores when any of its
//! keys was last used, so a key has been idle for at least as long as its slot.

use std::sync::atomic::{AtomicU32, Ordering};

const SLOTS: usize = 1 << 16;

/// The table of last-use times.
pub(crate) struct LastUses {
    /// When the slot was last used, in seconds since `since_ms`, plus 1; 0 if it was never used.
    slots: Box<[AtomicU32]>,
    since_ms: u64,
}

/// Computes a hash with well-distributed upper bits. It must be fast, because every request
/// computes it. Keys chosen to collide only make each other's idle times inaccurate.
#[inline]
fn hash(seed: u64, key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = key.as_chunks::<8>();
    let hash = words
        .iter()
        .fold(seed, |hash, word| mix(hash, u64::from_ne_bytes(*word)));
    let last = rest
        .iter()
        .fold(key.len() as u64, |last, &byte| last << 8 | u64::from(byte));
    mix(hash, last)
}

impl LastUses {
    /// Creates a table in which every key counts as last used at the time `now_ms`.
    pub(crate) fn since(now_ms: u64) -> LastUses {
        LastUses {
            slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
            since_ms: now_ms,
        }
    }

    fn slot(&self, database: u8, key: &[u8]) -> &AtomicU32 {
        &self.slots[(hash(u64::from(database), key) >> 48) as usize % SLOTS]
    }

    fn seconds(&self, now_ms: u64) -> u32 {
        let seconds = now_ms.saturating_sub(self.since_ms) / 1000;
        u32::try_from(seconds).unwrap_or(u32::MAX - 1)
    }

    /// Records a use of a key at the time `now_ms`.
    pub(crate) fn note(&self, database: u8, key: &[u8], now_ms: u64) {
        let now = self.seconds(now_ms) + 1;
        let slot = self.slot(database, key);
        // A frequently used slot usually contains the current second already. Skip the write in
        // this case, so that the processors can keep sharing the cache line.
        if slot.load(Ordering::Relaxed) != now {
            slot.store(now, Ordering::Relaxed);
        }
    }

    /// Returns a lower bound on a key's idle time in seconds.
    pub(crate) fn idle_s(&self, database: u8, key: &[u8], now_ms: u64) -> u32 {
        let last = self.slot(database, key).load(Ordering::Relaxed);
        self.seconds(now_ms).saturating_sub(last.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_that_differ_in_one_place_spread_over_the_slots() {
        let names: [fn(u64) -> String; 3] = [
            |number| format!("key:{number:012}"),
            |number| format!("user:{number}:profile"),
            |number| format!("{number:x}"),
        ];
        for name in names {
            let slots: BTreeSet<u64> = (0..SLOTS as u64)
                .map(|number| hash(0, name(number).as_bytes()) >> 48)
                .collect();
            // Hashing as many random keys as there are slots hits a fraction of about 1 - 1/e of
            // the slots.
            assert!(slots.len() > SLOTS * 6 / 10, "{}: {}", name(0), slots.len());
        }
    }

    #[test]
    fn a_key_is_idle_since_its_last_use() {
        let uses = LastUses::since(5_000);
        assert_eq!(uses.idle_s(0, b"a", 5_000), 0);
        assert_eq!(uses.idle_s(0, b"a", 9_999), 4);
        uses.note(0, b"a", 8_500);
        assert_eq!(
            (uses.idle_s(0, b"a", 8_999), uses.idle_s(0, b"a", 18_100)),
            (0, 10)
        );
        assert_eq!(uses.idle_s(1, b"a", 18_100), 13);
        // A clock behind the start time has no effect.
        uses.note(0, b"a", 0);
        assert_eq!(uses.idle_s(0, b"a", 4_000), 0);
    }
}
