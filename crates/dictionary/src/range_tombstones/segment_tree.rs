//! A segment tree that maps each cell of the key space to the range deletes that cover it.
//!
//! Most nodes of the tree have no entries. A bitmap marks the nodes that do, and its population
//! counts locate these nodes in the arrays.

use super::packed_integers::PackedIntegers;
use std::ops::Range;

const WORD: usize = u64::BITS as usize;

/// A segment tree. The root is node 1, the children of node `n` are `2n` and `2n + 1`, and the
/// cells are the last nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentTree {
    cells: u32,
    /// A bitmap that marks the nodes with entries.
    has: Box<[u64]>,
    /// For each word of the bitmap, the number of bits set before it.
    before: Box<[u32]>,
    /// The start of the entries of each node marked in the bitmap, followed by the end of all
    /// entries.
    firsts: PackedIntegers,
    /// The entries, which are range delete numbers, grouped by node and oldest first within a node.
    entries: PackedIntegers,
}

impl SegmentTree {
    /// Builds the tree over `cells` cells. `ranges` contains the first cell of each range delete
    /// and the first cell after it, oldest range delete first.
    ///
    /// This takes several passes over the range deletes, because a counter for every node would
    /// take more memory than the tree itself.
    pub(super) fn of(ranges: &[(u32, u32)], cells: u32) -> SegmentTree {
        if ranges.is_empty() {
            return SegmentTree::default();
        }
        assert!(
            ranges.iter().all(|(start, end)| start < end && *end <= cells),
            "ranges of {cells} cells"
        );
        let mut has = vec![0u64; (2 * cells as usize).div_ceil(WORD)];
        for range in ranges {
            nodes(*range, cells, |node| has[node / WORD] |= 1 << (node % WORD));
        }
        let mut sum = 0;
        let before = has.iter().map(|bits| {
            let before = sum;
            sum += bits.count_ones();
            before
        });
        let mut tree = SegmentTree {
            cells,
            before: before.collect(),
            has: has.into(),
            ..SegmentTree::default()
        };
        debug_assert!(
            sum as usize <= 2 * cells as usize,
            "{sum} of the nodes have entries"
        );
        let mut firsts = vec![0u32; sum as usize + 1];
        for range in ranges {
            tree.places(*range, |place| firsts[place] += 1);
        }
        let mut sum = 0;
        for first in &mut firsts {
            sum += std::mem::replace(first, sum);
        }
        // Storing an entry increments the start of its node, which ends up as the start of the next
        // node.
        let mut entries = vec![0u32; sum as usize];
        for (range, number) in ranges.iter().zip(0..) {
            tree.places(*range, |place| {
                entries[firsts[place] as usize] = number;
                firsts[place] += 1;
            });
        }
        debug_assert!(firsts.is_sorted(), "entries lie in the order of their nodes");
        firsts.rotate_right(1);
        firsts[0] = 0;
        tree.firsts = PackedIntegers::of(firsts.iter().map(|first| u64::from(*first)));
        drop(firsts);
        tree.entries = PackedIntegers::of(entries.iter().map(|entry| u64::from(*entry)));
        tree
    }

    /// Calls `tell` for each node that the given range consists of, with the node's position among
    /// those that have entries.
    fn places(&self, range: (u32, u32), mut tell: impl FnMut(usize)) {
        nodes(range, self.cells, |node| tell(self.place(node)));
    }

    /// Returns the number of nodes before `node` that have entries.
    fn place(&self, node: usize) -> usize {
        let (word, bit) = (node / WORD, node % WORD);
        debug_assert!(self.has[word] >> bit & 1 == 1, "node {node} has entries");
        let lower = self.has[word] & !(u64::MAX << bit);
        self.before[word] as usize + lower.count_ones() as usize
    }

    /// Returns the range of the entries of `node`, or `None` if it has none.
    fn at(&self, node: usize) -> Option<Range<usize>> {
        if self.has[node / WORD] >> (node % WORD) & 1 == 0 {
            return None;
        }
        let place = self.place(node);
        Some(self.firsts.get(place) as usize..self.firsts.get(place + 1) as usize)
    }

    /// Returns the range delete number in an entry.
    pub(super) fn entry(&self, place: usize) -> usize {
        self.entries.get(place) as usize
    }

    /// Returns the entries of each ancestor of a cell, oldest first, as a range. Skips ancestors
    /// without entries.
    #[inline]
    pub(super) fn above(&self, cell: Option<usize>) -> impl Iterator<Item = Range<usize>> {
        let cells = self.cells as usize;
        let cell = cell.filter(|&cell| cell < cells);
        let mut node = cell.map_or(0, |cell| cells + cell);
        std::iter::from_fn(move || {
            while node > 0 {
                let entries = self.at(node);
                node /= 2;
                if entries.is_some() {
                    return entries;
                }
            }
            None
        })
    }

    /// Returns the memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let bits = size_of_val(&*self.has) + size_of_val(&*self.before);
        bits + self.firsts.memory_bytes() + self.entries.memory_bytes()
    }
}

/// Calls `tell` for each node in the canonical decomposition of a range of cells.
fn nodes((start, end): (u32, u32), cells: u32, mut tell: impl FnMut(usize)) {
    let mut low = start as usize + cells as usize;
    let mut high = end as usize + cells as usize;
    debug_assert!(start <= end && end <= cells, "{start}..{end} of {cells} cells");
    while low < high {
        if low % 2 == 1 {
            tell(low);
            low += 1;
        }
        if high % 2 == 1 {
            high -= 1;
            tell(high);
        }
        low /= 2;
        high /= 2;
    }
}
