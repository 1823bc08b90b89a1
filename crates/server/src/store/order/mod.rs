//! Finds ranks in large sorted sets without iterating over the whole set. A rank index ("order")
//! holds the number of elements in each chunk of the set.
//!
//! *Scope*: the chunk counts stored with a set's elements, their maintenance when the set changes,
//! and the computation of ranks from them.
//!
//! *Must not depend on*: commands, the encoding of positions.
//!
//! A set with more than [`COUNTED_FROM`] members is divided, in score order, into chunks of some
//! thousands of members, and the store contains each chunk's element count. To find a rank, a
//! command sums the counts of the preceding chunks in memory and iterates over one chunk. A change
//! of the set updates one chunk's count in the same commit; the chunk is found in memory. The index
//! needs no higher levels: a million members form some hundreds of chunks, and summing their counts
//! is faster than reading another level would be. Sets with more than thirty million members have
//! larger chunks instead of more of them. Lists need no counts because their positions are
//! consecutive numbers. Hashes and sets need none because they have no rank commands and choose
//! random elements by hash.
//!
//! Invariants:
//!
//! - **S17** At every commit, the chunk counts of a counted set match its elements.

mod cache;
mod chunks;

pub(crate) use cache::OrderCache;

use super::model::CollectionHeader;
use super::model::format::{self, InnerKey};
use super::transaction::CommandTransaction;
use super::{OwnedPair, ServerStore, WalkDirection};
use crate::error::CommandError;
use chunks::{ChunkAction, ChunkIndex, LEAST_LIMIT, limit, separator};
use std::borrow::Cow;
use std::sync::Arc;

/// Sets with more members than this have chunk counts; smaller sets are iterated.
const COUNTED_FROM: u64 = LEAST_LIMIT;

/// Sets that shrink below this number of members give up their chunk counts.
const COUNTED_TO: u64 = COUNTED_FROM / 4;

/// A sorted set's rank index that a transaction has read or changed.
#[derive(Debug)]
pub(super) struct OpenOrder {
    database: u8,
    number: u64,
    chunks: Arc<ChunkIndex>,
    is_changed: bool,
}

/// A key range that contains the element with a given rank, and the number of elements to skip
/// before it.
#[derive(Debug)]
pub(crate) struct RankRange {
    pub(crate) start: InnerKey,
    pub(crate) end: InnerKey,
    /// Number of elements to skip at the beginning of the iteration.
    pub(crate) skip: u64,
}

/// Builds a set's chunk counts from its elements, which must arrive in score order.
pub(crate) struct ChunkCounter {
    chunks: ChunkIndex,
    /// Number of elements per chunk, chosen below the limit so that chunks can grow before they are
    /// split.
    full: u64,
    start: InnerKey,
    count: u32,
    last: InnerKey,
}

impl ChunkCounter {
    /// Creates a counter for a set of about `count` members.
    pub(crate) fn new(count: u64) -> ChunkCounter {
        ChunkCounter {
            chunks: ChunkIndex::default(),
            full: limit(count) * 3 / 4,
            start: InnerKey::new(),
            count: 0,
            last: InnerKey::new(),
        }
    }

    /// Counts the next element in score order; `inner` is its key.
    pub(crate) fn add(&mut self, inner: &[u8]) {
        let place = format::score_place(inner);
        if u64::from(self.count) == self.full {
            self.chunks.push(&self.start, self.count);
            self.start = separator(&self.last, place).into();
            self.count = 0;
        }
        self.count += 1;
        self.last.clear();
        self.last.extend_from_slice(place);
    }

    fn into_chunks(mut self) -> ChunkIndex {
        self.chunks.push(&self.start, self.count);
        self.chunks.change_all();
        self.chunks
    }
}

fn miscounted(set: &CollectionHeader) -> CommandError {
    CommandError::Refused(Cow::Owned(format!(
        "ERR the counts of sorted set {} are damaged; check the store with `alluvium check`",
        set.number
    )))
}

