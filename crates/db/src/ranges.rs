//! Sets of ranges of keys, joined where they meet.

use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A key of a set. Short ones take no allocation of their own.
pub(crate) type Key = SmallVec<[u8; 48]>;

/// What a range takes beside its bytes, about.
const PER_RANGE: usize = size_of::<Key>() + size_of::<Option<Key>>();

/// Ranges of keys, no two of which meet: their ends by their starts. One without an end has all
/// keys from its start on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    ends: BTreeMap<Key, Option<Key>>,
    bytes: usize,
}

/// What adding a range has replaced.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    /// Where the joined range begins.
    start: Key,
    replaced: Vec<(Key, Option<Key>)>,
}

impl Joined {
    /// About how many bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        let replaced = self.replaced.iter();
        let replaced = replaced.map(|(start, end)| taken(start, end.as_deref()));
        replaced.sum::<usize>() + taken(&self.start, None)
    }
}

impl Ranges {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// About how many bytes of memory they take.
    pub(crate) fn memory(&self) -> usize {
        self.bytes
    }

    /// Adds a range that is not empty, and joins it with those that it meets. Returns how to take
    /// it back.
    pub(crate) fn insert(&mut self, start: &[u8], end: Option<&[u8]>) -> Joined {
        debug_assert!(end.is_none_or(|end| start < end), "the range has keys");
        let (mut start, mut end): (Key, Option<Key>) = (Key::from_slice(start), end.map(Key::from_slice));
        let mut replaced = Vec::new();
        // Of those that begin at or before its end, the last one reaches furthest.
        while let Some((other, other_end)) = self.last_from(end.as_deref())
            && other_end.as_ref().is_none_or(|other_end| *other_end >= start)
        {
            let (other, other_end) = (other.clone(), other_end.clone());
            self.ends.remove(&other);
            self.bytes -= taken(&other, other_end.as_deref());
            replaced.push((other.clone(), other_end.clone()));
            start = start.min(other);
            end = end.zip(other_end).map(|(end, other)| end.max(other));
        }
        self.bytes += taken(&start, end.as_deref());
        self.ends.insert(start.clone(), end);
        Joined { start, replaced }
    }

    /// Takes the last range back that was added and was not taken back yet.
    pub(crate) fn undo(&mut self, joined: Joined) {
        let end = self.ends.remove(&joined.start);
        let end = end.expect("ranges are taken back in the reverse order");
        self.bytes -= taken(&joined.start, end.as_deref());
        for (start, end) in joined.replaced {
            self.bytes += taken(&start, end.as_deref());
            self.ends.insert(start, end);
        }
    }

    /// The last range that begins at or before a key; the last of all without one.
    fn last_from(&self, key: Option<&[u8]>) -> Option<(&Key, &Option<Key>)> {
        let before = key.map_or(Bound::Unbounded, Bound::Included);
        self.ends.range::<[u8], _>((Bound::Unbounded, before)).next_back()
    }

    /// Whether a key lies within one of them.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let last = self.last_from(Some(key));
        last.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }

    /// All of them, in order: start and end.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.ends.iter().map(|(start, end)| (&start[..], end.as_deref()))
    }
}

/// The memory that a range takes.
fn taken(start: &[u8], end: Option<&[u8]>) -> usize {
    PER_RANGE + start.len() + end.map_or(0, <[u8]>::len)
}
