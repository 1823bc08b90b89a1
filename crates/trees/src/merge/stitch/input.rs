//! An input of a merge that reads the leaves of its run only where the merge cannot adopt them.

use super::leaf_coverage::{InputDeletes, LeafCoverage};
use super::policy::{FilterSource, StitchPolicy, StitchView};
use super::read_prediction::{KeyInterval, KnownIntervals, leaves_to_read};
use crate::merge::gather::{MergeOutput, ValueGathering};
use crate::merge::runs::{RunMergeInput, RunSource, UnreadLeaves, lies_in, unit_lies_in};
use crate::run::{
    self, CursorAccess, ExtentUse, IndexedRun, LeafDescriptor, LeafDescriptorIter, RunRecordCursor,
};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::merge::{self, MergeDirection, OlderData};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::record::StoredRecord;
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::extents::Extent;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

/// A run as an input of a merge. If the merge may adopt leaves of the run, the input iterates over
/// the leaves' index entries. Otherwise it reads the whole run.
pub(crate) struct StitchInput {
    run: IndexedRun,
    /// The key range in which the run's data is live.
    range: KeyRange,
    /// Sparsely used extents that other runs wrote, sorted. Leaves in these extents are copied, so
    /// that the extents can be freed.
    sparse: Vec<Extent>,
    store: Arc<Store>,
    rules: StitchRules,
    deletes: InputDeletes,
    /// Iterates over the run's leaves; `None` if the whole run is read.
    leaves: Option<LeafDescriptorIter>,
    /// The next leaves, whose index entries have been read. Without a `cursor`, the input is
    /// positioned before the first of these leaves.
    ahead: VecDeque<UpcomingLeaf>,
    /// Total size in bytes of the lower and upper bounds of the leaves in `ahead`.
    ahead_bytes: usize,
    /// Number of leaves in `ahead` that could have been adopted at the last attempt, but that the
    /// policy chose to copy.
    refused: usize,
    /// Minimum number of leaves to read after a failed attempt to adopt leaves. It doubles with
    /// each failure, so the leaves that are read although they could have been adopted are at most
    /// about as many as those that had to be read.
    patience: usize,
    /// Whether the leaves before the current position were adopted, and adoption stopped only at
    /// the limit per step.
    goes_on: bool,
    cursor: Option<RunRecordCursor>,
    /// The exclusive upper bound of the leaves that `cursor` reads; `None` if the last leaf is one
    /// of them.
    end: Option<Vec<u8>>,
    /// Number of leaves adopted so far.
    pub(crate) adopted: u64,
    /// Number of records in the leaves adopted so far.
    pub(crate) adopted_records: u64,
    /// Number of leaves dropped so far without being read, because range deletes cover them.
    pub(crate) dropped: u64,
}

/// A leaf whose index entry has been read, and how the merge's range deletes affect it.
struct UpcomingLeaf {
    leaf: LeafDescriptor,
    coverage: LeafCoverage,
}

impl Deref for UpcomingLeaf {
    type Target = LeafDescriptor;

    fn deref(&self) -> &LeafDescriptor {
        &self.leaf
    }
}

impl UpcomingLeaf {
    /// Returns whether every record of the leaf is deleted for every reader (B4).
    fn is_deleted(&self) -> bool {
        self.coverage == LeafCoverage::Complete
    }
}

/// When the inputs of a merge may adopt leaves.
#[derive(Clone)]
pub(crate) struct StitchRules {
    pub(crate) stitching: StitchPolicy,
    pub(crate) schema: Arc<dyn KeyspaceSchema>,
    /// Whether compaction filters must examine every record.
    pub(crate) asks_filters: bool,
    pub(crate) older: OlderData,
    /// The oldest sequence number at which a reader may still read.
    pub(crate) horizon: SequenceNumber,
    /// Extents with little live data, sorted.
    pub(crate) sparse: Vec<Extent>,
    /// The storage tier of the new run. Leaves on other tiers are copied.
    pub(crate) tier: u8,
    pub(crate) filters: FilterSource,
    /// Whether the inputs are layers of an ingest.
    pub(crate) are_layers: bool,
    /// Whether leaves with scattered values are copied, so that the values are brought together, in
    /// keyspaces whose rules ask for it.
    pub(crate) gathering: ValueGathering,
}

/// Maximum number of leaves adopted, or dropped, in one step. The index entries of all adopted
/// leaves are in memory at the same time.
const MOST_AT_ONCE: usize = 4096;
/// Maximum number of leaves read together. The index entries of all these leaves are in memory at
/// the same time.
const MOST_TOGETHER: usize = 1024;
/// Once the bounds of the leaves in `StitchInput::ahead` take at least this many bytes, no further
/// index entries are read.
const MOST_AHEAD_BYTES: usize = 1 << 20;
const _: () = assert!(MOST_TOGETHER > 1 && MOST_AT_ONCE > MOST_TOGETHER);

