//! An index of possibly overlapping range deletes. Each range delete is stored once. A lookup finds
//! the newest one that covers a key and that a reader sees.
//!
//! *Scope*: which deletes cover a key, which range around a key is deleted for a reader, which
//! deletes no reader can tell apart any more.
//!
//! *Must not depend on*: whether the deletes belong to a memtable or to a run.
//!
//! The index is a segment tree (Bentley, 1977). The keys at which range deletes start or end divide
//! the key space into cells, which are the leaves of the tree. A range delete is entered at the
//! nodes whose subtrees combine to exactly its range, of which there are at most two per level. A
//! lookup visits the ancestors of one cell, and looks for the newest visible range delete at each.
//!
//! ```text
//!   deletes    3: a to m    7: g to z
//!   cells      [a, g)  [g, m)  [m, z)
//!   tree       each node: the deletes that cover all its cells, and not all its parent's; oldest first
//! ```
//!
//! A snapshot may retain hundreds of thousands of range deletes, which stay in memory while their
//! run is open. Keys are therefore prefix-compressed in groups of 16, and numbers are bit-packed
//! (`packed_integers.rs`). A range delete with short keys that overlaps only a few others then
//! occupies about 20 bytes.
//!
//! Invariants:
//!
//! - **Z1** Every range delete is stored once. A reader at any sequence number finds the newest
//!   range delete up to that number.
//! - **Z2** A range delete occupies at most the size of its two keys plus [`OVERHEAD`] bytes,
//!   however many others overlap it.
//! - **Z3** Folding for a list of readers changes neither their results nor those of any reader
//!   above the last of them.

mod builder;
mod format;
mod list;
mod packed_integers;
mod segment_tree;

#[cfg(test)]
mod tests;

pub use builder::RangeTombstoneBuilder;
pub use list::RangeTombstoneList;

use crate::range::KeyRange;
use alluvium_base::SequenceNumber;
use format::BoundaryKeys;
use packed_integers::PackedIntegers;
use segment_tree::SegmentTree;
use std::ops::Range;

/// Maximum memory that a range delete occupies besides its two keys, in bytes: the lengths of the
/// keys (8), the range delete itself (16), its share of the tree nodes (16), two entries in each of
/// up to 32 levels (256), and the fixed size of an index.
pub const OVERHEAD: usize = 448;

/// A range delete from an inclusive to an exclusive boundary, both of which are key numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexedTombstone {
    sequence: SequenceNumber,
    start: u32,
    end: u32,
}

/// An ascending array of sequence numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SequenceArray {
    base: SequenceNumber,
    /// The differences between the sequence numbers and `base`, the lowest of them.
    beyond: PackedIntegers,
}

impl SequenceArray {
    fn of(all: &[SequenceNumber]) -> SequenceArray {
        let base = all.first().copied().unwrap_or(0);
        let beyond = PackedIntegers::of(all.iter().map(|one| one - base));
        SequenceArray { base, beyond }
    }

    fn get(&self, number: usize) -> SequenceNumber {
        self.base + self.beyond.get(number)
    }
}

/// An index of range deletes.
///
/// ```
/// use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
/// let (first, second) = ((b"a".to_vec(), b"m".to_vec(), 3), (b"g".to_vec(), b"z".to_vec(), 7));
/// let deletes = RangeTombstoneIndex::new(&[first, second]);
/// assert_eq!(deletes.len(), 2);
/// assert_eq!(deletes.covering(b"h", 9), Some(7));
/// assert_eq!(deletes.covering(b"h", 6), Some(3));
/// assert_eq!(deletes.covering(b"z", 9), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstoneIndex {
    /// The keys at which range deletes start or end.
    keys: BoundaryKeys,
    /// The sequence number of each range delete, oldest first.
    sequences: SequenceArray,
    /// The boundary at which each range delete starts.
    starts: PackedIntegers,
    /// The length of each range delete, in boundaries.
    lengths: PackedIntegers,
    /// The boundaries at which range deletes begin, ascending, one for each range delete.
    sorted_starts: PackedIntegers,
    count: u32,
    tree: SegmentTree,
}

impl RangeTombstoneIndex {
    /// Creates an index of range deletes, each given as start, end and sequence number. Empty
    /// ranges are dropped.
    #[must_use]
    pub fn new(deletes: &[(Vec<u8>, Vec<u8>, SequenceNumber)]) -> RangeTombstoneIndex {
        let mut list = RangeTombstoneList::default();
        for (start, end, sequence) in deletes {
            list.push(start, end, *sequence);
        }
        RangeTombstoneIndex::of(&list)
    }

