//! The range deletes of a memtable, as a list of immutable indexes. Each index has at least twice
//! as many range deletes as the next one.
//!
//! A new range delete becomes an index of its own, and indexes of similar size are then merged (the
//! logarithmic method of Bentley and Saxe, 1980). Each of n range deletes is therefore indexed
//! about log n times. Readers share a snapshot of the list.

use super::MemtableFull;
use super::arena::{MemtableArena, UNIT};
use crate::range::KeyRange;
use crate::range_tombstones::{RangeTombstoneBuilder, RangeTombstoneIndex as Index, RangeTombstoneList};
use crate::sync::{AtomicUsize, Ordering};
use alluvium_base::SequenceNumber;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The range deletes of a memtable.
#[derive(Debug, Default)]
pub(super) struct MemtableTombstones {
    /// Number of range deletes. As long as it is 0, readers access nothing else.
    count: AtomicUsize,
    /// Number of bytes charged to the arena's budget for range deletes. The mutex also serialises
    /// additions.
    taken: Mutex<usize>,
    /// The indexes, largest first, each with at least twice as many range deletes as the next one.
    indexes: RwLock<Arc<Vec<Arc<Index>>>>,
}

impl MemtableTombstones {
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn read(&self) -> Arc<Vec<Arc<Index>>> {
        // Readers and writers hold the lock only long enough to copy or replace a pointer.
        Arc::clone(&self.indexes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a range delete. If it exceeds the arena's budget, nothing changes.
    pub(super) fn add(
        &self,
        start: &[u8],
        end: &[u8],
        sequence: SequenceNumber,
        arena: &MemtableArena,
    ) -> Result<(), MemtableFull> {
        if start >= end {
            return Ok(());
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut indexes = self.read().to_vec();
        let mut deletes = 1;
        let small = |deletes: usize| move |index: &mut Arc<Index>| index.len() < 2 * deletes;
        let mut list = RangeTombstoneList::default();
        list.push(start, end, sequence);
        debug_assert_eq!(list.len(), 1, "it has keys");
        // Newest first.
        let mut merged = vec![Arc::new(Index::of(&list))];
        while let Some(index) = indexes.pop_if(small(deletes)) {
            deletes += index.len();
            merged.push(index);
        }
        indexes.push(match &merged[..] {
            [one] => Arc::clone(one),
            several => Arc::new(draft(several).finish()),
        });
        let bytes: usize = indexes.iter().map(|index| bytes(index)).sum();
        if bytes > *taken {
            let more = (bytes - *taken).next_multiple_of(UNIT);
            arena.take(more, UNIT).ok_or(MemtableFull)?;
            *taken += more;
        }
        assert!(
            bytes <= *taken,
            "M5: {bytes} bytes of range deletes, {taken} counted"
        );
        debug_assert!(!indexes.is_empty(), "the new one is in one of them");
        *self.indexes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(indexes);
        self.count.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub(super) fn covering(&self, key: &[u8], at: SequenceNumber) -> Option<SequenceNumber> {
        self.now()?.covering(key, at)
    }

    /// Returns a snapshot of the range deletes, or `None` if there are none.
    pub(super) fn now(&self) -> Option<TombstoneSnapshot> {
        (!self.is_empty()).then(|| TombstoneSnapshot { indexes: self.read() })
    }

    pub(super) fn all(&self) -> RangeTombstoneBuilder {
        draft(&self.read())
    }
}

/// Returns the memory use of an index in bytes, including its header and its entry in the list.
fn bytes(index: &Index) -> usize {
    index.memory_bytes() + size_of::<Index>() + 4 * size_of::<usize>()
}

/// Merges the range deletes of several indexes into one builder.
fn draft(indexes: &[Arc<Index>]) -> RangeTombstoneBuilder {
    let everything = KeyRange::everything();
    let sources: Vec<_> = indexes.iter().map(|index| (&**index, &everything)).collect();
    RangeTombstoneBuilder::merged(&sources)
}

/// An immutable snapshot of the range deletes of a memtable.
#[derive(Clone, Debug)]
pub struct TombstoneSnapshot {
    indexes: Arc<Vec<Arc<Index>>>,
}

impl TombstoneSnapshot {
    /// Returns the sequence number of the newest range delete that covers `key`, ignoring those
    /// above `at`.
    pub fn covering(&self, key: &[u8], at: SequenceNumber) -> Option<SequenceNumber> {
        let indexes = self.indexes.iter();
        indexes.filter_map(|index| index.covering(key, at)).max()
    }

    /// Calls `tell` with the start, end and sequence number of every range delete.
    pub fn each(&self, mut tell: impl FnMut(&[u8], &[u8], SequenceNumber)) {
        for index in self.indexes.iter() {
            index.each(&mut tell);
        }
    }

    /// Returns whether a range delete with a sequence number above `at` touches `range`.
    #[must_use]
    pub fn touch_above(&self, range: &KeyRange, at: SequenceNumber) -> bool {
        self.indexes.iter().any(|index| {
            let newest = index.newest_touching(&range.low, range.high.as_deref());
            newest.is_some_and(|newest| newest > at)
        })
    }

    /// Returns a range that contains `key` and that is deleted entirely by range deletes with
    /// sequence numbers up to `at`. If it finds several such ranges, returns the one with the
    /// greatest end.
    pub fn around(&self, key: &[u8], at: SequenceNumber) -> Option<(Vec<u8>, Vec<u8>)> {
        let ranges = self.indexes.iter().filter_map(|index| index.around(key, at));
        ranges.max_by(|(_, one), (_, other)| one.cmp(other))
    }

    /// Returns a range that contains the keys just below `end` and that is deleted entirely by
    /// range deletes with sequence numbers up to `at`. If it finds several such ranges, returns the
    /// one with the smallest start.
    pub fn reaching(&self, end: &[u8], at: SequenceNumber) -> Option<(Vec<u8>, Vec<u8>)> {
        let ranges = self
            .indexes
            .iter()
            .filter_map(|index| index.covering_below(end, at));
        ranges.min_by(|(one, _), (other, _)| one.cmp(other))
    }
}
