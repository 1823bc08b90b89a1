//! Detection of duplicate keys in the input of an import, with limited memory.

use super::progress::fingerprint;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Approximate memory in bytes of one fingerprint in the set.
const EACH: usize = 16;
/// Minimum number of fingerprints that the set can contain.
const LEAST: usize = 1 << 16;

/// A hasher that returns fingerprints unchanged, because they are already uniformly distributed.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = fingerprint(bytes);
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The keys that an import has seen so far. A key greater than all earlier ones is known to be new.
/// Other keys are compared with the fingerprints of earlier keys, as far as these fit in memory.
#[derive(Default)]
pub(super) struct DuplicateDetector {
    greatest: Option<Vec<u8>>,
    /// Whether the last row with the greatest key put the key rather than deleting it.
    is_greatest_put: bool,
    fingerprints: HashSet<u64, BuildHasherDefault<IdentityHasher>>,
    most: usize,
    /// Number of rows whose key an earlier row had already put.
    pub(super) duplicates: u64,
    /// Whether some keys could be compared with only part of the earlier keys.
    pub(super) is_partial: bool,
}

impl std::fmt::Debug for DuplicateDetector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DuplicateDetector")
            .field("duplicates", &self.duplicates)
            .finish_non_exhaustive()
    }
}

impl DuplicateDetector {
    /// Creates a detector that uses approximately `bytes` bytes of memory.
    pub(super) fn new(bytes: usize) -> DuplicateDetector {
        DuplicateDetector {
            most: (bytes / EACH).max(LEAST),
            ..DuplicateDetector::default()
        }
    }

    /// Registers the key of a row that sets its value.
    pub(super) fn put(&mut self, key: &[u8]) {
        let order = self
            .greatest
            .as_deref()
            .map_or(Ordering::Greater, |greatest| key.cmp(greatest));
        let is_new = match order {
            Ordering::Greater => {
                let greatest = self.greatest.get_or_insert_default();
                greatest.clear();
                greatest.extend_from_slice(key);
                self.remember(key);
                true
            }
            Ordering::Equal => {
                self.remember(key);
                !self.is_greatest_put
            }
            Ordering::Less => {
                let is_new = self.remember(key);
                self.is_partial |= is_new && self.fingerprints.len() >= self.most;
                is_new
            }
        };
        self.is_greatest_put |= order != Ordering::Less;
        self.duplicates += u64::from(!is_new);
    }

    /// Registers the key of a row that deletes it. A later row that puts the key is not a
    /// duplicate.
    pub(super) fn delete(&mut self, key: &[u8]) {
        self.fingerprints.remove(&fingerprint(key));
        if self.greatest.as_deref() == Some(key) {
            self.is_greatest_put = false;
        }
    }

    /// Adds a key's fingerprint to the set. Returns true if the set did not contain it.
    fn remember(&mut self, key: &[u8]) -> bool {
        let fingerprint = fingerprint(key);
        if self.fingerprints.len() < self.most {
            return self.fingerprints.insert(fingerprint);
        }
        !self.fingerprints.contains(&fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_came_before_are_counted_in_any_order() {
        let mut seen = DuplicateDetector::new(0);
        for key in ["b", "a", "c", "a", "c", "b", "d"] {
            seen.put(key.as_bytes());
        }
        assert_eq!((seen.duplicates, seen.is_partial), (3, false));
        seen.delete(b"d");
        seen.delete(b"a");
        seen.put(b"d");
        seen.put(b"a");
        assert_eq!(seen.duplicates, 3);
        seen.put(b"d");
        assert_eq!(seen.duplicates, 4);
    }

    #[test]
    fn memory_is_bounded_and_keys_in_order_are_counted_exactly_all_the_same() {
        let mut seen = DuplicateDetector::new(0);
        for number in 0..3 * LEAST as u32 {
            seen.put(&number.to_be_bytes());
            if number % 1000 == 0 {
                seen.put(&number.to_be_bytes());
            }
        }
        assert_eq!((seen.duplicates, seen.is_partial), (197, false));
        assert!(seen.fingerprints.len() <= LEAST);
        // A key that is out of order and not in the set may still be a duplicate, so the result is
        // marked as partial.
        seen.put(&(2 * LEAST as u32).to_be_bytes());
        assert!(seen.is_partial);
        seen.put(&7u32.to_be_bytes());
        assert_eq!(seen.duplicates, 198);
    }
}
