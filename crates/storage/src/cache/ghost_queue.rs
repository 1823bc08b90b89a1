//! Ghost entries, which remember nodes that were evicted recently after a single use. If such a
//! node is missed again soon, it is hotter than it seemed.
//!
//! The entries form a table of one-word tags, indexed by hash. The tag of a newer node replaces an
//! older one in the same slot, so a node may be forgotten early. False matches are possible but
//! rare.

use crate::sync::{AtomicU32, Ordering};

/// The ghost entries of a cache, about as many as the cache has frames.
#[derive(Debug)]
pub(super) struct GhostQueue {
    tags: Box<[AtomicU32]>,
}

/// Minimum number of entries in the table.
/// Tuning: `64` since 2026-11-22.
const LEAST: usize = 64;
/// Maximum number of entries in the table.
/// Tuning: `1 << 24` since 2026-11-22.
const MOST: usize = 1 << 24;
const _: () = assert!(LEAST.is_power_of_two() && MOST.is_power_of_two() && LEAST <= MOST);

impl GhostQueue {
    pub(super) fn new(frames: usize) -> GhostQueue {
        let count = frames.clamp(LEAST, MOST).next_power_of_two();
        GhostQueue {
            tags: (0..count).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.tags.len() * size_of::<AtomicU32>()) as u64
    }

    /// Returns the table entry for a hash, and the tag of the hash, which is never zero.
    fn place(&self, hash: u64) -> (&AtomicU32, u32) {
        debug_assert!(
            self.tags.len().is_power_of_two(),
            "places are the low bits of a hash"
        );
        let at = (hash >> 32) as usize & (self.tags.len() - 1);
        (&self.tags[at], hash as u32 | 1)
    }

    /// Remembers that a node was evicted.
    pub(super) fn note(&self, hash: u64) {
        let (place, tag) = self.place(hash);
        place.store(tag, Ordering::Relaxed);
    }

    /// Returns whether a node was evicted recently, and forgets it.
    pub(super) fn recall(&self, hash: u64) -> bool {
        let (place, tag) = self.place(hash);
        let known = place.load(Ordering::Relaxed) == tag;
        if known {
            place.store(0, Ordering::Relaxed);
        }
        known
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn what_went_is_known_once_and_until_another_takes_its_place() {
        let ghosts = GhostQueue::new(1);
        let hash = |place: u64, tag: u64| place << 32 | tag;
        ghosts.note(hash(3, 7));
        assert!(!ghosts.recall(hash(3, 9)) && !ghosts.recall(hash(4, 7)));
        assert!(ghosts.recall(hash(3, 7)) && !ghosts.recall(hash(3, 7)));
        ghosts.note(hash(3, 7));
        ghosts.note(hash(3 + LEAST as u64, 9));
        assert!(!ghosts.recall(hash(3, 7)));
        assert_eq!(GhostQueue::new(100).bytes(), 4 * 128);
    }
}
