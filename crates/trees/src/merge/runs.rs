//! Merges several runs, or parts of them, into one: folds the messages of every key, and applies
//! range deletes.

use crate::run::{self, BuiltRun, CursorAccess, IndexedRun, RunBuilder, RunOptions, RunRecordCursor};
use alluvium_base::{Message, MessageKind, Purpose, SequenceNumber};
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::merge::{
    self, FoldRule, FoldedMessage, MergeDirection, MergingIter, MessageFolder, OlderData,
};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::range_tombstones::{RangeTombstoneBuilder, RangeTombstoneIndex};
use alluvium_dictionary::record::{RecordValue, StoredRecord};
use alluvium_dictionary::rules::{KeyspaceCursor, KeyspaceSchema};
use alluvium_dictionary::value_log::{self, ValuePointer};
use alluvium_storage::extents::{Extent, UNIT};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, Result};
use std::fmt;
use std::sync::Arc;

/// Maximum length of a value that is copied out of a sparsely used extent.
const LONGEST_COPIED: u32 = 8 << 20;
const _: () = assert!(
    LONGEST_COPIED as u64 > UNIT,
    "what is not copied fills extents by itself"
);

/// A run, and the range in which it counts.
#[derive(Clone, Debug)]
pub(crate) struct RunSource {
    pub(crate) run: IndexedRun,
    pub(crate) range: KeyRange,
}

/// The parameters of a merge.
pub(crate) struct RunMergePlan<'a> {
    pub(crate) rule: FoldRule,
    pub(crate) schema: &'a Arc<dyn KeyspaceSchema>,
    pub(crate) asks_filters: bool,
    /// Sorted, sparsely used extents whose values are copied.
    pub(crate) sparse: Vec<Extent>,
    /// Whether values are always copied with their records.
    pub(crate) moves_values: bool,
}

/// An input of a merge.
pub(crate) trait RunMergeInput: merge::SortedSource<Error = Error> {
    fn record(&self) -> StoredRecord<'_>;

    /// Returns whether a repair omits this value of the current record, and the record with it.
    fn omits_value(&self, value: &ValuePointer) -> bool;

    /// Returns whether the input is before an unread leaf. Its key is then only a lower bound.
    #[inline]
    fn is_unread(&self) -> bool {
        false
    }

    /// Returns the predicted number of consecutive leaves that the `winner`, which is before an
    /// unread leaf, will read. `None` if unknown.
    fn foresee(_sources: &[Self], _winner: usize) -> Option<usize>
    where
        Self: Sized,
    {
        None
    }

    /// Reads the leaf, together with following ones, `foreseen` leaves in total if that is known.
    fn enter(&mut self, _foreseen: Option<usize>) -> Result<()> {
        Ok(())
    }

    /// Passes unread leaves that do not reach `bound` to a builder for adoption. Returns their
    /// number.
    fn stitch(&mut self, _bound: Option<&[u8]>, _builder: &mut RunBuilder) -> Result<usize> {
        Ok(0)
    }
}

impl RunMergeInput for RunRecordCursor {
    #[inline]
    fn record(&self) -> StoredRecord<'_> {
        RunRecordCursor::record(self)
    }

    #[inline]
    fn omits_value(&self, value: &ValuePointer) -> bool {
        RunRecordCursor::omits_value(self, value)
    }
}

/// Input that a merge has consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputCounts {
    pub(crate) records: u64,
    /// Leaves adopted from the inputs instead of copied.
    pub(crate) leaves: u64,
}

pub(crate) struct RunMerger<S: RunMergeInput = RunRecordCursor> {
    store: Arc<Store>,
    merged: MergingIter<S>,
    /// Shared with the builder if all of them remain.
    deletes: Arc<RangeTombstoneIndex>,
    rule: FoldRule,
    keyspace: KeyspaceCursor,
    asks_filters: bool,
    sparse: Vec<Extent>,
    moves_values: bool,
    copied: Vec<u8>,
    builder: RunBuilder,
    purpose: Purpose,
    key: Vec<u8>,
    messages: KeyMessages,
    taken: InputCounts,
}

impl<S: RunMergeInput> fmt::Debug for RunMerger<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fused")
            .field("rule", &self.rule)
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

