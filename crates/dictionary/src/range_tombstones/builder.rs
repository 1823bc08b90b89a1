//! Builds an index of range deletes by merging those of several sources and dropping those that no
//! reader can tell apart.
//!
//! All keys are read once, in order. After that, each key is represented by its number.

use super::format::{BoundaryKeyIter, BoundaryKeys, BoundaryKeysBuilder};
use super::list::RangeTombstoneList;
use super::packed_integers::PackedIntegers;
use super::segment_tree::SegmentTree;
use super::{IndexedTombstone, RangeTombstoneIndex, SequenceArray};
use crate::range::KeyRange;
use alluvium_base::SequenceNumber;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A set of range deletes in any order, and the sorted keys at which they start and end.
#[derive(Clone, Debug, Default)]
pub struct RangeTombstoneBuilder {
    pub(super) keys: BoundaryKeys,
    /// The inclusive start and exclusive end of each range delete, as key numbers.
    pub(super) ranges: Vec<(u32, u32)>,
    /// The sequence number of each range delete.
    pub(super) sequences: Vec<SequenceNumber>,
}

/// The next key of a source, clamped to the source's key range. Ordered in such a way that a heap
/// pops the lowest key first.
struct BoundaryHead<'k> {
    walk: BoundaryKeyIter<'k>,
    range: &'k KeyRange,
    source: usize,
}

impl BoundaryHead<'_> {
    fn key(&self) -> &[u8] {
        let key = self.walk.key().max(&self.range.low);
        self.range.high.as_deref().map_or(key, |high| high.min(key))
    }
}

impl PartialEq for BoundaryHead<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for BoundaryHead<'_> {}

impl PartialOrd for BoundaryHead<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BoundaryHead<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(other.key())
    }
}

impl RangeTombstoneBuilder {
    /// Creates a builder from a list of range deletes.
    #[must_use]
    pub fn of(list: &RangeTombstoneList) -> RangeTombstoneBuilder {
        let key = |place: u32| {
            let (start, end) = list.keys(place as usize / 2);
            if place.is_multiple_of(2) { start } else { end }
        };
        let mut places: Vec<u32> = (0..2 * list.len() as u32).collect();
        places.sort_unstable_by(|one, other| key(*one).cmp(key(*other)));
        let mut ranges = vec![(0, 0); list.len()];
        let mut keys = BoundaryKeysBuilder::default();
        for place in places {
            let number = keys.add(key(place));
            let (start, end) = &mut ranges[place as usize / 2];
            *(if place.is_multiple_of(2) { start } else { end }) = number;
        }
        RangeTombstoneBuilder {
            keys: keys.finish(),
            ranges,
            sequences: list.iter().map(|(_, _, sequence)| sequence).collect(),
        }
    }

    /// Creates a builder with the range deletes of several sources, each clipped to its key range.
    /// If the sources are ordered from newest to oldest, [`RangeTombstoneBuilder::finish`] does not
    /// have to sort the range deletes.
    #[must_use]
    pub fn merged(sources: &[(&RangeTombstoneIndex, &KeyRange)]) -> RangeTombstoneBuilder {
        let mut numbers: Vec<Vec<u32>> = Vec::new();
        let mut heads = BinaryHeap::new();
        for (source, (deletes, range)) in sources.iter().enumerate() {
            numbers.push(Vec::with_capacity(deletes.keys.len()));
            let mut walk = deletes.keys.walk();
            if walk.next() {
                heads.push(Reverse(BoundaryHead { walk, range, source }));
            }
        }
        let mut keys = BoundaryKeysBuilder::with_room(sources.iter().map(|(deletes, _)| &deletes.keys));
        while let Some(mut head) = heads.peek_mut() {
            let number = keys.add(head.0.key());
            numbers[head.0.source].push(number);
            if !head.0.walk.next() {
                PeekMut::pop(head);
            }
        }
        let count = sources.iter().map(|(deletes, _)| deletes.len()).sum();
        let (mut ranges, mut sequences) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (source, _) in sources.iter().rev() {
            let numbers = numbers.pop().expect("numbers for each source");
            debug_assert_eq!(numbers.len(), source.keys.len(), "a number for each key");
            debug_assert!(numbers.is_sorted(), "keys of a source keep their order");
            for delete in source.deletes() {
                let range = (numbers[delete.start as usize], numbers[delete.end as usize]);
                // Clamping empties a range delete outside its source's key range, so drop it.
                if range.0 < range.1 {
                    ranges.push(range);
                    sequences.push(delete.sequence);
                }
            }
        }
        RangeTombstoneBuilder {
            keys: keys.finish(),
            ranges,
            sequences,
        }
    }