impl StitchInput {
    /// Opens the inputs of a merge. `sources` must be in order from newest to oldest, and `deletes`
    /// must have the range deletes of all of them. Leaves are adopted, or dropped unread, only from
    /// runs for which `may_adopt` returns `true`.
    pub(crate) fn open_all(
        store: &Arc<Store>,
        sources: Vec<RunSource>,
        deletes: &Arc<RangeTombstoneIndex>,
        rules: &StitchRules,
        may_adopt: impl Fn(&IndexedRun) -> bool,
    ) -> Result<Vec<StitchInput>> {
        let mut inputs = Vec::with_capacity(sources.len());
        let mut whole = Vec::new();
        for RunSource { run, range } in sources {
            let leaves =
                match rules.stitching.is_on() && run.is_adoptable(rules.are_layers) && may_adopt(&run) {
                    true => Some(LeafDescriptorIter::new(
                        &run,
                        store,
                        &range.low,
                        Purpose::Compact,
                    )?),
                    false => None,
                };
            if leaves.is_none() {
                let (direction, access) = (MergeDirection::Forward, CursorAccess::Replacing);
                whole.push(run.cursor(store, range.clone(), direction, access));
            }
            let is_left_over = |used: &&ExtentUse| used.inherited && rules.sparse.contains(&used.extent);
            let left_over = run.extents().iter().filter(is_left_over);
            let mut sparse: Vec<Extent> = left_over.map(|used| used.extent).collect();
            sparse.sort_unstable();
            inputs.push(StitchInput {
                sparse,
                deletes: InputDeletes::new(deletes, &run, &range, rules.horizon),
                run,
                range,
                store: Arc::clone(store),
                rules: rules.clone(),
                leaves,
                ahead: VecDeque::new(),
                ahead_bytes: 0,
                refused: 0,
                patience: 1,
                goes_on: false,
                cursor: None,
                end: None,
                adopted: 0,
                adopted_records: 0,
                dropped: 0,
            });
        }
        let read_whole = inputs.iter().filter(|input| input.leaves.is_none()).count();
        assert!(
            read_whole == whole.len(),
            "a cursor for each run that is read whole"
        );
        // Submit the first reads of all cursors before waiting for any of them.
        run::open_many(&mut whole, None)?;
        let mut whole = whole.into_iter();
        for input in &mut inputs {
            match input.leaves {
                None => input.cursor = whole.next(),
                Some(_) => input.pass(0)?,
            }
        }
        Ok(inputs)
    }

    pub(crate) fn run(&self) -> &IndexedRun {
        &self.run
    }

