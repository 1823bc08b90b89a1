//! Range deletes that may overlap: kept once each, found by key and by reader.
//!
//! *Knows*: which deletes cover a key, which range around it a reader finds deleted, which deletes nobody can tell apart any more.
//!
//! *Does not know*: whose deletes they are: a memtable's or a run's.
//!
//! *Read in this order*: `list.rs` (deletes as they come, and what readers can tell apart of them), this file (the index).
//!
//! The index is a segment tree (Bentley, 1977). The keys at which any delete begins or ends cut the keys into cells. A delete is entered
//! at those nodes of a tree over the cells that together are its range: two a level at most. A lookup visits the nodes above one cell, and
//! in each seeks the newest delete that the reader sees.
//!
//! ```text
//!   deletes    3: a to m    7: g to z
//!   cells      [a, g)  [g, m)  [m, z)
//!   tree       each node: the deletes that cover all its cells, and not all its parent's; oldest first
//! ```
//!
//! Invariants:
//!
//! - **Z1** Every delete is kept once, and a reader at any place finds the newest one at or before it.
//! - **Z2** A delete takes at most its two keys and [`OVERHEAD`] bytes, however many overlap it.
//! - **Z3** Folding changes the answer of no reader that it was told of, and of none above the last of those.

mod list;

#[cfg(test)]
mod tests;

pub use list::List;

use crate::range::KeyRange;
use alluvium_base::Sequence;
use std::collections::BTreeSet;

/// What a delete takes beside its two keys, at most: where they end (8 bytes), itself (16), its share of the tree's nodes (16), two entries
/// in each of up to 32 levels (256), and what there is once for an index.
pub const OVERHEAD: usize = 448;

/// One delete: from which boundary on, up to but without which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delete {
    sequence: Sequence,
    start: u32,
    end: u32,
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
    /// The keys at which any delete begins or ends, in order, behind each other.
    keys: Box<[u8]>,
    /// Where each of them ends.
    ends: Box<[u32]>,
    /// The oldest first.
    deletes: Box<[Delete]>,
    /// Where the entries of each of the tree's nodes begin. The root is node 1, the children of `n` are `2n` and `2n + 1`; the cells are the
    /// last nodes.
    firsts: Box<[u32]>,
    /// Numbers of deletes, the oldest first within a node.
    entries: Box<[u32]>,
}

impl RangeDeletes {
    /// Indexes deletes: start, end, sequence number. Those that end at or before their start delete nothing.
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
        let mut boundaries: Vec<&[u8]> = Vec::with_capacity(2 * list.len());
        boundaries.extend(list.iter().flat_map(|(start, end, _)| [start, end]));
        // In place: a list may be long.
        boundaries.sort_unstable();
        boundaries.dedup();
        let number = |key: &[u8]| boundaries.partition_point(|boundary| *boundary < key) as u32;
        let mut deletes: Vec<Delete> = list
            .iter()
            .map(|(start, end, sequence)| Delete {
                sequence,
                start: number(start),
                end: number(end),
            })
            .collect();
        deletes.sort_unstable_by_key(|delete| (delete.sequence, delete.start, delete.end));
        let mut at = 0;
        let end = |key: &&[u8]| {
            at += key.len();
            u32::try_from(at).expect("range deletes with less than 4 GiB of keys")
        };
        let ends: Box<[u32]> = boundaries.iter().map(end).collect();
        let keys = boundaries.concat().into();
        let cells = boundaries.len().saturating_sub(1);
        let (firsts, entries) = tree(&deletes, cells as u32);
        RangeDeletes {
            keys,
            ends,
            deletes: deletes.into(),
            firsts,
            entries,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deletes.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.deletes.len()
    }