    /// Returns the number of range deletes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns whether there are no range deletes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Clips the range deletes to key ranges, which must be ascending and disjoint. A range delete
    /// that overlaps several of them is replaced by one for each.
    pub fn cut_to(&mut self, ranges: &[KeyRange]) {
        debug_assert!(
            ranges.windows(2).all(|pair| pair[0].ends_before(&pair[1].low)),
            "ranges ascend and do not overlap: {ranges:?}"
        );
        let Some(last) = (self.keys.len() as u32).checked_sub(1) else {
            return;
        };
        let (first, last) = (self.keys.get(0), self.keys.get(last));
        let ranges = ranges.iter().filter(|range| range.overlaps(&first, &last));
        let mut keys = BoundaryKeysBuilder::with_room(std::iter::once(&self.keys));
        let mut numbers = Vec::with_capacity(self.keys.len());
        let mut walk = self.keys.walk();
        let mut is_left = walk.next();
        // Adds all keys below a bound, followed by the bound itself.
        let mut add = |bound: Option<&[u8]>| {
            while is_left && bound.is_none_or(|bound| walk.key() < bound) {
                numbers.push(keys.add(walk.key()));
                is_left = walk.next();
            }
            bound.map_or(u32::MAX, |bound| keys.add(bound))
        };
        let ranges: Vec<(u32, u32)> = ranges
            .map(|range| (add(Some(&range.low)), add(range.high.as_deref())))
            .collect();
        add(None);
        debug_assert_eq!(numbers.len(), self.keys.len(), "a number for each key");
        let mut cut = Vec::with_capacity(self.len());
        for delete in self.deletes() {
            let (start, end) = (numbers[delete.start as usize], numbers[delete.end as usize]);
            let reached = ranges.partition_point(|(_, high)| *high <= start);
            let reached = ranges[reached..].iter().take_while(|(low, _)| *low < end);
            cut.extend(reached.map(|&(low, high)| IndexedTombstone {
                start: start.max(low),
                end: end.min(high),
                ..delete
            }));
        }
        self.keys = keys.finish();
        self.set(&cut);
    }

    /// Gives every range delete up to the sequence number `place` the sequence number of the oldest
    /// of them, so that touching ranges can be joined. The caller must already have applied these
    /// range deletes to its own messages, no reader may read below `place`, and no older source may
    /// contain a message as new as the oldest of these range deletes.
    pub fn equalize_sequences(&mut self, place: SequenceNumber) {
        let meant = self
            .sequences
            .iter()
            .copied()
            .filter(|&sequence| sequence <= place);
        let Some(oldest) = meant.min() else {
            return;
        };
        for sequence in &mut self.sequences {
            if *sequence <= place {
                *sequence = oldest;
            }
        }
    }

    /// Drops range deletes that no reader can tell apart. `places` are the sequence numbers at
    /// which readers read, in ascending order; other readers may read above the last one. Between
    /// two places, only the newest range delete of each key remains. All range deletes above the
    /// last place remain.
    pub fn fold(&mut self, places: &[SequenceNumber]) {
        let last = places.last().copied();
        if last.is_none() || self.sequences.iter().all(|&sequence| Some(sequence) > last) {
            return;
        }
        let (mut meant, mut folded): (Vec<_>, Vec<_>) =
            self.deletes().partition(|delete| Some(delete.sequence) <= last);
        for &place in places {
            let of_place = meant.extract_if(.., |delete| delete.sequence <= place);
            fold_into(of_place.collect(), &mut folded);
        }
        self.set(&folded);
    }

    /// Keeps only the range deletes for which `remains` returns true, given their start, end and
    /// sequence number.
    pub fn retain(&mut self, mut remains: impl FnMut(&[u8], &[u8], SequenceNumber) -> bool) {
        let remaining: Vec<IndexedTombstone> = self
            .deletes()
            .filter(|delete| {
                let (start, end) = (self.keys.get(delete.start), self.keys.get(delete.end));
                remains(&start, &end, delete.sequence)
            })
            .collect();
        if remaining.len() < self.len() {
            self.set(&remaining);
        }
    }

    fn deletes(&self) -> impl Iterator<Item = IndexedTombstone> {
        let both = self.ranges.iter().zip(&self.sequences);
        both.map(|(&(start, end), &sequence)| IndexedTombstone { sequence, start, end })
    }

