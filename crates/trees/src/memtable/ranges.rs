//! Range deletes: few, small, and asked for by every reader; so readers share an immutable list.

use alluvium_base::Sequence;
use std::sync::{Arc, RwLock};

use crate::sync::{AtomicUsize, Ordering};

/// One range delete.
#[derive(Clone, Debug)]
struct Range {
    start: Vec<u8>,
    end: Vec<u8>,
    sequence: Sequence,
}

/// Disjoint pieces in order of their starts, each with the sequence numbers of every delete that covers it,
/// newest first.
#[derive(Clone, Debug, Default)]
struct Fragments {
    pieces: Vec<(Vec<u8>, Vec<u8>, Vec<Sequence>)>,
    ranges: Vec<Range>,
}

/// The range deletes of a memtable.
#[derive(Debug, Default)]
pub(super) struct RangeDeletes {
    /// How many there are, so that the common reader asks one word.
    count: AtomicUsize,
    bytes: AtomicUsize,
    fragments: RwLock<Arc<Fragments>>,
}

/// What a range delete costs beside its keys, which are kept twice.
const OVERHEAD: usize = 128;

impl RangeDeletes {
    pub(super) fn cost(start: &[u8], end: &[u8]) -> usize {
        2 * (start.len() + end.len()) + OVERHEAD
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn read(&self) -> Arc<Fragments> {
        // The lock is held for the copy of a pointer only, by writers too.
        Arc::clone(
            &self
                .fragments
                .read()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        )
    }

    pub(super) fn add(&self, start: &[u8], end: &[u8], sequence: Sequence) {
        if start >= end {
            return;
        }
        let range = Range {
            start: start.to_vec(),
            end: end.to_vec(),
            sequence,
        };
        loop {
            let before = self.read();
            let after = Arc::new(before.with(range.clone()));
            let mut current = self
                .fragments
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if Arc::ptr_eq(&before, &current) {
                *current = after;
                break;
            }
        }
        self.bytes.fetch_add(Self::cost(start, end), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Release);
    }

    pub(super) fn covering(&self, key: &[u8], at: Sequence) -> Option<Sequence> {
        if self.is_empty() {
            return None;
        }
        let fragments = self.read();
        let index = fragments
            .pieces
            .partition_point(|(start, _, _)| start.as_slice() <= key)
            .checked_sub(1)?;
        let (_, end, sequences) = &fragments.pieces[index];
        if key >= end.as_slice() {
            return None;
        }
        sequences.iter().copied().find(|&sequence| sequence <= at)
    }

    pub(super) fn all(&self) -> Vec<(Vec<u8>, Vec<u8>, Sequence)> {
        let fragments = self.read();
        fragments
            .ranges
            .iter()
            .map(|range| (range.start.clone(), range.end.clone(), range.sequence))
            .collect()
    }
}

impl Fragments {
    /// The same with one more range: pieces that it cuts are split, gaps that it covers become pieces.
    fn with(&self, range: Range) -> Fragments {
        let mut pieces = Vec::with_capacity(self.pieces.len() + 3);
        let mut from = range.start.clone();
        for (start, end, sequences) in &self.pieces {
            if *end <= range.start || *start >= range.end {
                continue;
            }
            let (inner_start, inner_end) = (start.max(&range.start).clone(), end.min(&range.end).clone());
            if *start < range.start {
                pieces.push((start.clone(), range.start.clone(), sequences.clone()));
            }
            if from < inner_start {
                pieces.push((from, inner_start.clone(), vec![range.sequence]));
            }
            let mut both = sequences.clone();
            both.insert(
                both.partition_point(|&other| other > range.sequence),
                range.sequence,
            );
            pieces.push((inner_start, inner_end.clone(), both));
            if *end > range.end {
                pieces.push((range.end.clone(), end.clone(), sequences.clone()));
            }
            from = inner_end;
        }
        if from < range.end {
            pieces.push((from, range.end.clone(), vec![range.sequence]));
        }
        let untouched =
            |(start, end, _): &&(Vec<u8>, Vec<u8>, Vec<Sequence>)| *end <= range.start || *start >= range.end;
        pieces.extend(self.pieces.iter().filter(untouched).cloned());
        pieces.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut ranges = self.ranges.clone();
        ranges.push(range);
        Fragments { pieces, ranges }
    }
}
