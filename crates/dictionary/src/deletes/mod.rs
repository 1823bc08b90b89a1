//! Range deletes that may overlap: kept once each, found by key and by reader.
//!
//! *Knows*: which deletes cover a key, which range around it a reader finds deleted, which deletes
//! no reader can tell apart any more.
//!
//! *Does not know*: whose deletes they are: a memtable's or a run's.
//!
//! *Read in this order*: `list.rs` (deletes as they come), `format.rs` (their keys, in memory and
//! in a run), `draft.rs` (deletes of several sources together, and what readers can tell apart of
//! them), `packed.rs`, `tree.rs`, this file (the index).
//!
//! The index is a segment tree (Bentley, 1977). The keys at which any delete begins or ends cut the
//! keys into cells. A delete is entered at those nodes of a tree over the cells that together are
//! its range: two a level at most. A lookup visits the nodes above one cell, and in each seeks the
//! newest delete that the reader sees.
//!
//! ```text
//!   deletes    3: a to m    7: g to z
//!   cells      [a, g)  [g, m)  [m, z)
//!   tree       each node: the deletes that cover all its cells, and not all its parent's; oldest first
//! ```
//!
//! A snapshot may keep hundreds of thousands of them, which are in memory as long as their run is
//! open. So keys are kept without what they share with the one before, in groups of 16, and numbers
//! in as few bits as do (`packed.rs`): about 20 bytes for a delete of short keys that overlaps few
//! others.
//!
//! Invariants:
//!
//! - **Z1** Every delete is kept once, and a reader at any place finds the newest one at or before
//!   it.
//! - **Z2** A delete takes at most its two keys and [`OVERHEAD`] bytes, however many overlap it.
//! - **Z3** Folding changes the answer of no reader that it was told of, and of none above the last
//!   of those.

mod draft;
mod format;
mod list;
mod packed;
mod tree;

#[cfg(test)]
mod tests;

pub use draft::Draft;
pub use list::List;

use crate::range::KeyRange;
use alluvium_base::Sequence;
use format::Keys;
use packed::Packed;
use std::ops::Range;
use tree::Tree;

/// What a delete takes beside its two keys, at most: how long they are (8 bytes), itself (16), its
/// share of the tree's nodes (16), two entries in each of up to 32 levels (256), and what there is
/// once for an index.
pub const OVERHEAD: usize = 448;

/// One delete: from which boundary on, up to but without which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delete {
    sequence: Sequence,
    start: u32,
    end: u32,
}

/// Sequence numbers that ascend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sequences {
    /// The first.
    base: Sequence,
    /// All of them without the first.
    beyond: Packed,
}

impl Sequences {
    fn of(all: &[Sequence]) -> Sequences {
        let base = all.first().copied().unwrap_or(0);
        let beyond = Packed::of(all.iter().map(|one| one - base));
        Sequences { base, beyond }
    }

    fn get(&self, number: usize) -> Sequence {
        self.base + self.beyond.get(number)
    }
}

/// Range deletes, indexed.
///
/// ```
/// use alluvium_dictionary::deletes::RangeDeletes;
/// let deletes = RangeDeletes::new(&[(b"a".to_vec(), b"m".to_vec(), 3), (b"g".to_vec(), b"z".to_vec(), 7)]);
/// assert_eq!(deletes.len(), 2);
/// assert_eq!(deletes.covering(b"h", 9), Some(7));
/// assert_eq!(deletes.covering(b"h", 6), Some(3));
/// assert_eq!(deletes.covering(b"z", 9), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeDeletes {
    /// The keys at which any delete begins or ends.
    keys: Keys,
    /// Of each delete, the oldest first.
    sequences: Sequences,
    /// Of each, from which boundary on.
    starts: Packed,
    /// Of each, how many boundaries on it ends.
    lengths: Packed,
    count: u32,
    tree: Tree,
}

impl RangeDeletes {
    /// Indexes deletes: start, end, sequence number. Those that end at or before their start delete
    /// nothing.
    #[must_use]
    pub fn new(deletes: &[(Vec<u8>, Vec<u8>, Sequence)]) -> RangeDeletes {
        let mut list = List::default();
        for (start, end, sequence) in deletes {
            list.push(start, end, *sequence);
        }
        RangeDeletes::of(&list)
    }