impl ServerStore {
    /// Removes the rank indexes of sets that a client's transaction has changed from the cache. The
    /// caller must hold the locks of their keys.
    pub(super) fn forget_orders<'a>(&self, numbers: impl IntoIterator<Item = &'a u64>) {
        for &number in numbers {
            drop(self.orders.take(number));
        }
    }
}

impl CommandTransaction<'_> {
    fn scores(&self, set: &CollectionHeader) -> (InnerKey, InnerKey) {
        format::scores(self.database, set.number)
    }

    /// Returns the position of a set's rank index in `self.orders`. Loads the index from the cache
    /// or the store if necessary.
    fn open_order(&mut self, set: &CollectionHeader) -> Result<usize, CommandError> {
        if let Some(index) = self.orders.iter().position(|open| open.number == set.number) {
            return Ok(index);
        }
        // Do not use the cache in a client's transaction: it has the latest committed index, which
        // may be newer than the transaction's snapshot.
        let kept = match self.is_within() {
            true => None,
            false => self.store.orders.get(set.number),
        };
        let chunks = match kept {
            Some(chunks) => chunks,
            None => Arc::new(self.read_order(set)?),
        };
        self.orders.push(OpenOrder {
            database: self.database,
            number: set.number,
            chunks,
            is_changed: false,
        });
        Ok(self.orders.len() - 1)
    }

    fn read_order(&self, set: &CollectionHeader) -> Result<ChunkIndex, CommandError> {
        let (start, end) = format::chunks(self.database, set.number);
        let mut chunks = ChunkIndex::default();
        let mut scan = self.scan(start, end, WalkDirection::Forward);
        while let Some((key, value)) = scan.next()? {
            let count = u32::try_from(format::decode_number(&value)?);
            chunks.push(format::chunk_start(&key), count.map_err(|_| miscounted(set))?);
        }
        if chunks.start(0).is_none_or(|start| !start.is_empty()) || chunks.total() != set.count {
            return Err(miscounted(set));
        }
        Ok(chunks)
    }

    fn change_order(&mut self, set: &CollectionHeader) -> Result<&mut ChunkIndex, CommandError> {
        let index = self.open_order(set)?;
        let open = &mut self.orders[index];
        if !open.is_changed {
            // Remove the index from the cache, which must contain only committed indexes. If the
            // cache held the only other reference, `make_mut` below does not copy the index.
            drop(self.store.orders.take(set.number));
            open.is_changed = true;
        }
        Ok(Arc::make_mut(&mut open.chunks))
    }

    /// Updates the chunk counts after a member with the score key `inner` was added. The caller
    /// must have written the element, but not yet updated `set.count`.
    pub(crate) fn count_added(
        &mut self,
        set: &CollectionHeader,
        inner: &InnerKey,
    ) -> Result<(), CommandError> {
        if !set.is_counted {
            return Ok(());
        }
        let limit = limit(set.count);
        let advice = self.change_order(set)?.add(format::score_place(inner), limit);
        match advice {
            ChunkAction::Nothing => Ok(()),
            ChunkAction::Split(at) => self.split(set, at, inner),
        }
    }

    /// Updates the chunk counts after the member with the score key `inner` was removed.
    pub(crate) fn count_removed(
        &mut self,
        set: &CollectionHeader,
        inner: &InnerKey,
    ) -> Result<(), CommandError> {
        if !set.is_counted {
            return Ok(());
        }
        let limit = limit(set.count);
        let chunks = self.change_order(set)?;
        let removed = chunks.remove(format::score_place(inner), limit);
        removed.ok_or_else(|| miscounted(set))
    }

    /// Splits the chunk at index `at` after `added` was inserted into it.
    fn split(&mut self, set: &CollectionHeader, at: usize, added: &InnerKey) -> Result<(), CommandError> {
        let index = self.open_order(set)?;
        let chunks = &self.orders[index].chunks;
        let count = chunks.count(at);
        let (start, end) = self.chunk_bounds(set, chunks, at);
        let mut left = count / 2;
        let mut pair = None;
        if at + 1 == chunks.len() {
            // If the new element is the set's last one, split just before it. A client that only
            // appends then leaves full chunks.
            let mut scan = self.scan(start.clone(), end.clone(), WalkDirection::Backward);
            let last = scan.next()?;
            if last.as_ref().is_some_and(|(key, _)| key[..] == added[..]) {
                left = count - 1;
                pair = scan.next()?.zip(last);
            }
        }
        if pair.is_none() {
            let mut scan = self.scan(start, end, WalkDirection::Forward);
            for _ in 1..left {
                scan.next()?;
            }
            pair = match scan.next()? {
                Some(before) => scan.next()?.map(|behind| (before, behind)),
                None => None,
            };
        }
        let Some(((before, _), (behind, _))): Option<(OwnedPair, OwnedPair)> = pair else {
            return Err(miscounted(set));
        };
        let start = separator(format::score_place(&before), format::score_place(&behind));
        self.change_order(set)?.split(at, start, left);
        Ok(())
    }

    /// Returns the key range of the chunk at index `at`.
    fn chunk_bounds(&self, set: &CollectionHeader, chunks: &ChunkIndex, at: usize) -> (InnerKey, InnerKey) {
        let (start, end) = self.scores(set);
        let place = |from: &[u8]| {
            let mut inner = start.clone();
            inner.extend_from_slice(from);
            inner
        };
        let end = chunks.start(at + 1).map_or(end, place);
        let start = chunks.start(at).map_or_else(|| start.clone(), place);
        (start, end)
    }

    /// Creates chunk counts for a set that has become large, or deletes them if the set has become
    /// small. The caller must then save the set's header.
    pub(crate) fn settle_order(&mut self, set: &mut CollectionHeader) -> Result<(), CommandError> {
        if !set.is_counted && set.count > COUNTED_FROM {
            self.count_all(set)?;
        } else if set.is_counted && set.count < COUNTED_TO {
            set.is_counted = false;
            self.forget_order(set.number);
            let (start, end) = format::chunks(self.database, set.number);
            self.delete_range(start, end);
        }
        Ok(())
    }

    /// Discards the rank index of a set that was deleted or no longer has chunk counts.
    pub(super) fn forget_order(&mut self, number: u64) {
        self.orders.retain(|open| open.number != number);
        drop(self.store.orders.take(number));
    }

    /// Iterates over all elements of a set to create its chunk counts.
    fn count_all(&mut self, set: &mut CollectionHeader) -> Result<(), CommandError> {
        let mut counting = ChunkCounter::new(set.count);
        let (start, end) = self.scores(set);
        let mut scan = self.scan(start, end, WalkDirection::Forward);
        while let Some((key, _)) = scan.next()? {
            counting.add(&key);
        }
        drop(scan);
        self.adopt(set, counting)
    }

    /// Stores a new set's chunk counts if the set is large enough to need them. The caller must
    /// then save the set's header.
    pub(crate) fn adopt_order(
        &mut self,
        set: &mut CollectionHeader,
        counting: ChunkCounter,
    ) -> Result<(), CommandError> {
        if set.count > COUNTED_FROM {
            self.adopt(set, counting)?;
        }
        Ok(())
    }

    fn adopt(&mut self, set: &mut CollectionHeader, counting: ChunkCounter) -> Result<(), CommandError> {
        let chunks = counting.into_chunks();
        if chunks.total() != set.count {
            return Err(miscounted(set));
        }
        set.is_counted = true;
        self.orders.push(OpenOrder {
            database: self.database,
            number: set.number,
            chunks: Arc::new(chunks),
            is_changed: true,
        });
        Ok(())
    }

    /// Creates chunk counts for a large set that was written before chunk counts existed, and saves
    /// its header.
    pub(crate) fn ensure_counted(
        &mut self,
        key: &[u8],
        set: &mut CollectionHeader,
    ) -> Result<(), CommandError> {
        if !set.is_counted && set.count > COUNTED_FROM {
            self.count_all(set)?;
            let record = format::encode_collection(set);
            self.put(format::record_key(self.database, key), record, set.expires_ms);
        }
        Ok(())
    }

    /// Returns the number of elements whose score keys are below `place`.
    pub(crate) fn rank(&mut self, set: &CollectionHeader, place: &InnerKey) -> Result<u64, CommandError> {
        let (mut start, end) = self.scores(set);
        if *place >= end {
            return Ok(set.count);
        }
        let mut before = 0;
        if set.is_counted && *place > start {
            let index = self.open_order(set)?;
            let chunks = &self.orders[index].chunks;
            let at = chunks.find(format::score_place(place));
            before = chunks.before(at);
            start = self.chunk_bounds(set, chunks, at).0;
        }
        let mut scan = self.scan(start, place.clone(), WalkDirection::Forward);
        while scan.next()?.is_some() {
            before += 1;
        }
        Ok(before)
    }

    /// Returns the range in which an iteration, after skipping some elements, finds the element
    /// with a given rank, counted from the lowest score.
    pub(crate) fn beginning(
        &mut self,
        set: &CollectionHeader,
        rank: u64,
        direction: WalkDirection,
    ) -> Result<RankRange, CommandError> {
        let (start, end) = self.scores(set);
        let before = match direction {
            WalkDirection::Forward => rank,
            WalkDirection::Backward => set.count.saturating_sub(rank + 1),
        };
        if !set.is_counted || before == 0 {
            return Ok(RankRange {
                start,
                end,
                skip: before,
            });
        }
        let index = self.open_order(set)?;
        let chunks = &self.orders[index].chunks;
        let (at, within) = chunks.seek(rank).ok_or_else(|| miscounted(set))?;
        let bounds = self.chunk_bounds(set, chunks, at);
        Ok(match direction {
            WalkDirection::Forward => RankRange {
                start: bounds.0,
                end,
                skip: within,
            },
            WalkDirection::Backward => RankRange {
                start,
                end: bounds.1,
                skip: u64::from(chunks.count(at)) - 1 - within,
            },
        })
    }

    /// Returns the changed chunk counts to store: each key with its count, or with `None` to delete
    /// it.
    pub(super) fn order_changes(&self) -> impl Iterator<Item = (InnerKey, Option<u32>)> {
        let changed = self.orders.iter().filter(|open| open.is_changed);
        changed.flat_map(|open| {
            let key = |start: &[u8]| format::chunk_key(open.database, open.number, start);
            open.chunks
                .changes()
                .map(move |(start, count)| (key(start), count))
        })
    }

    /// Writes the changed chunk counts to the client's transaction in which this transaction is
    /// nested. Returns the numbers of the sets whose counts have changed.
    pub(super) fn write_orders(&mut self) -> Vec<u64> {
        let changes: Vec<_> = self.order_changes().collect();
        for (key, count) in changes {
            match count {
                Some(count) => self.put(key, format::encode_number(count.into()).to_vec(), 0),
                None => self.delete(key),
            }
        }
        let changed = self.orders.drain(..).filter(|open| open.is_changed);
        changed.map(|open| open.number).collect()
    }

    /// Moves the transaction's rank indexes to the cache after the commit.
    pub(super) fn keep_orders(&mut self) {
        if self.orders.is_empty() {
            return;
        }
        for open in self.orders.drain(..) {
            let mut chunks = open.chunks;
            if open.is_changed {
                Arc::make_mut(&mut chunks).is_stored();
            }
            self.store.orders.put(open.number, chunks);
        }
    }

    /// Discards this transaction's rank indexes for a database that was emptied.
    pub(super) fn forget_orders_of(&mut self, database: u8) {
        self.orders.retain(|open| open.database != database);
    }
}

#[cfg(test)]
mod tests;