/// The messages of one key, newest first, with concatenated operands.
#[derive(Debug, Default)]
pub(crate) struct KeyMessages {
    bytes: Vec<u8>,
    entries: Vec<KeyMessage>,
    merges: bool,
}

#[derive(Clone, Copy, Debug)]
struct KeyMessage {
    sequence: SequenceNumber,
    kind: MessageKind,
    expires_ms: u64,
    from: usize,
    to: usize,
    separate: Option<ValuePointer>,
}

impl KeyMessages {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.merges = false;
    }

    /// Adds a message of the same key; messages are added from the newest to the oldest.
    pub(crate) fn push(&mut self, record: &StoredRecord<'_>) {
        let from = self.bytes.len();
        let separate = match record.value {
            RecordValue::Inline(bytes) => {
                self.bytes.extend_from_slice(bytes);
                None
            }
            RecordValue::Separate(pointer) => Some(pointer),
        };
        self.merges |= record.kind == MessageKind::Merge;
        self.entries.push(KeyMessage {
            sequence: record.sequence,
            kind: record.kind,
            expires_ms: record.expires_ms,
            from,
            to: self.bytes.len(),
            separate,
        });
    }

    /// Loads every separate operand if folding may need them.
    fn load(&mut self, store: &Store, purpose: Purpose) -> Result<()> {
        if !self.merges {
            return Ok(());
        }
        let guard = store.epochs().pin();
        let mut value = Vec::new();
        for entry in &mut self.entries {
            if let Some(pointer) = entry.separate.take() {
                value_log::read_value(store.cache(), &guard, &pointer, purpose, &mut value)?;
                entry.from = self.bytes.len();
                self.bytes.extend_from_slice(&value);
                entry.to = self.bytes.len();
            }
        }
        Ok(())
    }

    /// Loads the newest value at or below the horizon, which a filter may examine. Its location is
    /// kept.
    fn load_newest(&mut self, store: &Store, purpose: Purpose, horizon: SequenceNumber) -> Result<()> {
        debug_assert!(
            self.entries
                .iter()
                .all(|entry| entry.from <= entry.to && entry.to <= self.bytes.len()),
            "messages lie in the bytes"
        );
        let newest = self.entries.iter_mut().find(|entry| entry.sequence <= horizon);
        if let Some(entry) = newest
            && let Some(pointer) = &entry.separate
        {
            let mut value = Vec::new();
            value_log::read_value(store.cache(), &store.epochs().pin(), pointer, purpose, &mut value)?;
            entry.from = self.bytes.len();
            self.bytes.extend_from_slice(&value);
            entry.to = self.bytes.len();
        }
        Ok(())
    }

    /// Folds the messages, and calls `emit` with those that remain.
    pub(crate) fn fold(
        &mut self,
        store: &Store,
        purpose: Purpose,
        folder: &mut MessageFolder<'_>,
        deleted: impl Fn(SequenceNumber) -> Option<SequenceNumber>,
        mut emit: impl FnMut(StoredRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        self.load(store, purpose)?;
        let (bytes, entries) = (&self.bytes, &self.entries);
        let messages = entries.iter().map(|entry| Message {
            sequence: entry.sequence,
            kind: entry.kind,
            expires_ms: entry.expires_ms,
            operand: &bytes[entry.from..entry.to],
        });
        let mut result = Ok(());
        folder.fold(messages, deleted, |folded: FoldedMessage<'_>| {
            // A separate value stays where it is.
            let separate = folded.number.and_then(|number| entries.get(number)?.separate);
            let value = match separate {
                Some(pointer) => RecordValue::Separate(pointer),
                None => RecordValue::Inline(folded.operand),
            };
            if result.is_ok() {
                result = emit(StoredRecord {
                    sequence: folded.sequence,
                    kind: folded.kind,
                    expires_ms: folded.expires_ms,
                    value,
                });
            }
        });
        result
    }
}

