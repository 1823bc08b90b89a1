//! Ghosts: keys that were recently read or evicted but are not in the cache. Only four bytes of
//! each key's hash are stored.

use super::table::pick;

/// Number of ghosts in each bucket.
/// Tuning: `8` since 2026-11-22.
const GHOSTS: usize = 8;

/// Number of bytes that each ghost occupies.
/// Tuning: `size_of::<u32>()` since 2026-11-22.
pub(super) const GHOST_BYTES: usize = size_of::<u32>();

/// Buckets of ghosts, each ordered from newest to oldest. A new ghost replaces the oldest one in
/// its bucket.
#[derive(Debug, Default)]
pub(super) struct GhostTable {
    buckets: Box<[[u32; GHOSTS]]>,
}

/// Returns the half of the hash that is stored. It also selects the bucket, so that ghosts can be
/// moved to a table with a different number of buckets. It is never zero.
fn tag(hash: u64) -> u32 {
    (hash as u32).max(1)
}

impl GhostTable {
    /// Creates a table with space for at least `keys` ghosts.
    pub(super) fn new(keys: usize) -> GhostTable {
        GhostTable {
            buckets: vec![[0; GHOSTS]; keys.div_ceil(GHOSTS)].into_boxed_slice(),
        }
    }

    /// Creates a table with space for at least `keys` ghosts, and copies this table's newest ghosts
    /// to it.
    pub(super) fn resized(&self, keys: usize) -> GhostTable {
        let mut ghosts = GhostTable::new(keys);
        for bucket in &self.buckets {
            for &ghost in bucket.iter().rev().filter(|&&ghost| ghost != 0) {
                ghosts.note(u64::from(ghost));
            }
        }
        ghosts
    }

    /// Returns the number of ghosts that fit into the table.
    pub(super) fn keys(&self) -> usize {
        self.buckets.len() * GHOSTS
    }

    pub(super) fn bytes(&self) -> usize {
        self.keys() * GHOST_BYTES
    }

    fn bucket(&mut self, hash: u64) -> Option<&mut [u32; GHOSTS]> {
        let count = self.buckets.len();
        (count > 0).then(|| &mut self.buckets[pick(hash, count)])
    }

    /// Adds the key with this hash, replacing the oldest ghost in its bucket.
    pub(super) fn note(&mut self, hash: u64) {
        if let Some(bucket) = self.bucket(hash) {
            bucket.rotate_right(1);
            bucket[0] = tag(hash);
        }
    }

    /// Removes the key with this hash. Returns whether it was present.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let tag = tag(hash);
        let Some(bucket) = self.bucket(hash) else {
            return false;
        };
        let found = bucket.iter().position(|&ghost| ghost == tag);
        if let Some(at) = found {
            bucket[at..].rotate_left(1);
            bucket[GHOSTS - 1] = 0;
        }
        found.is_some()
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_base::checksum;

    #[test]
    fn the_oldest_ghost_goes_first() {
        let mut ghosts = GhostTable::new(8);
        for key in 1..10u64 {
            ghosts.note(key);
        }
        assert!(!ghosts.take(1));
        assert!((2..10).all(|key| ghosts.take(key) && !ghosts.take(key)));
        assert!(!GhostTable::new(0).take(0));
    }

    #[test]
    fn ghosts_are_known_whatever_size_they_take_on() {
        let mut ghosts = GhostTable::new(8000);
        let hashes: Vec<u64> = (0..4000u64).map(|key| checksum(&key.to_le_bytes())).collect();
        hashes.iter().for_each(|&hash| ghosts.note(hash));
        for keys in [9_000, 7_500, 20_000] {
            ghosts = ghosts.resized(keys);
            assert!(ghosts.keys() >= keys);
        }
        let known = hashes.iter().filter(|&&hash| ghosts.take(hash)).count();
        assert!(known > 3900, "{known} of 4,000");
        assert_eq!(GhostTable::new(8).resized(0).keys(), 0);
    }
}