    /// Creates an index of the range deletes in a list.
    ///
    /// # Panics
    /// If the total size of the keys reaches 4 GiB.
    #[must_use]
    pub fn of(list: &RangeTombstoneList) -> RangeTombstoneIndex {
        RangeTombstoneBuilder::of(list).finish()
    }

    /// Returns whether the index is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of range deletes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    fn delete(&self, number: usize) -> IndexedTombstone {
        let start = self.starts.get(number) as u32;
        IndexedTombstone {
            sequence: self.sequences.get(number),
            start,
            end: start + self.lengths.get(number) as u32,
        }
    }

    fn deletes(&self) -> impl ExactSizeIterator<Item = IndexedTombstone> {
        (0..self.len()).map(|number| self.delete(number))
    }

    /// Calls `tell` with the start, end and sequence number of every range delete, oldest first.
    pub fn each(&self, mut tell: impl FnMut(&[u8], &[u8], SequenceNumber)) {
        for delete in self.deletes() {
            tell(
                &self.keys.get(delete.start),
                &self.keys.get(delete.end),
                delete.sequence,
            );
        }
    }

    /// Returns the sequence numbers of all range deletes, oldest first.
    pub fn sequences(&self) -> impl ExactSizeIterator<Item = SequenceNumber> + DoubleEndedIterator {
        (0..self.len()).map(|number| self.sequences.get(number))
    }

    /// Returns the start of the first range and the end of the last range, or `None` if the index
    /// is empty.
    #[must_use]
    pub fn bounds(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let last = self.keys.len().checked_sub(1)?;
        Some((self.keys.get(0), self.keys.get(last as u32)))
    }

    /// Returns an index of the range deletes with sequence numbers above `than`.
    #[must_use]
    pub fn newer(&self, than: SequenceNumber) -> RangeTombstoneIndex {
        let older = self.sequences().take_while(|&sequence| sequence <= than).count();
        let draft = RangeTombstoneBuilder {
            keys: self.keys.clone(),
            ranges: self
                .deletes()
                .skip(older)
                .map(|delete| (delete.start, delete.end))
                .collect(),
            sequences: self.sequences().skip(older).collect(),
        };
        draft.finish()
    }

    /// Returns, for each ancestor of a cell, the oldest and the newest range delete that a reader
    /// at `at` sees. Skips nodes without a visible range delete.
    fn above(&self, cell: Option<usize>, at: SequenceNumber) -> impl Iterator<Item = (usize, usize)> {
        self.tree.above(cell).filter_map(move |entries| {
            let is_seen = |place: usize| self.sequences.get(self.tree.entry(place)) <= at;
            let Range { start, end } = entries;
            // Fast path: nearly every reader sees all of the node's range deletes.
            let (mut low, mut high) = if is_seen(end - 1) {
                (end, end)
            } else {
                (start, end - 1)
            };
            while low < high {
                let middle = low.midpoint(high);
                if is_seen(middle) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            (low > start).then(|| (self.tree.entry(start), self.tree.entry(low - 1)))
        })
    }

    /// Returns the cell that contains `key`, or `None` if the key precedes all cells.
    fn cell(&self, key: &[u8]) -> Option<usize> {
        self.keys.count_before(key, true).checked_sub(1)
    }

    /// Returns the sequence number of the newest range delete that covers `key`, ignoring those
    /// above `at`.
    #[must_use]
    pub fn covering(&self, key: &[u8], at: SequenceNumber) -> Option<SequenceNumber> {
        let newest = |(_, newest)| self.sequences.get(newest);
        self.above(self.cell(key), at).map(newest).max()
    }

    /// Returns the range of a range delete that covers `key`, ignoring those above `at`. Examines
    /// only some of the range deletes, and of these chooses the one with the greatest end.
    #[must_use]
    pub fn around(&self, key: &[u8], at: SequenceNumber) -> Option<(Vec<u8>, Vec<u8>)> {
        let furthest = self.ends_of(self.cell(key), at).max_by_key(|delete| delete.end)?;
        Some((self.keys.get(furthest.start), self.keys.get(furthest.end)))
    }

    /// Returns the range of a range delete that covers the keys just below `end`, ignoring those
    /// above `at`. Examines only some of the range deletes, and of these chooses the one with the
    /// smallest start.
    #[must_use]
    pub fn covering_below(&self, end: &[u8], at: SequenceNumber) -> Option<(Vec<u8>, Vec<u8>)> {
        let cell = self.keys.count_before(end, false).checked_sub(1);
        let first = self.ends_of(cell, at).min_by_key(|delete| delete.start)?;
        Some((self.keys.get(first.start), self.keys.get(first.end)))
    }

    /// Returns, for each ancestor of a cell, the oldest and the newest range delete that a reader
    /// at `at` sees. If ranges only ever grow or only ever shrink, the widest one is among these.
    fn ends_of(&self, cell: Option<usize>, at: SequenceNumber) -> impl Iterator<Item = IndexedTombstone> {
        self.above(cell, at)
            .flat_map(|(oldest, newest)| [self.delete(oldest), self.delete(newest)])
    }

    /// Returns whether range deletes with sequence numbers up to `at` cover every key of `range` in
    /// `low..=last`.
    #[must_use]
    pub fn cover(&self, low: &[u8], last: &[u8], range: &KeyRange, at: SequenceNumber) -> bool {
        let mut low = low.to_vec();
        while *low <= *last && !range.ends_before(&low) {
            match self.around(&low, at) {
                Some((_, end)) => low = end,
                None => return false,
            }
        }
        true
    }

    /// Returns whether range deletes with sequence numbers above `than`, up to `at`, cover every
    /// key in `low..end`. The time is that of one search for each range delete on the way.
    #[must_use]
    pub fn cover_between(&self, low: &[u8], end: &[u8], than: SequenceNumber, at: SequenceNumber) -> bool {
        let Some(mut cell) = self.cell(low) else {
            return low >= end;
        };
        let behind = self.keys.count_before(end, false);
        while cell < behind && low < end {
            let newest = self.above(Some(cell), at).map(|(_, newest)| newest).max();
            let newest = newest.map(|number| self.delete(number));
            match newest.filter(|delete| delete.sequence > than) {
                Some(delete) => cell = delete.end as usize,
                None => return false,
            }
        }
        true
    }

    /// Returns the sequence number of the newest range delete that deletes any key in `low..end`.
    /// If `end` is `None`, the keys have no upper bound.
    #[must_use]
    pub fn newest_touching(&self, low: &[u8], end: Option<&[u8]>) -> Option<SequenceNumber> {
        let newest = self.tree.newest_within(self.cells_of(low, end));
        newest.map(|number| self.sequences.get(number))
    }

    /// Returns the number of range deletes that touch `range`. The time is logarithmic.
    #[must_use]
    pub fn touching(&self, range: &KeyRange) -> usize {
        let Range { start, end } = self.cells_of(&range.low, range.high.as_deref());
        if start >= end {
            return 0;
        }
        // A range delete touches the cells if it covers the first of them or begins at a later one.
        let covering: usize = self.tree.above(Some(start)).map(|entries| entries.len()).sum();
        covering + self.count_starts_before(end) - self.count_starts_before(start + 1)
    }

    /// Returns the cells that contain any key in `low..end`.
    fn cells_of(&self, low: &[u8], end: Option<&[u8]>) -> Range<usize> {
        if self.is_empty() || end.is_some_and(|end| end <= low) {
            return 0..0;
        }
        let cells = self.keys.len() - 1;
        let start = self.cell(low).unwrap_or(0);
        let end = end.map_or(cells, |end| self.keys.count_before(end, false).min(cells));
        start..end
    }

    /// Returns the number of range deletes that begin at a boundary before `boundary`.
    fn count_starts_before(&self, boundary: usize) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if (self.sorted_starts.get(middle) as usize) < boundary {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the number of distinct sequence numbers of the range deletes.
    #[must_use]
    pub fn count_distinct(&self) -> usize {
        let mut last = None;
        self.sequences()
            .filter(|&sequence| last.replace(sequence) != Some(sequence))
            .count()
    }

    /// Returns the memory used, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let numbers = [
            &self.sequences.beyond,
            &self.starts,
            &self.lengths,
            &self.sorted_starts,
        ];
        let numbers: usize = numbers.map(PackedIntegers::memory_bytes).iter().sum();
        self.keys.memory_bytes() + numbers + self.tree.memory_bytes()
    }
}