impl RunMerger {
    /// Opens the sources, newest first.
    pub(crate) fn new(
        store: &Arc<Store>,
        sources: Vec<RunSource>,
        plan: RunMergePlan<'_>,
        options: &RunOptions,
    ) -> Result<RunMerger> {
        RunMerger::over(store, sources, plan, options, |sources| {
            let mut cursors = Vec::with_capacity(sources.len());
            for source in sources {
                let (direction, access) = (MergeDirection::Forward, CursorAccess::Replacing);
                cursors.push(source.run.cursor(store, source.range, direction, access));
            }
            // The first reads of all cursors are submitted before waiting for any of them.
            run::open_many(&mut cursors, None)?;
            Ok(cursors)
        })
    }
}

impl<S: RunMergeInput> RunMerger<S> {
    /// Like [`RunMerger::new`], over the inputs that `open` creates for the remaining sources.
    pub(crate) fn over(
        store: &Arc<Store>,
        mut sources: Vec<RunSource>,
        plan: RunMergePlan<'_>,
        options: &RunOptions,
        open: impl FnOnce(Vec<RunSource>) -> Result<Vec<S>>,
    ) -> Result<RunMerger<S>> {
        let rule = plan.rule.clone();
        drop_deleted(&mut sources, &rule);
        let deletes = sources
            .iter()
            .map(|source| (source.run.range_deletes(), &source.range));
        let mut deletes = RangeTombstoneBuilder::merged(&deletes.collect::<Vec<_>>());
        deletes.fold(&[rule.horizon]);
        let deletes = Arc::new(deletes.finish());
        let mut builder = RunBuilder::new(store, options)?;
        // If there is nothing older, a delete that every reader sees can be dropped (G4).
        let remains = |sequence| rule.older == OlderData::Elsewhere || sequence > rule.horizon;
        builder.delete_ranges(match deletes.sequences().all(remains) {
            true => Arc::clone(&deletes),
            false => Arc::new(deletes.newer(rule.horizon)),
        });
        for source in &sources {
            builder.inherit_from(&source.run, &source.range);
        }
        let inputs = open(sources)?;
        Ok(RunMerger {
            store: Arc::clone(store),
            merged: MergingIter::new(inputs, MergeDirection::Forward),
            deletes,
            rule,
            keyspace: KeyspaceCursor::new(plan.schema),
            asks_filters: plan.asks_filters,
            sparse: plan.sparse,
            moves_values: plan.moves_values,
            copied: Vec::new(),
            builder,
            purpose: options.purpose,
            key: Vec::new(),
            messages: KeyMessages::default(),
            taken: InputCounts::default(),
        })
    }

    /// Merges whole keys until at least `records` more records are consumed or the inputs end.
    pub(crate) fn step(&mut self, records: usize) -> Result<StepProgress> {
        let stop = self.done().saturating_add(records as u64);
        while let Some(winner) = self.merged.winner() {
            if self.done() >= stop {
                return Ok(StepProgress::More);
            }
            if self.merged.source(winner).is_unread() {
                self.pass_unread(winner)?;
                continue;
            }
            let key = self.merged.key().expect("a winner stands at a key");
            self.key.clear();
            self.key.extend_from_slice(key);
            self.messages.clear();
            while let Some(winner) = self.merged.winner() {
                let source = self.merged.source(winner);
                if source.key() != Some(&self.key[..]) {
                    break;
                }
                if source.is_unread() {
                    self.enter(winner)?;
                    continue;
                }
                let record = source.record();
                let is_left_out = match &record.value {
                    RecordValue::Separate(value) => source.omits_value(value),
                    RecordValue::Inline(_) => false,
                };
                if !is_left_out {
                    self.messages.push(&record);
                }
                self.taken.records += 1;
                self.merged.advance()?;
            }
            debug_assert!(self.merged.key() != Some(&self.key[..]), "a key is folded once");
            self.fold()?;
        }
        Ok(StepProgress::Done)
    }

    /// Returns the amount of work done so far.
    fn done(&self) -> u64 {
        self.taken.records + self.taken.leaves
    }

    /// Handles a winner before an unread leaf: adopts leaves, or reads them.
    #[cold]
    fn pass_unread(&mut self, winner: usize) -> Result<()> {
        let builder = &mut self.builder;
        let leaves = self.merged.gallop(|input, bound| input.stitch(bound, builder))?;
        self.taken.leaves += leaves as u64;
        if leaves == 0 {
            self.enter(winner)?;
        }
        Ok(())
    }

