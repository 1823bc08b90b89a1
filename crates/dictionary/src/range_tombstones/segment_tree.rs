//! A segment tree that maps each cell of the key space to the range deletes that cover it.
//!
//! Most nodes of the tree have no entries. A bitmap marks the nodes that do, and its population
//! counts locate these nodes in the arrays.

use super::packed_integers::PackedIntegers;
use std::ops::Range;

const WORD: usize = u64::BITS as usize;

/// Number of elements of which one level of [`SegmentTree::greatest`] stores the greatest.
const BLOCK: usize = 16;

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
    /// The greatest element of each block of entries, then the greatest element of each block of
    /// these, and so on. The last level has less than a block.
    greatest: Box<[PackedIntegers]>,
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
        let mut levels = Vec::new();
        while entries.len() >= BLOCK {
            let greatest = |block: &[u32]| block.iter().copied().max().unwrap_or(0);
            entries = entries.chunks(BLOCK).map(greatest).collect();
            levels.push(PackedIntegers::of(entries.iter().map(|entry| u64::from(*entry))));
        }
        tree.greatest = levels.into();
        tree
    }

    /// Calls `tell` for each node that the given range consists of, with the node's position among
    /// those that have entries.
    fn places(&self, range: (u32, u32), mut tell: impl FnMut(usize)) {
        nodes(range, self.cells, |node| tell(self.place(node)));
    }

    /// Returns the position of `node` among the nodes that have entries. The node must have some.
    fn place(&self, node: usize) -> usize {
        let (word, bit) = (node / WORD, node % WORD);
        debug_assert!(self.has[word] >> bit & 1 == 1, "node {node} has entries");
        self.count_nodes_before(node)
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

    /// Returns the greatest number of a range delete that covers any of the cells in `touched`. The
    /// time is logarithmic in the number of range deletes.
    pub(super) fn newest_within(&self, touched: Range<usize>) -> Option<usize> {
        let cells = self.cells as usize;
        let end = touched.end.min(cells);
        if touched.start >= end {
            return None;
        }
        // The ancestors of consecutive cells are consecutive nodes on each level, and the entries
        // of consecutive nodes are consecutive.
        let (mut first, mut last) = (cells + touched.start, cells + end - 1);
        let mut newest = None;
        while last > 0 {
            let places = [first.max(1), last + 1].map(|node| self.count_nodes_before(node));
            let [start, end] = places.map(|place| self.firsts.get(place) as usize);
            newest = newest.max(self.greatest_entry(start..end));
            (first, last) = (first / 2, last / 2);
        }
        newest.map(|number| number as usize)
    }

    /// Returns the number of nodes before `node` that have entries.
    fn count_nodes_before(&self, node: usize) -> usize {
        let (word, bit) = (node / WORD, node % WORD);
        let last = || self.before.last().zip(self.has.last());
        match self.has.get(word) {
            Some(bits) => self.before[word] as usize + (bits & !(u64::MAX << bit)).count_ones() as usize,
            None => last().map_or(0, |(before, bits)| (before + bits.count_ones()) as usize),
        }
    }

    /// Returns the greatest of the entries at these places.
    fn greatest_entry(&self, places: Range<usize>) -> Option<u64> {
        let Range { mut start, mut end } = places;
        let mut greatest = None;
        for level in std::iter::once(&self.entries).chain(&self.greatest) {
            while start < end && !start.is_multiple_of(BLOCK) {
                greatest = greatest.max(Some(level.get(start)));
                start += 1;
            }
            while start < end && !end.is_multiple_of(BLOCK) {
                end -= 1;
                greatest = greatest.max(Some(level.get(end)));
            }
            if start == end {
                return greatest;
            }
            (start, end) = (start / BLOCK, end / BLOCK);
        }
        debug_assert!(start == end, "the last level has less than a block");
        greatest
    }

    /// Returns the memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let bits = size_of_val(&*self.has) + size_of_val(&*self.before);
        let levels = self.greatest.iter();
        let greatest: usize = levels
            .map(|level| size_of_val(level) + level.memory_bytes())
            .sum();
        bits + self.firsts.memory_bytes() + self.entries.memory_bytes() + greatest
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