    fn set(&mut self, deletes: &[IndexedTombstone]) {
        debug_assert!(
            deletes.iter().all(|delete| delete.start < delete.end),
            "no range is empty"
        );
        self.ranges = deletes.iter().map(|delete| (delete.start, delete.end)).collect();
        self.sequences = deletes.iter().map(|delete| delete.sequence).collect();
    }

    /// Builds the index. Drops keys at which no range delete starts or ends any more.
    #[must_use]
    pub fn finish(mut self) -> RangeTombstoneIndex {
        self.prune();
        debug_assert_eq!(
            self.ranges.len(),
            self.sequences.len(),
            "a sequence for each range"
        );
        debug_assert!(
            self.ranges.iter().all(|(start, end)| start < end),
            "no range is empty"
        );
        debug_assert!(
            self.ranges
                .iter()
                .all(|(_, end)| (*end as usize) < self.keys.len()),
            "ranges are named by keys that are kept"
        );
        let order = |delete: &IndexedTombstone| (delete.sequence, delete.start, delete.end);
        if !self.deletes().is_sorted_by_key(|delete| order(&delete)) {
            let mut deletes: Vec<IndexedTombstone> = self.deletes().collect();
            deletes.sort_unstable_by_key(order);
            self.set(&deletes);
        }
        let RangeTombstoneBuilder {
            keys,
            ranges,
            sequences,
        } = self;
        let packed = SequenceArray::of(&sequences);
        drop(sequences);
        let mut sorted_starts: Vec<u32> = ranges.iter().map(|(start, _)| *start).collect();
        sorted_starts.sort_unstable();
        RangeTombstoneIndex {
            sequences: packed,
            starts: PackedIntegers::of(ranges.iter().map(|(start, _)| u64::from(*start))),
            lengths: PackedIntegers::of(ranges.iter().map(|(start, end)| u64::from(end - start))),
            sorted_starts: PackedIntegers::of(sorted_starts.iter().map(|start| u64::from(*start))),
            count: ranges.len() as u32,
            tree: SegmentTree::of(&ranges, (keys.len() as u32).saturating_sub(1)),
            keys,
        }
    }

    /// Drops the keys at which no range delete starts or ends any more.
    fn prune(&mut self) {
        let mut used = vec![false; self.keys.len()];
        for (start, end) in &self.ranges {
            used[*start as usize] = true;
            used[*end as usize] = true;
        }
        if used.iter().all(|used| *used) {
            return;
        }
        let mut keys = BoundaryKeysBuilder::default();
        let mut walk = self.keys.walk();
        let number = |used| {
            walk.next();
            if used { keys.add(walk.key()) } else { 0 }
        };
        let numbers: Vec<u32> = used.into_iter().map(number).collect();
        self.keys = keys.finish();
        for (start, end) in &mut self.ranges {
            *start = numbers[*start as usize];
            *end = numbers[*end as usize];
        }
    }
}

/// Finds the newest range delete in `meant` for every key, and appends the result to `to` as
/// disjoint, ascending ranges.
fn fold_into(mut meant: Vec<IndexedTombstone>, to: &mut Vec<IndexedTombstone>) {
    meant.sort_unstable_by_key(|delete| (delete.start, delete.end, delete.sequence));
    let mut ends: Vec<u32> = meant
        .iter()
        .flat_map(|delete| [delete.start, delete.end])
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let mut coming = meant.into_iter().peekable();
    // The range deletes that cover the current cell, newest on top. One that has ended is removed
    // only when it reaches the top.
    let mut open: BinaryHeap<(SequenceNumber, u32)> = BinaryHeap::new();
    let mut last: Option<IndexedTombstone> = None;
    for cell in ends.windows(2) {
        let (from, until) = (cell[0], cell[1]);
        while let Some(delete) = coming.next_if(|delete| delete.start <= from) {
            open.push((delete.sequence, delete.end));
        }
        while open.peek().is_some_and(|(_, end)| *end <= from) {
            open.pop();
        }
        let Some(&(sequence, _)) = open.peek() else {
            continue;
        };
        match &mut last {
            Some(last) if last.end == from && last.sequence == sequence => last.end = until,
            last => to.extend(last.replace(IndexedTombstone {
                sequence,
                start: from,
                end: until,
            })),
        }
    }
    to.extend(last);
    debug_assert!(
        to.iter().all(|delete| delete.start < delete.end),
        "pieces of ranges are not empty"
    );
}