    /// Makes the winner read the next leaf.
    fn enter(&mut self, winner: usize) -> Result<()> {
        let foreseen = S::foresee(self.merged.sources(), winner);
        self.merged.advance_by(|input| input.enter(foreseen))
    }

    /// Returns the inputs in the order of the sources.
    pub(crate) fn inputs(&self) -> &[S] {
        self.merged.sources()
    }

    fn fold(&mut self) -> Result<()> {
        let (deletes, newest) = (&self.deletes, &self.key);
        let deleted = |reader| deletes.covering(newest, reader).filter(|_| !deletes.is_empty());
        if let Some(rules) = self.keyspace.enter(&self.key) {
            self.builder.begin_keyspace(rules.codec, rules.value_threshold)?;
        }
        let rules = self.keyspace.rules();
        let mut folder = MessageFolder::new(&self.rule, rules.operator.as_deref());
        let filter = rules.filter.as_deref().filter(|_| self.asks_filters);
        if let Some(filter) = filter {
            folder = folder.filtered(filter, self.keyspace.user_key(&self.key));
            self.messages
                .load_newest(&self.store, self.purpose, self.rule.horizon)?;
        }
        let (key, builder, store, purpose) = (&self.key, &mut self.builder, &self.store, self.purpose);
        let (sparse, moves, copied) = (&self.sparse, self.moves_values, &mut self.copied);
        self.messages
            .fold(store, purpose, &mut folder, deleted, |record| {
                match record.value {
                    RecordValue::Separate(pointer) if is_copied(sparse, moves, &pointer) => {
                        let guard = store.epochs().pin();
                        value_log::read_value(store.cache(), &guard, &pointer, purpose, copied)?;
                        let value = RecordValue::Inline(copied);
                        builder.push(key, StoredRecord { value, ..record })
                    }
                    _ => builder.push(key, record),
                }
            })
    }

    /// Completes the run. `None` if no record remains.
    pub(crate) fn finish(self) -> Result<(Option<BuiltRun>, InputCounts)> {
        let RunMerger {
            builder,
            taken,
            merged,
            ..
        } = self;
        // Frees the read-ahead buffers before the run is completed.
        drop(merged);
        Ok((builder.finish()?, taken))
    }
}

/// Returns whether a value is copied instead of passed on: because all values are, or to free its
/// extent, which is sparsely used. Longer values are never copied, because each fills most of its
/// extents by itself.
fn is_copied(sparse: &[Extent], moves_values: bool, pointer: &ValuePointer) -> bool {
    pointer.len <= LONGEST_COPIED && (moves_values || lies_in(sparse, &pointer.node))
}

/// Returns whether a node lies in one of these extents, which must be sorted.
pub(crate) fn lies_in(extents: &[Extent], node: &NodePointer) -> bool {
    unit_lies_in(extents, (node.tier, node.offset / UNIT))
}

/// Returns whether a unit of a tier lies in one of these extents, which must be sorted.
pub(crate) fn unit_lies_in(extents: &[Extent], (tier, unit): (u8, u64)) -> bool {
    let behind = |extent: &Extent| (extent.tier, u64::from(extent.start)) <= (tier, unit);
    debug_assert!(extents.is_sorted(), "extents by their places");
    let before = &extents[..extents.partition_point(behind)];
    let holds = |extent: &Extent| extent.tier == tier && unit < u64::from(extent.end());
    before.last().is_some_and(holds)
}

/// Removes the sources that a newer one deletes completely for every reader, so that they need not
/// be read.
fn drop_deleted(sources: &mut Vec<RunSource>, rule: &FoldRule) {
    let mut newer: Vec<RunSource> = Vec::new();
    sources.retain(|source| {
        let low = source.run.low().max(&source.range.low);
        let covered = newer.iter().any(|newer| {
            let deletes = newer.run.range_deletes();
            newer.range.covers(&source.range)
                && deletes.cover(low, source.run.high(), &source.range, rule.horizon)
        });
        if !covered && !source.run.range_deletes().is_empty() {
            newer.push(source.clone());
        }
        !covered
    });
}
