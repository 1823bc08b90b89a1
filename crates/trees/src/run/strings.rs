//! A table of sorted, concatenated byte strings, such as the keys of a leaf or the separators of an
//! index node. It supports access by index and binary search.

use super::MalformedNode;
use super::format::{get, head, u16_in};
use std::hint::select_unpredictable;

/// The location of a string table in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StringTable {
    pub(super) count: usize,
    /// Offset of the first string in the node.
    pub(super) at: usize,
    /// Total length of all strings in bytes.
    pub(super) len: usize,
    pub(super) ends: StringEnds,
}

/// How the ends of the strings are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringEnds {
    /// All strings have this length, so their ends are not stored.
    Equal(usize),
    /// The end of each string is stored as a packed integer.
    Listed {
        /// Offset of the first of these integers in the node.
        at: usize,
        /// Width of each integer in bytes.
        width: usize,
    },
}

impl StringEnds {
    /// Returns the total length of `count` strings, or `None` if it cannot be read.
    pub(super) fn total(self, bytes: &[u8], count: usize) -> Option<usize> {
        match self {
            StringEnds::Equal(len) => count.checked_mul(len),
            StringEnds::Listed { at, width } => {
                let last = count.checked_sub(1)?;
                Some(get(bytes, at + last * width, width)? as usize)
            }
        }
    }
}

impl StringTable {
    /// Returns the offsets of a string's start and end in the node, or `None` if they are outside
    /// of the table.
    #[inline(always)]
    pub(super) fn range(&self, bytes: &[u8], index: usize) -> Option<(usize, usize)> {
        let (start, end) = match self.ends {
            StringEnds::Equal(len) => (index * len, (index + 1) * len),
            StringEnds::Listed { at, width } => {
                let end = get(bytes, at + index * width, width)?;
                let start = match index.checked_sub(1) {
                    Some(before) => get(bytes, at + before * width, width)?,
                    None => 0,
                };
                (start as usize, end as usize)
            }
        };
        (start <= end && end <= self.len).then(|| (self.at + start, self.at + end))
    }

    #[inline(always)]
    pub(super) fn get<'a>(&self, bytes: &'a [u8], index: usize) -> Result<&'a [u8], MalformedNode> {
        let string = self
            .range(bytes, index)
            .and_then(|(start, end)| bytes.get(start..end));
        string.ok_or(MalformedNode("strings in a row"))
    }

    /// Returns the number of strings that are less than `key`.
    #[inline]
    pub(super) fn below(&self, bytes: &[u8], key: &[u8]) -> Result<usize, MalformedNode> {
        self.partition::<false>(bytes, key)
    }

    /// Returns the number of strings that are less than or equal to `key`.
    #[inline]
    pub(super) fn at_or_below(&self, bytes: &[u8], key: &[u8]) -> Result<usize, MalformedNode> {
        self.partition::<true>(bytes, key)
    }

    /// Returns the number of strings that are less than `key`. If `EQUAL` is true, also counts
    /// strings equal to `key`.
    #[inline]
    fn partition<const EQUAL: bool>(&self, bytes: &[u8], key: &[u8]) -> Result<usize, MalformedNode> {
        // Finding the end of a string is most of the work, so the search loop is compiled
        // separately for each representation of the ends.
        let found = match self.ends {
            StringEnds::Equal(len) => {
                self.search::<EQUAL>(bytes, key, |index| Some((index * len, (index + 1) * len)))
            }
            StringEnds::Listed { at, width: 2 } => self.search::<EQUAL>(bytes, key, |index| {
                let end = u16_in(bytes, at + 2 * index)?;
                let start = match index.checked_sub(1) {
                    Some(before) => u16_in(bytes, at + 2 * before)?,
                    None => 0,
                };
                Some((usize::from(start), usize::from(end)))
            }),
            StringEnds::Listed { .. } => self.search::<EQUAL>(bytes, key, |index| {
                let (start, end) = self.range(bytes, index)?;
                Some((start - self.at, end - self.at))
            }),
        };
        found.ok_or(MalformedNode("strings in a row"))
    }

    /// Bisects for `key` without branches that depend on comparison results. The first eight bytes
    /// are compared as integers, and the rest only if these are equal. `range` returns the start
    /// and end of a string, relative to the first string.
    #[inline(always)]
    fn search<const EQUAL: bool>(
        &self,
        bytes: &[u8],
        key: &[u8],
        range: impl Fn(usize) -> Option<(usize, usize)>,
    ) -> Option<usize> {
        let wanted = head(key, 0, key.len())?;
        // Eight bytes are loaded at a time. Those after the end of the table are ignored.
        let bytes = bytes.get(self.at..)?;
        let (mut low, mut left) = (0, self.count);
        while left > 0 {
            let half = left / 2;
            let (start, end) = range(low + half)?;
            if end > self.len {
                return None;
            }
            let found = head(bytes, start, end)?;
            let is_before = if found == wanted {
                let string = bytes.get(start..end)?;
                string < key || (EQUAL && string == key)
            } else {
                found < wanted
            };
            low = select_unpredictable(is_before, low + half + 1, low);
            left = select_unpredictable(is_before, left - half - 1, half);
        }
        Some(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_belongs_where_a_linear_search_puts_it() {
        let mut random = fastrand::Rng::with_seed(1);
        for round in 0..500 {
            let longest = random.usize(1..12);
            let equal = round % 2 == 0;
            let string = |random: &mut fastrand::Rng| -> Vec<u8> {
                let len = if equal { longest } else { random.usize(..=longest) };
                (0..len).map(|_| random.u8(..3)).collect()
            };
            let mut strings: Vec<Vec<u8>> = (0..random.usize(1..40)).map(|_| string(&mut random)).collect();
            strings.sort();
            let mut bytes = Vec::new();
            let mut end = 0u16;
            for string in &strings {
                end += string.len() as u16;
                bytes.extend_from_slice(&end.to_le_bytes());
            }
            let at = bytes.len();
            bytes.extend(strings.iter().flatten());
            let ends = match equal {
                true => StringEnds::Equal(longest),
                false => StringEnds::Listed { at: 0, width: 2 },
            };
            let (count, len) = (strings.len(), usize::from(end));
            assert_eq!(ends.total(&bytes, count), Some(len));
            let found = StringTable { count, at, len, ends };
            for (index, string) in strings.iter().enumerate() {
                assert_eq!(found.get(&bytes, index).unwrap(), string);
            }
            for _ in 0..20 {
                let key = string(&mut random);
                let below = strings.iter().filter(|string| **string < key).count();
                let at_or_below = strings.iter().filter(|string| **string <= key).count();
                assert_eq!(found.below(&bytes, &key).unwrap(), below);
                assert_eq!(found.at_or_below(&bytes, &key).unwrap(), at_or_below);
            }
        }
    }

    #[test]
    fn ends_outside_the_strings_are_an_error() {
        let bytes = [2, 0, 1, 0, 9, 0, b'a', b'b'];
        let strings = StringTable {
            count: 3,
            at: 6,
            len: 2,
            ends: StringEnds::Listed { at: 0, width: 2 },
        };
        assert_eq!(strings.get(&bytes, 0).unwrap(), b"ab");
        assert!(strings.get(&bytes, 1).is_err() && strings.get(&bytes, 2).is_err());
        assert!(strings.below(&bytes, b"zz").is_err());
    }
}
