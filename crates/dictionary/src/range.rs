//! Ranges of keys.

use std::fmt;

/// The key range `low..high`, which is unbounded above if `high` is `None`.
///
/// ```
/// use alluvium_dictionary::range::KeyRange;
/// let range = KeyRange::new(b"b", Some(b"d"));
/// assert!(range.contains(b"b") && range.contains(b"czar") && !range.contains(b"d"));
/// assert!(range.overlaps(b"a", b"b") && !range.overlaps(b"d", b"z"));
/// assert_eq!(range.intersect(&KeyRange::new(b"c", None)), KeyRange::new(b"c", Some(b"d")));
/// assert!(KeyRange::new(b"c", Some(b"c")).is_empty());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// Inclusive lower bound, which is the empty key if the range starts at the first key.
    pub low: Box<[u8]>,
    /// Exclusive upper bound, or `None` if the range is unbounded above.
    pub high: Option<Box<[u8]>>,
}

impl KeyRange {
    /// Creates the range `low..high`, which is unbounded above if `high` is `None`.
    #[must_use]
    pub fn new(low: &[u8], high: Option<&[u8]>) -> KeyRange {
        KeyRange {
            low: low.into(),
            high: high.map(Into::into),
        }
    }

    /// Creates the range of all keys.
    #[must_use]
    pub fn everything() -> KeyRange {
        KeyRange::new(&[], None)
    }

    /// Returns whether the range contains no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| **high <= *self.low)
    }

    /// Returns whether the range contains a key.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.low <= *key && !self.ends_before(key)
    }

    /// Returns whether the range ends at or before `key`.
    #[must_use]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        self.high.as_ref().is_some_and(|high| **high <= *key)
    }

    /// Returns whether the range contains a key in `low..=high`.
    #[must_use]
    pub fn overlaps(&self, low: &[u8], high: &[u8]) -> bool {
        *self.low <= *high && !self.ends_before(low) && !self.is_empty()
    }

    /// Returns whether the range contains every key of `other`.
    #[must_use]
    pub fn covers(&self, other: &KeyRange) -> bool {
        other.is_empty() || (self.low <= other.low && self.least_high(other) == other.high.as_deref())
    }

    /// Returns the intersection of both ranges.
    #[must_use]
    pub fn intersect(&self, other: &KeyRange) -> KeyRange {
        KeyRange {
            low: self.low.as_ref().max(&*other.low).into(),
            high: self.least_high(other).map(Into::into),
        }
    }

    fn least_high<'a>(&'a self, other: &'a KeyRange) -> Option<&'a [u8]> {
        match (self.high.as_deref(), other.high.as_deref()) {
            (Some(mine), Some(others)) => Some(mine.min(others)),
            (high, None) | (None, high) => high,
        }
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"..", self.low.escape_ascii())?;
        match &self.high {
            Some(high) => write!(f, "\"{}\"", high.escape_ascii()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges() -> Vec<KeyRange> {
        let keys: [&[u8]; 5] = [b"", b"a", b"ab", b"b", b"c"];
        let highs = keys.iter().copied().map(Some).chain([None]);
        let pairs = highs.flat_map(|high| keys.iter().map(move |low| (*low, high)));
        pairs.map(|(low, high)| KeyRange::new(low, high)).collect()
    }

    const PROBES: [&[u8]; 8] = [b"", b"\0", b"a", b"aa", b"ab", b"b", b"bb", b"c"];

    #[test]
    fn an_intersection_contains_what_both_contain() {
        for one in ranges() {
            for other in ranges() {
                let both = one.intersect(&other);
                for key in PROBES {
                    assert_eq!(both.contains(key), one.contains(key) && other.contains(key));
                }
                assert_eq!(
                    one.covers(&other),
                    other.is_empty() || one.intersect(&other) == other
                );
            }
        }
    }

    #[test]
    fn a_range_overlaps_what_it_shares_a_key_with() {
        for range in ranges() {
            for low in PROBES {
                for high in PROBES.into_iter().filter(|high| *high >= low) {
                    let shared = PROBES
                        .iter()
                        .any(|key| range.contains(key) && *key >= low && *key <= high);
                    if shared {
                        assert!(range.overlaps(low, high), "{range:?} {low:?} {high:?}");
                    }
                    if range.is_empty() || range.ends_before(low) || *high < *range.low {
                        assert!(!range.overlaps(low, high), "{range:?} {low:?} {high:?}");
                    }
                }
            }
        }
    }
}