    /// Indexes the deletes of a list.
    ///
    /// # Panics
    /// When there are 4 GiB of keys.
    #[must_use]
    pub fn of(list: &List) -> RangeDeletes {
        Draft::of(list).finish()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    fn delete(&self, number: usize) -> Delete {
        let start = self.starts.get(number) as u32;
        Delete {
            sequence: self.sequences.get(number),
            start,
            end: start + self.lengths.get(number) as u32,
        }
    }

    fn deletes(&self) -> impl ExactSizeIterator<Item = Delete> {
        (0..self.len()).map(|number| self.delete(number))
    }

    /// Tells every delete, the oldest first: start, end, sequence number.
    pub fn each(&self, mut tell: impl FnMut(&[u8], &[u8], Sequence)) {
        for delete in self.deletes() {
            tell(
                &self.keys.get(delete.start),
                &self.keys.get(delete.end),
                delete.sequence,
            );
        }
    }

    /// Returns the sequence number of every delete, the oldest first.
    pub fn sequences(&self) -> impl ExactSizeIterator<Item = Sequence> + DoubleEndedIterator {
        (0..self.len()).map(|number| self.sequences.get(number))
    }

    /// Returns the first key that is deleted, and the first behind all that are.
    #[must_use]
    pub fn bounds(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let last = self.keys.len().checked_sub(1)?;
        Some((self.keys.get(0), self.keys.get(last as u32)))
    }

    /// Only the deletes that are newer.
    #[must_use]
    pub fn newer(&self, than: Sequence) -> RangeDeletes {
        let older = self.sequences().take_while(|&sequence| sequence <= than).count();
        let draft = Draft {
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

    /// Returns the oldest delete at each node above a cell, and the newest that a reader at `at`
    /// sees; nodes without any are left out.
    fn above(&self, cell: Option<usize>, at: Sequence) -> impl Iterator<Item = (usize, usize)> {
        self.tree.above(cell).filter_map(move |entries| {
            let is_seen = |place: usize| self.sequences.get(self.tree.entry(place)) <= at;
            let Range { start, end } = entries;
            // Nearly every reader sees all of them.
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

    /// Returns the cell that a key is in.
    fn cell(&self, key: &[u8]) -> Option<usize> {
        self.keys.count_before(key, true).checked_sub(1)
    }

    /// Returns the newest delete at or before `at` that covers a key, by its sequence number.
    #[must_use]
    pub fn covering(&self, key: &[u8], at: Sequence) -> Option<Sequence> {
        let newest = |(_, newest)| self.sequences.get(newest);
        self.above(self.cell(key), at).map(newest).max()
    }

    /// Returns the range of a delete at or before `at` that covers a key: of those looked at, one
    /// that goes on furthest.
    #[must_use]
    pub fn around(&self, key: &[u8], at: Sequence) -> Option<(Vec<u8>, Vec<u8>)> {
        let furthest = self.ends_of(self.cell(key), at).max_by_key(|delete| delete.end)?;
        Some((self.keys.get(furthest.start), self.keys.get(furthest.end)))
    }

    /// Returns the range of a delete at or before `at` that covers every key just below `end`: of
    /// those looked at, one that begins first.
    #[must_use]
    pub fn reaching(&self, end: &[u8], at: Sequence) -> Option<(Vec<u8>, Vec<u8>)> {
        let cell = self.keys.count_before(end, false).checked_sub(1);
        let first = self.ends_of(cell, at).min_by_key(|delete| delete.start)?;
        Some((self.keys.get(first.start), self.keys.get(first.end)))
    }

    /// Returns the newest and the oldest delete at each node above a cell: where ranges grow or
    /// shrink from delete to delete, the widest is one of them.
    fn ends_of(&self, cell: Option<usize>, at: Sequence) -> impl Iterator<Item = Delete> {
        self.above(cell, at)
            .flat_map(|(oldest, newest)| [self.delete(oldest), self.delete(newest)])
    }

    /// Returns whether deletes at or before `at` cover every key from `low` on that is in a range,
    /// or is not above `last`.
    #[must_use]
    pub fn cover(&self, low: &[u8], last: &[u8], range: &KeyRange, at: Sequence) -> bool {
        let mut low = low.to_vec();
        while *low <= *last && !range.ends_before(&low) {
            match self.around(&low, at) {
                Some((_, end)) => low = end,
                None => return false,
            }
        }
        true
    }

    /// Returns how many deletes touch a range.
    #[must_use]
    pub fn touching(&self, range: &KeyRange) -> usize {
        let low = self.keys.count_before(&range.low, true) as u32;
        let high = range.high.as_deref();
        let high = high.map_or(u32::MAX, |high| self.keys.count_before(high, false) as u32);
        // A delete ends behind the range's low when its end is none of the boundaries at or before
        // it.
        let touches = |delete: &Delete| delete.end >= low && delete.start < high;
        self.deletes().filter(touches).count()
    }

    /// Returns how many sequence numbers there are.
    #[must_use]
    pub fn count_distinct(&self) -> usize {
        let mut last = None;
        self.sequences()
            .filter(|&sequence| last.replace(sequence) != Some(sequence))
            .count()
    }

    /// Returns the bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let numbers = [&self.sequences.beyond, &self.starts, &self.lengths];
        let numbers: usize = numbers.map(Packed::memory_bytes).iter().sum();
        self.keys.memory_bytes() + numbers + self.tree.memory_bytes()
    }
}
