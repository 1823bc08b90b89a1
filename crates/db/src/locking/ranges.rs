//! Sets of key ranges, which merge ranges that overlap or are adjacent.

use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A bound of a key range. Short keys are stored inline, without allocation.
pub(crate) type InlineKey = SmallVec<[u8; 48]>;

/// Approximate memory that a range needs in addition to the bytes of its bounds.
const PER_RANGE: usize = size_of::<InlineKey>() + size_of::<Option<InlineKey>>();

/// A set of key ranges that neither overlap nor touch. `ends` maps each range's lower bound to its
/// upper bound, which is `None` if the range is unbounded above.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ends: BTreeMap<InlineKey, Option<InlineKey>>,
    bytes: usize,
}

/// What is needed to undo the insertion of a range.
#[derive(Clone, Debug)]
pub(crate) struct RangeUndo {
    /// Lower bound of the range that resulted from the insertion.
    start: InlineKey,
    replaced: Vec<(InlineKey, Option<InlineKey>)>,
}

impl RangeUndo {
    /// Returns the approximate memory of the undo record, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let replaced = self.replaced.iter();
        let replaced = replaced.map(|(start, end)| taken(start, end.as_deref()));
        replaced.sum::<usize>() + taken(&self.start, None)
    }
}

impl RangeSet {
    /// Returns the number of ranges in the set.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the approximate memory of the ranges, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes
    }

    /// Inserts a range, which must not be empty, and merges it with all overlapping and adjacent
    /// ranges. Returns a record that can undo the insertion.
    pub(crate) fn insert(&mut self, start: &[u8], end: Option<&[u8]>) -> RangeUndo {
        debug_assert!(end.is_none_or(|end| start < end), "the range has keys");
        let (mut start, mut end): (InlineKey, Option<InlineKey>) =
            (InlineKey::from_slice(start), end.map(InlineKey::from_slice));
        let mut replaced = Vec::new();
        // Of the ranges that start at or before the end of the inserted range, the last one also
        // ends last. If it does not reach the inserted range, none of them does.
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
        RangeUndo { start, replaced }
    }

    /// Undoes an insertion. Insertions must be undone in reverse order.
    pub(crate) fn undo(&mut self, joined: RangeUndo) {
        let end = self.ends.remove(&joined.start);
        let end = end.expect("ranges are taken back in the reverse order");
        self.bytes -= taken(&joined.start, end.as_deref());
        for (start, end) in joined.replaced {
            self.bytes += taken(&start, end.as_deref());
            self.ends.insert(start, end);
        }
    }

    /// Returns the last range that starts at or before `key`, or the last range of all if `key` is
    /// `None`.
    fn last_from(&self, key: Option<&[u8]>) -> Option<(&InlineKey, &Option<InlineKey>)> {
        let before = key.map_or(Bound::Unbounded, Bound::Included);
        self.ends.range::<[u8], _>((Bound::Unbounded, before)).next_back()
    }

    /// Returns whether the key is inside one of the ranges.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let last = self.last_from(Some(key));
        last.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }

    /// Returns the lower and upper bound of each range, in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.ends.iter().map(|(start, end)| (&start[..], end.as_deref()))
    }
}

/// Returns the approximate memory of a range with these bounds, in bytes.
fn taken(start: &[u8], end: Option<&[u8]>) -> usize {
    PER_RANGE + start.len() + end.map_or(0, <[u8]>::len)
}
