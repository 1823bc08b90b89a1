//! Which keys an input has had already, in bounded memory.

use super::progress::fingerprint;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes that a fingerprint takes in the set, about.
const EACH: usize = 16;
/// The least number of keys that are compared.
const LEAST: usize = 1 << 16;

/// Fingerprints are spread evenly already.
#[derive(Default)]
struct Plain(u64);

impl Hasher for Plain {
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

/// Keys that were there. Of keys that ascend, the last says that they are new; of others their
/// fingerprints do, as many as fit.
#[derive(Default)]
pub(super) struct Seen {
    greatest: Option<Vec<u8>>,
    /// Whether the greatest key has a value.
    is_greatest_put: bool,
    fingerprints: HashSet<u64, BuildHasherDefault<Plain>>,
    most: usize,
    /// How many keys came that an earlier row has put.
    pub(super) duplicates: u64,
    /// Whether a key was compared with some of the earlier ones only.
    pub(super) is_partial: bool,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen")
            .field("duplicates", &self.duplicates)
            .finish_non_exhaustive()
    }
}

impl Seen {
    /// Remembers keys in about a number of bytes.
    pub(super) fn new(bytes: usize) -> Seen {
        Seen {
            most: (bytes / EACH).max(LEAST),
            ..Seen::default()
        }
    }

    /// Notes a key that a row puts.
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

    /// Notes a key that a row deletes: a row that puts it later puts a new one.
    pub(super) fn delete(&mut self, key: &[u8]) {
        self.fingerprints.remove(&fingerprint(key));
        if self.greatest.as_deref() == Some(key) {
            self.is_greatest_put = false;
        }
    }

    /// Returns whether the fingerprint is new.
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
        let mut seen = Seen::new(0);
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
        let mut seen = Seen::new(0);
        for number in 0..3 * LEAST as u32 {
            seen.put(&number.to_be_bytes());
            if number % 1000 == 0 {
                seen.put(&number.to_be_bytes());
            }
        }
        assert_eq!((seen.duplicates, seen.is_partial), (197, false));
        assert!(seen.fingerprints.len() <= LEAST);
        // A late key may have come before: it is not said that all is known.
        seen.put(&(2 * LEAST as u32).to_be_bytes());
        assert!(seen.is_partial);
        seen.put(&7u32.to_be_bytes());
        assert_eq!(seen.duplicates, 198);
    }
}
