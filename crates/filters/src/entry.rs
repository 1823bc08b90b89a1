//! Filter entries, each of which is a fingerprint with a small value.

use std::fmt;

/// Maximum length of a fingerprint, in bits. The other bits of the 64 in a [`FilterEntry`] are for
/// the value.
pub const MAX_FINGERPRINT_BITS: u32 = 48;

/// Maximum length of a value, in bits.
pub const MAX_VALUE_BITS: u32 = 16;

const _: () = assert!(
    MAX_FINGERPRINT_BITS + MAX_VALUE_BITS == 64,
    "an entry is one word"
);

/// The leading bits of a key's hash, left-aligned in a word. All fingerprints of a store have the
/// same length, so filters can be merged without the keys: a merge never needs more bits of a hash
/// than its input has.
///
/// ```
/// use alluvium_filters::Fingerprint;
/// let fingerprint = Fingerprint::of(0xabcd_ef01_2345_6789, 12);
/// assert_eq!(fingerprint.number(12), 0xabc);
/// assert_eq!(Fingerprint::of_number(0xabc, 12), fingerprint);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub(crate) u64);

impl Fingerprint {
    /// Returns the fingerprint made of the first `bits` bits of a hash.
    ///
    /// # Panics
    /// If `bits` is 0 or above [`MAX_FINGERPRINT_BITS`].
    #[must_use]
    #[inline]
    pub fn of(hash: u64, bits: u32) -> Fingerprint {
        assert!(
            (1..=MAX_FINGERPRINT_BITS).contains(&bits),
            "a fingerprint has 1 to 48 bits"
        );
        Fingerprint(hash & u64::MAX << (64 - bits))
    }

    /// Returns the fingerprint of `bits` bits that represents `number`.
    ///
    /// # Panics
    /// If `bits` is 0 or above [`MAX_FINGERPRINT_BITS`], or if the number needs more bits.
    #[must_use]
    pub fn of_number(number: u64, bits: u32) -> Fingerprint {
        assert!(
            (1..=MAX_FINGERPRINT_BITS).contains(&bits),
            "a fingerprint has 1 to 48 bits"
        );
        assert!(number >> bits == 0, "{number} needs more than {bits} bits");
        Fingerprint(number << (64 - bits))
    }

    /// Returns the number that a fingerprint of `bits` bits represents.
    #[must_use]
    #[inline]
    pub fn number(self, bits: u32) -> u64 {
        self.0 >> (64 - bits)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({:012x})", self.0 >> 16)
    }
}

/// A fingerprint and its value in one word. Entries are ordered by fingerprint, and those with
/// equal fingerprints by descending value. Runs are numbered from oldest to newest, so the newest
/// run comes first.
///
/// ```
/// use alluvium_filters::{FilterEntry, Fingerprint};
/// let at = |number, value| FilterEntry::new(Fingerprint::of_number(number, 20), value);
/// assert!(at(1, 5) < at(1, 4), "the newer run first");
/// assert!(at(1, 4) < at(2, 9));
/// assert_eq!(at(2, 9).value(), 9);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterEntry(pub(crate) u64);

impl FilterEntry {
    /// Creates an entry from a fingerprint and a value.
    #[must_use]
    #[inline]
    pub fn new(fingerprint: Fingerprint, value: u16) -> FilterEntry {
        FilterEntry(fingerprint.0 | u64::from(!value))
    }

    #[must_use]
    #[inline]
    pub fn fingerprint(self) -> Fingerprint {
        Fingerprint(self.0 & !u64::from(u16::MAX))
    }

    #[must_use]
    #[inline]
    pub fn value(self) -> u16 {
        !(self.0 as u16)
    }

    /// Returns an entry with the same fingerprint and the given value.
    #[must_use]
    #[inline]
    pub fn with_value(self, value: u16) -> FilterEntry {
        FilterEntry::new(self.fingerprint(), value)
    }

    /// Returns the entry as an integer, for error messages and radix sorts. The integers sort in
    /// the same order as the entries.
    #[must_use]
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for FilterEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({:012x} -> {})", self.0 >> 16, self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_gives_back_what_it_was_made_of(hash: u64, bits in 1u32..=48, value: u16, other: u16) {
            let fingerprint = Fingerprint::of(hash, bits);
            let entry = FilterEntry::new(fingerprint, value);
            prop_assert_eq!((entry.fingerprint(), entry.value()), (fingerprint, value));
            prop_assert_eq!(entry.with_value(other), FilterEntry::new(fingerprint, other));
            prop_assert_eq!(Fingerprint::of_number(fingerprint.number(bits), bits), fingerprint);
        }

        #[test]
        fn entries_sort_by_fingerprint_then_by_falling_value(a: (u64, u16), b: (u64, u16)) {
            let entry = |x: (u64, u16)| FilterEntry::new(Fingerprint::of(x.0, 48), x.1);
            let key = |x: (u64, u16)| (x.0 >> 16, std::cmp::Reverse(x.1));
            prop_assert_eq!(entry(a).cmp(&entry(b)), key(a).cmp(&key(b)));
        }
    }
}