    /// Every delete, the oldest first: start, end, sequence number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8], Sequence)> {
        let parts = |delete: &Delete| (self.key(delete.start), self.key(delete.end), delete.sequence);
        self.deletes.iter().map(parts)
    }

    /// The first key that is deleted, and the first behind all that are.
    #[must_use]
    pub fn bounds(&self) -> Option<(&[u8], &[u8])> {
        let last = self.ends.len().checked_sub(1)?;
        Some((self.key(0), self.key(last as u32)))
    }

    /// A key at which a delete begins or ends.
    fn key(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let from = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.keys[from as usize..self.ends[number] as usize]
    }

    /// How many boundaries are at or before a key (`included`), or before it.
    fn boundaries(&self, key: &[u8], included: bool) -> usize {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            let boundary = self.key(middle as u32);
            if boundary < key || (included && boundary == key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The deletes at each node above a cell that a reader at `at` sees, the oldest first; nodes without any are left out.
    fn above(&self, cell: Option<usize>, at: Sequence) -> impl Iterator<Item = &[u32]> {
        let cells = self.ends.len().saturating_sub(1);
        let mut node = cell.filter(|&cell| cell < cells).map_or(0, |cell| cells + cell);
        std::iter::from_fn(move || {
            while node > 0 {
                let entries = &self.entries[self.firsts[node] as usize..self.firsts[node + 1] as usize];
                node /= 2;
                let is_seen = |entry: &u32| self.deletes[*entry as usize].sequence <= at;
                // Nearly every reader sees all of them.
                let seen = match entries.last() {
                    None => 0,
                    Some(newest) if is_seen(newest) => entries.len(),
                    Some(_) => entries.partition_point(is_seen),
                };
                if seen > 0 {
                    return Some(&entries[..seen]);
                }
            }
            None
        })
    }

    /// The newest delete at or before `at` that covers a key, by its sequence number.
    #[must_use]
    pub fn covering(&self, key: &[u8], at: Sequence) -> Option<Sequence> {
        let cell = self.boundaries(key, true).checked_sub(1);
        let newest = |seen: &[u32]| self.deletes[seen[seen.len() - 1] as usize].sequence;
        self.above(cell, at).map(newest).max()
    }

    /// The range of a delete at or before `at` that covers a key: of those looked at, one that goes on furthest.
    #[must_use]
    pub fn around(&self, key: &[u8], at: Sequence) -> Option<(&[u8], &[u8])> {
        let cell = self.boundaries(key, true).checked_sub(1);
        let furthest = self.ends_of(cell, at).max_by_key(|delete| delete.end)?;
        Some((self.key(furthest.start), self.key(furthest.end)))
    }

    /// The range of a delete at or before `at` that covers every key just below `end`: of those looked at, one that begins first.
    #[must_use]
    pub fn reaching(&self, end: &[u8], at: Sequence) -> Option<(&[u8], &[u8])> {
        let cell = self.boundaries(end, false).checked_sub(1);
        let first = self.ends_of(cell, at).min_by_key(|delete| delete.start)?;
        Some((self.key(first.start), self.key(first.end)))
    }

    /// The newest and the oldest delete at each node above a cell: where ranges grow or shrink from delete to delete, the widest is one of them.
    fn ends_of(&self, cell: Option<usize>, at: Sequence) -> impl Iterator<Item = &Delete> {
        let delete = |entry: u32| &self.deletes[entry as usize];
        self.above(cell, at)
            .flat_map(move |seen| [delete(seen[0]), delete(seen[seen.len() - 1])])
    }

    /// Whether deletes at or before `at` cover every key from `low` on that is in a range, or is not above `last`.
    #[must_use]
    pub fn cover(&self, low: &[u8], last: &[u8], range: &KeyRange, at: Sequence) -> bool {
        let mut low = low;
        while low <= last && !range.ends_before(low) {
            match self.around(low, at) {
                Some((_, end)) => low = end,
                None => return false,
            }
        }
        true
    }

    /// How many deletes touch a range.
    #[must_use]
    pub fn touching(&self, range: &KeyRange) -> usize {
        let low = self.boundaries(&range.low, true) as u32;
        let high = range.high.as_deref();
        let high = high.map_or(u32::MAX, |high| self.boundaries(high, false) as u32);
        // A delete ends behind the range's low when its end is none of the boundaries at or before it.
        let touches = |delete: &&Delete| delete.end >= low && delete.start < high;
        self.deletes.iter().filter(touches).count()
    }

    /// Adds to a list what deletes keys of a range, cut to it.
    pub fn add_within(&self, range: &KeyRange, to: &mut List) {
        for (start, end, sequence) in self.iter() {
            let end = range.high.as_deref().map_or(end, |high| high.min(end));
            to.push(start.max(&range.low), end, sequence);
        }
    }

    /// How many sequence numbers there are.
    pub fn count_distinct(&self) -> usize {
        self.deletes
            .chunk_by(|one, next| one.sequence == next.sequence)
            .count()
    }

    /// Bytes of all keys, at most.
    pub fn key_bytes(&self) -> usize {
        let len = |delete: &Delete| self.key(delete.start).len() + self.key(delete.end).len();
        self.deletes.iter().map(len).sum()
    }

    /// Which sequence numbers there are.
    pub fn distinct(&self) -> BTreeSet<Sequence> {
        self.deletes.iter().map(|delete| delete.sequence).collect()
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let numbers = size_of_val(&*self.ends) + size_of_val(&*self.firsts) + size_of_val(&*self.entries);
        self.keys.len() + numbers + size_of_val(&*self.deletes)
    }
}

/// Where each node's entries begin, and the entries.
fn tree(deletes: &[Delete], cells: u32) -> (Box<[u32]>, Box<[u32]>) {
    if deletes.is_empty() {
        return Default::default();
    }
    let mut firsts = vec![0u32; 2 * cells as usize + 1];
    for delete in deletes {
        nodes(delete, cells, |node| firsts[node + 1] += 1);
    }
    let mut sum = 0;
    for first in &mut firsts {
        sum += *first;
        *first = sum;
    }
    let mut entries = vec![0u32; sum as usize];
    // Each node's first entry is counted up as they are entered, and ends where the next node's begin.
    for (number, delete) in deletes.iter().enumerate() {
        nodes(delete, cells, |node| {
            entries[firsts[node] as usize] = number as u32;
            firsts[node] += 1;
        });
    }
    firsts.rotate_right(1);
    firsts[0] = 0;
    (firsts.into(), entries.into())
}

/// Tells the nodes that together are a delete's range.
fn nodes(delete: &Delete, cells: u32, mut tell: impl FnMut(usize)) {
    let (mut low, mut high) = (delete.start + cells, delete.end + cells);
    while low < high {
        if low % 2 == 1 {
            tell(low as usize);
            low += 1;
        }
        if high % 2 == 1 {
            high -= 1;
            tell(high as usize);
        }
        low /= 2;
        high /= 2;
    }
}
