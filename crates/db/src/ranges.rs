//! Ranges of keys that were deleted, joined where they meet.

use super::Key;
use std::collections::BTreeMap;
use std::ops::Bound;

/// What a range takes beside its bytes, about.
const PER_RANGE: usize = size_of::<Key>() + size_of::<Option<Key>>();

/// Ranges of keys, no two of which meet: their ends by their starts. One without an end has all
/// keys from its start on.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    ends: BTreeMap<Key, Option<Key>>,
    bytes: usize,
}

impl Ranges {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// About how many bytes of memory they take.
    pub(super) fn memory(&self) -> usize {
        self.bytes
    }

    /// Adds a range that is not empty, and joins it with those that it meets.
    pub(super) fn insert(&mut self, start: &[u8], end: Option<&[u8]>) {
        debug_assert!(end.is_none_or(|end| start < end), "the range has keys");
        let (mut start, mut end): (Key, Option<Key>) = (start.into(), end.map(Key::from));
        // Of those that begin at or before its end, the last one reaches furthest.
        while let Some((other, other_end)) = self.last_from(end.as_deref())
            && other_end.as_ref().is_none_or(|other_end| *other_end >= start)
        {
            let (other, other_end) = (other.clone(), other_end.clone());
            self.ends.remove(&other);
            self.bytes -= taken(&other, other_end.as_deref());
            start = start.min(other);
            end = end.zip(other_end).map(|(end, other)| end.max(other));
        }
        self.bytes += taken(&start, end.as_deref());
        self.ends.insert(start, end);
    }

    /// The last range that begins at or before a key; the last of all without one.
    fn last_from(&self, key: Option<&[u8]>) -> Option<(&Key, &Option<Key>)> {
        let before = key.map_or(Bound::Unbounded, Bound::Included);
        self.ends.range::<[u8], _>((Bound::Unbounded, before)).next_back()
    }

    /// Whether a key lies within one of them.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        let last = self.last_from(Some(key));
        last.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }

    /// All of them, in order: start and end.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.ends.iter().map(|(start, end)| (&start[..], end.as_deref()))
    }
}

/// The memory that a range takes.
fn taken(start: &[u8], end: Option<&[u8]>) -> usize {
    PER_RANGE + start.len() + end.map_or(0, <[u8]>::len)
}