    /// Reads index entries until `ahead` contains `count` leaves. Stops early at the end of the
    /// range, or if the leaves' bounds take too much memory. Returns whether `ahead` contains
    /// `count` leaves.
    fn look_ahead(&mut self, count: usize) -> Result<bool> {
        while self.ahead.len() < count {
            if self.ahead_bytes >= MOST_AHEAD_BYTES {
                return Ok(false);
            }
            let next = match &mut self.leaves {
                Some(leaves) => leaves.next()?,
                None => None,
            };
            match next {
                Some(leaf) if !self.range.ends_before(leaf.low()) => {
                    self.ahead_bytes += leaf.key_bytes();
                    let coverage = self.deletes.coverage(&leaf);
                    self.ahead.push_back(UpcomingLeaf { leaf, coverage });
                }
                _ => {
                    self.leaves = self.leaves.take().map(LeafDescriptorIter::ended);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Reads index entries until `ahead` contains at least one leaf. If the index stores the first
    /// and last key of each leaf, reads on until `ahead` has as many leaves as may be read
    /// together.
    fn look_on(&mut self) -> Result<()> {
        let is_exact = self.look_ahead(1)? && self.ahead[0].is_exact();
        self.look_ahead(if is_exact { MOST_TOGETHER } else { 1 })?;
        Ok(())
    }

    /// Returns whether the leaf at index `place` of `ahead` may be adopted, if no other input has a
    /// key before `bound`.
    fn may_adopt(&self, place: usize, bound: Option<&[u8]>) -> bool {
        debug_assert!(self.leaves.is_some(), "it is walked leaf by leaf");
        let leaf = &self.ahead[place];
        let Some(end) = leaf.end() else {
            return false;
        };
        // `end` is an exclusive bound (B1).
        let is_alone = bound.is_none_or(|bound| end <= bound);
        let is_within =
            *self.range.low <= *leaf.low() && self.range.high.as_deref().is_none_or(|high| end <= high);
        let stays = leaf.tier() == self.rules.tier
            && !lies_in(&self.sparse, leaf.pointer())
            && !leaf.value_units().any(|unit| unit_lies_in(&self.sparse, unit));
        // If the merge copies values with their records, a leaf with scattered values is copied
        // instead of adopted, which stores its values next to each other.
        let is_whole =
            leaf.values_lie_together() || !self.rules.stitching.moves_values && !self.gathers_values(leaf);
        let follows = place == 0 || leaf.follows(&self.ahead[place - 1]);
        let is_kept = self.rules.older == OlderData::Elsewhere || !leaf.has_deletes();
        is_alone
            && leaf.coverage == LeafCoverage::Clear
            && is_within
            && stays
            && is_whole
            && follows
            && is_kept
            && self.run.is_full(leaf)
            && !self.is_filtered(leaf, end)
    }

    /// Returns whether the merge brings scattered values of a leaf's keyspace together.
    fn gathers_values(&self, leaf: &LeafDescriptor) -> bool {
        self.rules.gathering == ValueGathering::WhereAsked
            && self.rules.schema.rules(leaf.low()).gathers_values
    }

    /// Returns whether a compaction filter may have to examine the records of a leaf.
    fn is_filtered(&self, leaf: &LeafDescriptor, end: &[u8]) -> bool {
        if !self.rules.asks_filters {
            return false;
        }
        let schema = &self.rules.schema;
        let prefix = schema.prefix_len(leaf.low());
        // An upper bound may be shorter than its keyspace's prefix, or belong to the next keyspace.
        // In either case the leaf's keyspace is unknown, so assume that a filter applies.
        let is_one = schema.prefix_len(end) == prefix && end.starts_with(&leaf.low()[..prefix]);
        !is_one || schema.rules(end).filter.is_some()
    }

    /// Reads the keys of the first `count` leaves in `ahead`, which have just been adopted, and
    /// adds their hashes to `output`.
    fn rehash(&self, count: usize, output: &mut MergeOutput) -> Result<()> {
        assert!(count <= self.ahead.len(), "what is taken over was looked at");
        let (first, last) = (&self.ahead[0], &self.ahead[count - 1]);
        let range = KeyRange::new(first.low(), last.end());
        let mut cursor = self.run.cursor(
            &self.store,
            range,
            MergeDirection::Forward,
            CursorAccess::Replacing,
        );
        cursor.start()?;
        while let Some(key) = cursor.key() {
            output.hash_adopted(key);
            cursor.advance()?;
        }
        Ok(())
    }

    /// Returns the key intervals in which this input is known to have data: the part that the
    /// cursor is reading, and the leaves in `ahead`.
    fn known(&self) -> KnownIntervals<'_, impl Iterator<Item = KeyInterval<'_>>> {
        let reading = self.cursor.as_ref().and_then(RunRecordCursor::key);
        let reading = reading.map(|key| (key, self.end.as_deref()));
        let leaves = self.ahead.iter().filter(|leaf| !leaf.is_deleted());
        let leaves = leaves.map(|leaf| (leaf.low(), leaf.end()));
        KnownIntervals {
            stretches: reading.into_iter().chain(leaves).peekable(),
            has_more: self.leaves.as_ref().is_some_and(|leaves| !leaves.is_over()),
        }
    }

    /// Removes the first `count` leaves, which were read or adopted, from `ahead`, and drops
    /// deleted leaves that follow.
    fn pass(&mut self, count: usize) -> Result<()> {
        self.remove(count);
        self.drop_deleted()?;
        self.look_on()
    }

    /// Removes the first `count` leaves from `ahead`.
    fn remove(&mut self, count: usize) {
        assert!(count <= self.ahead.len(), "leaves are passed once");
        let passed = self.ahead.drain(..count);
        self.ahead_bytes -= passed.map(|leaf| leaf.key_bytes()).sum::<usize>();
    }

    /// Drops the next leaves as long as they are deleted, up to the limit per step. If `ahead` then
    /// still begins with a deleted leaf, the limit was reached.
    fn drop_deleted(&mut self) -> Result<()> {
        for _ in 0..MOST_AT_ONCE {
            if !self.look_ahead(1)? || !self.ahead[0].is_deleted() {
                break;
            }
            self.remove(1);
            self.dropped += 1;
            self.goes_on = false;
        }
        Ok(())
    }
}

impl merge::SortedSource for StitchInput {
    type Error = Error;

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match &self.cursor {
            Some(cursor) => cursor.key(),
            None => self.ahead.front().map(|leaf| leaf.low()),
        }
    }

    fn advance(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else {
            return Ok(());
        };
        cursor.advance()?;
        if cursor.key().is_none() && self.leaves.is_some() {
            self.cursor = None;
        }
        Ok(())
    }
}

impl RunMergeInput for StitchInput {
    #[inline]
    fn record(&self) -> StoredRecord<'_> {
        self.cursor.as_ref().expect("it stands at a record").record()
    }

    #[inline]
    fn omits_value(&self, value: &ValuePointer) -> bool {
        self.run.omits_value(value)
    }

    #[inline]
    fn is_unread(&self) -> bool {
        self.cursor.is_none() && !self.ahead.is_empty()
    }

    fn unread_leaves(&self) -> UnreadLeaves {
        UnreadLeaves {
            adopted: self.adopted,
            dropped: self.dropped,
        }
    }

    fn foresee(sources: &[StitchInput], winner: usize) -> Option<usize> {
        let this = &sources[winner];
        if !this.ahead.front()?.is_exact() {
            return None;
        }
        let leaves = this.ahead.iter().enumerate().map(|(place, leaf)| {
            let can_be_taken = this.may_adopt(place, None);
            ((leaf.low(), leaf.end()), can_be_taken)
        });
        let others = sources.iter().enumerate().filter(|(source, _)| *source != winner);
        let mut others: Vec<_> = others.map(|(_, other)| other.known()).collect();
        Some(leaves_to_read(
            leaves,
            &mut others,
            this.rules.stitching.threshold,
        ))
    }

    /// Reads the next leaves: `foreseen` leaves if the prediction is known. Without a prediction,
    /// or if the policy rejected more leaves at the last attempt than were predicted, the number
    /// doubles with each call.
    fn enter(&mut self, foreseen: Option<usize>) -> Result<()> {
        assert!(self.is_unread(), "it stands before a leaf");
        if self.ahead[0].is_deleted() {
            return self.pass(0);
        }
        let refused = std::mem::take(&mut self.refused);
        let window = match foreseen {
            Some(foreseen) if foreseen >= refused.max(1) => foreseen,
            _ => {
                let window = refused.max(self.patience);
                self.patience = (2 * self.patience).min(MOST_TOGETHER);
                window
            }
        };
        self.look_ahead(window)?;
        let mut window = window.clamp(1, self.ahead.len());
        // Deleted leaves are not read, so read only the leaves before the first one.
        if let Some(deleted) = self.ahead.iter().take(window).position(UpcomingLeaf::is_deleted) {
            window = deleted;
        }
        assert!(self.cursor.is_none(), "leaves ahead are behind all that is read");
        let low = self.ahead[0].low().to_vec();
        let high = self.ahead[window - 1].end().map(<[u8]>::to_vec);
        let range = KeyRange::new(&low, high.as_deref()).intersect(&self.range);
        self.end = high;
        let mut cursor = self.run.cursor(
            &self.store,
            range,
            MergeDirection::Forward,
            CursorAccess::Replacing,
        );
        cursor.start()?;
        self.pass(window)?;
        // Every leaf has at least one record, so the cursor does not skip the leaf that follows.
        self.cursor = Some(cursor).filter(|cursor| cursor.key().is_some());
        Ok(())
    }

    fn stitch(&mut self, bound: Option<&[u8]>, output: &mut MergeOutput) -> Result<usize> {
        if self.ahead[0].is_deleted() {
            return Ok(0);
        }
        let mut count = 0;
        while count < MOST_AT_ONCE && self.look_ahead(count + 1)? && self.may_adopt(count, bound) {
            count += 1;
        }
        let before = if self.goes_on { MOST_AT_ONCE } else { 0 };
        assert!(count <= self.ahead.len(), "what is taken over was looked at");
        let last = &self.ahead[count.saturating_sub(1)];
        let view = StitchView {
            leaves: (before + count) as u64,
            before: output.last_key(),
            first: self.ahead[0].low(),
            end: last.last().or(last.end()),
            next: bound,
            name: self.rules.schema.prefix_len(self.ahead[0].low()),
        };
        self.goes_on = count == MOST_AT_ONCE;
        if count == 0 || !self.rules.stitching.chooses(&view) {
            self.goes_on = false;
            self.refused = count;
            return Ok(0);
        }
        assert!(self.patience <= MOST_TOGETHER, "patience has an end");
        self.patience = 1;
        for leaf in self.ahead.iter().take(count) {
            output.adopt(leaf, &self.run)?;
            self.adopted_records += leaf.records();
        }
        self.adopted += count as u64;
        if self.rules.filters == FilterSource::Rehashed {
            self.rehash(count, output)?;
        }
        self.pass(count)?;
        Ok(count)
    }
}
