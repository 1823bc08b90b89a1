//! Merges several runs, or key ranges of runs, into one new run. The merge folds each key's
//! messages and applies range deletes.

use super::gather::{MergeOutput, ValueGathering};
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

/// Maximum length in bytes of a separate value that a merge copies in order to free a sparsely used
/// extent.
const LONGEST_COPIED: u32 = 8 << 20;
const _: () = assert!(
    LONGEST_COPIED as u64 > UNIT,
    "what is not copied fills extents by itself"
);

/// An input of a merge: a run and the key range in which the run's data is live.
#[derive(Clone, Debug)]
pub(crate) struct RunSource {
    pub(crate) run: IndexedRun,
    pub(crate) range: KeyRange,
}

/// The parameters of a merge of runs.
pub(crate) struct RunMergePlan<'a> {
    pub(crate) rule: FoldRule,
    pub(crate) schema: &'a Arc<dyn KeyspaceSchema>,
    pub(crate) asks_filters: bool,
    /// Extents with little live data, sorted. The merge copies values out of these extents, so that
    /// they can be freed.
    pub(crate) sparse: Vec<Extent>,
    /// Whether a merge that copies a record also copies its separate value.
    pub(crate) moves_values: bool,
    /// The range deletes of the inputs, if these are layers of an ingest. The new run then contains
    /// no range deletes, all its records have the sequence number 0, and each key has one record.
    /// See [`RunMerger::take_surplus`].
    pub(crate) layer_deletes: Option<Arc<RangeTombstoneIndex>>,
    /// Whether the merge brings scattered values of keyspaces together whose rules ask for it.
    pub(crate) gathering: ValueGathering,
}

/// An input of a merge, positioned at a record or before an unread leaf.
pub(crate) trait RunMergeInput: merge::SortedSource<Error = Error> {
    fn record(&self) -> StoredRecord<'_>;

    /// Returns whether a repair has excluded the current record's separate value, in which case the
    /// merge drops the record.
    fn omits_value(&self, value: &ValuePointer) -> bool;

    /// Returns whether the input is positioned before an unread leaf. Its current key is then only
    /// a lower bound of the leaf's keys.
    #[inline]
    fn is_unread(&self) -> bool {
        false
    }

    /// Predicts how many consecutive leaves the input `winner` will have to read. The input must be
    /// positioned before an unread leaf. Returns `None` if no prediction is possible.
    fn foresee(_sources: &[Self], _winner: usize) -> Option<usize>
    where
        Self: Sized,
    {
        None
    }

    /// Reads the next leaf, and possibly some of the leaves after it. If `foreseen` is given, it is
    /// the predicted total number of leaves to read. Leaves whose records are all deleted are
    /// dropped instead.
    fn enter(&mut self, _foreseen: Option<usize>) -> Result<()> {
        Ok(())
    }

    /// Makes `output` adopt unread leaves that end at or before `bound`, and moves the input past
    /// them. Returns the number of adopted leaves.
    fn stitch(&mut self, _bound: Option<&[u8]>, _output: &mut MergeOutput) -> Result<usize> {
        Ok(0)
    }

    /// Counts the leaves that the input has passed so far without reading them.
    fn unread_leaves(&self) -> UnreadLeaves {
        UnreadLeaves::default()
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

/// How much input a merge has consumed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputCounts {
    pub(crate) records: u64,
    /// The leaves that were not read.
    pub(crate) unread: UnreadLeaves,
    /// Bytes of separate values that were written again, because they were scattered.
    pub(crate) gathered_bytes: u64,
}

/// Numbers of leaves that a merge has consumed without reading them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnreadLeaves {
    /// Leaves that were adopted from the inputs instead of being copied.
    pub(crate) adopted: u64,
    /// Leaves whose records are all deleted by range deletes.
    pub(crate) dropped: u64,
}

pub(crate) struct RunMerger<S: RunMergeInput = RunRecordCursor> {
    store: Arc<Store>,
    merged: MergingIter<S>,
    /// All range deletes of the inputs. If the merge drops none of them, the builder shares this
    /// index.
    deletes: Arc<RangeTombstoneIndex>,
    rule: FoldRule,
    keyspace: KeyspaceCursor,
    asks_filters: bool,
    sparse: Vec<Extent>,
    moves_values: bool,
    copied: Vec<u8>,
    output: MergeOutput,
    purpose: Purpose,
    key: Vec<u8>,
    messages: KeyMessages,
    taken: InputCounts,
    /// Whether the inputs are layers of an ingest.
    are_layers: bool,
    surplus: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<S: RunMergeInput> fmt::Debug for RunMerger<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunMerger")
            .field("rule", &self.rule)
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

/// The messages for one key, from newest to oldest. Their operands are stored one after another in
/// a single buffer.
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

    /// Adds a message for the current key. The caller must add a key's messages from newest to
    /// oldest.
    pub(crate) fn push(&mut self, record: &StoredRecord<'_>) {
        let from = self.bytes.len();
        let separate = match record.value {
            RecordValue::Inline(bytes) => {
                self.bytes.extend_from_slice(bytes);
                None
            }
            RecordValue::Separate(pointer) => Some(pointer),
        };
        // A timed delete without operands leaves the value below it as it is.
        let is_delete_alone = record.kind == MessageKind::TimedDelete && record.value.is_empty();
        self.merges |= record.kind.needs_older() && !is_delete_alone;
        self.entries.push(KeyMessage {
            sequence: record.sequence,
            kind: record.kind,
            expires_ms: record.expires_ms,
            from,
            to: self.bytes.len(),
            separate,
        });
    }

    /// If the key has a merge message, reads every separate operand into memory, because folding
    /// may combine the operands.
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

    /// Reads the newest value at or below the horizon into memory, because a compaction filter may
    /// examine it. The message also keeps the pointer to the separate value, so that the value need
    /// not be rewritten.
    fn load_newest(&mut self, store: &Store, purpose: Purpose, horizon: SequenceNumber) -> Result<()> {
        debug_assert!(
            self.entries
                .iter()
                .all(|entry| entry.from <= entry.to && entry.to <= self.bytes.len()),
            "messages lie in the bytes"
        );
        // Timed deletes above the value leave it as it is.
        let is_read = |entry: &&mut KeyMessage| entry.sequence <= horizon && !entry.kind.needs_older();
        let newest = self.entries.iter_mut().find(is_read);
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

    /// Folds the key's messages, and calls `emit` for each message that remains.
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
            // A value that is already stored separately is not copied. The new record points to it
            // instead.
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
    /// Creates a merge of `sources`, which must be in order from newest to oldest.
    pub(crate) fn new(
        store: &Arc<Store>,
        sources: Vec<RunSource>,
        plan: RunMergePlan<'_>,
        options: &RunOptions,
    ) -> Result<RunMerger> {
        RunMerger::over(store, sources, plan, options, |sources, _| {
            let mut cursors = Vec::with_capacity(sources.len());
            for source in sources {
                let (direction, access) = (MergeDirection::Forward, CursorAccess::Replacing);
                cursors.push(source.run.cursor(store, source.range, direction, access));
            }
            // Submit the first reads of all cursors before waiting for any of them.
            run::open_many(&mut cursors, None)?;
            Ok(cursors)
        })
    }
}

impl<S: RunMergeInput> RunMerger<S> {
    /// Like [`RunMerger::new`], but for inputs of another type. Calls `open` to create them from
    /// the sources that are not completely deleted and the range deletes that apply to these
    /// sources.
    pub(crate) fn over(
        store: &Arc<Store>,
        mut sources: Vec<RunSource>,
        plan: RunMergePlan<'_>,
        options: &RunOptions,
        open: impl FnOnce(Vec<RunSource>, &Arc<RangeTombstoneIndex>) -> Result<Vec<S>>,
    ) -> Result<RunMerger<S>> {
        let rule = plan.rule.clone();
        drop_deleted(&mut sources, &rule);
        let deletes = sources
            .iter()
            .map(|source| (source.run.range_deletes(), &source.range));
        let mut deletes = RangeTombstoneBuilder::merged(&deletes.collect::<Vec<_>>());
        deletes.fold(&[rule.horizon]);
        let mut deletes = Arc::new(deletes.finish());
        let mut builder = RunBuilder::new(store, options)?;
        // If no older data exists outside of the merge, a range delete that every reader can see
        // has nothing left to delete and is dropped (G4).
        let remains = |sequence| rule.older == OlderData::Elsewhere || sequence > rule.horizon;
        builder.delete_ranges(match deletes.sequences().all(remains) {
            true => Arc::clone(&deletes),
            false => Arc::new(deletes.newer(rule.horizon)),
        });
        let are_layers = plan.layer_deletes.is_some();
        if let Some(of_layers) = plan.layer_deletes {
            assert!(
                deletes.is_empty(),
                "the runs of layers have no range deletes yet (Y3)"
            );
            deletes = of_layers;
        }
        for source in &sources {
            builder.inherit_from(&source.run, &source.range);
        }
        let inputs = open(sources, &deletes)?;
        let taken = InputCounts {
            unread: count_unread(&inputs),
            ..InputCounts::default()
        };
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
            output: MergeOutput::new(store, builder, options.purpose, plan.gathering),
            purpose: options.purpose,
            key: Vec::new(),
            messages: KeyMessages::default(),
            taken,
            are_layers,
            surplus: Vec::new(),
        })
    }

    /// Merges the messages of whole keys until at least `records` further records are consumed, or
    /// all inputs are exhausted. A leaf that is adopted, or dropped unread, counts as one record.
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

    /// Removes and returns the merge operands that could not be folded into the record of their
    /// key. There is at most one operand per key, and they are in ascending key order. Only a merge
    /// of layers has such operands.
    pub(crate) fn take_surplus(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::mem::take(&mut self.surplus)
    }

    /// Returns a lower bound of the keys that are left to consume, or `None` if there are none.
    pub(crate) fn next_key(&self) -> Option<&[u8]> {
        self.merged.key()
    }

    /// Returns the number of keys in the new run that do not belong to adopted leaves.
    pub(crate) fn copied_keys(&self) -> usize {
        self.output.copied_keys()
    }

    /// Returns the amount of work done so far: the number of consumed records plus the number of
    /// unread leaves.
    fn done(&self) -> u64 {
        let UnreadLeaves { adopted, dropped } = self.taken.unread;
        self.taken.records + adopted + dropped
    }

    /// Makes progress when the input with the smallest key is positioned before an unread leaf.
    /// Adopts as many leaves as possible or, if none can be adopted, reads the leaf.
    #[cold]
    fn pass_unread(&mut self, winner: usize) -> Result<()> {
        let output = &mut self.output;
        let leaves = self.merged.gallop(|input, bound| input.stitch(bound, output))?;
        if leaves == 0 {
            return self.enter(winner);
        }
        self.taken.unread = count_unread(self.merged.sources());
        Ok(())
    }

    /// Makes the input `winner` read its next leaf.
    fn enter(&mut self, winner: usize) -> Result<()> {
        let foreseen = S::foresee(self.merged.sources(), winner);
        self.merged.advance_by(|input| input.enter(foreseen))?;
        self.taken.unread = count_unread(self.merged.sources());
        Ok(())
    }

    /// Returns the inputs, in the order in which their sources were passed to the constructor.
    pub(crate) fn inputs(&self) -> &[S] {
        self.merged.sources()
    }

    fn fold(&mut self) -> Result<()> {
        let (deletes, newest) = (&self.deletes, &self.key);
        let deleted = |reader| deletes.covering(newest, reader).filter(|_| !deletes.is_empty());
        if let Some(rules) = self.keyspace.enter(&self.key) {
            self.output.begin_keyspace(rules)?;
        }
        let rules = self.keyspace.rules();
        let mut folder = MessageFolder::new(&self.rule, rules.operator.as_deref());
        let filter = rules.filter.as_deref().filter(|_| self.asks_filters);
        if let Some(filter) = filter {
            folder = folder.filtered(filter, self.keyspace.user_key(&self.key));
            self.messages
                .load_newest(&self.store, self.purpose, self.rule.horizon)?;
        }
        let (key, output, store, purpose) = (&self.key, &mut self.output, &self.store, self.purpose);
        let (sparse, moves, copied) = (&self.sparse, self.moves_values, &mut self.copied);
        if self.are_layers {
            return fold_layers(
                &mut self.messages,
                store,
                purpose,
                &mut folder,
                deleted,
                |record, is_surplus| {
                    match (record.value, is_surplus) {
                        (RecordValue::Inline(operand), true) => {
                            self.surplus.push((key.clone(), operand.to_vec()));
                        }
                        (RecordValue::Separate(_), true) => {
                            unreachable!("operands are read before they are folded")
                        }
                        (_, false) => output.push(key, record)?,
                    }
                    Ok(())
                },
            );
        }
        self.messages
            .fold(store, purpose, &mut folder, deleted, |record| {
                match record.value {
                    RecordValue::Separate(pointer) if is_copied(sparse, moves, &pointer) => {
                        let guard = store.epochs().pin();
                        value_log::read_value(store.cache(), &guard, &pointer, purpose, copied)?;
                        let value = RecordValue::Inline(copied);
                        output.push(key, StoredRecord { value, ..record })
                    }
                    _ => output.push(key, record),
                }
            })
    }

    /// Completes the new run. Returns the run and the amount of input consumed. The run is `None`
    /// if no records or range deletes remain.
    pub(crate) fn finish(self) -> Result<(Option<BuiltRun>, InputCounts)> {
        let RunMerger {
            output,
            mut taken,
            merged,
            ..
        } = self;
        // Free the read-ahead buffers before the run is completed.
        drop(merged);
        let (built, gathered_bytes) = output.finish()?;
        taken.gathered_bytes = gathered_bytes;
        Ok((built, taken))
    }
}

/// Folds a key's messages from layers of an ingest. No reader can tell the layers apart, so at most
/// two messages remain: the key's record and, above it, an operand that cannot be folded into it.
/// `emit` receives them with the sequence number 0 and a flag that tells whether the message is the
/// operand.
fn fold_layers(
    messages: &mut KeyMessages,
    store: &Store,
    purpose: Purpose,
    folder: &mut MessageFolder<'_>,
    deleted: impl Fn(SequenceNumber) -> Option<SequenceNumber>,
    mut emit: impl FnMut(StoredRecord<'_>, bool) -> Result<()>,
) -> Result<()> {
    // Hold a merge operand or timed delete back until it is known whether a record follows. An
    // operand without one is itself the record of the key.
    let mut operand: Option<(StoredRecord<'_>, Vec<u8>)> = None;
    messages.fold(store, purpose, folder, deleted, |record| {
        let record = StoredRecord {
            sequence: 0,
            ..record
        };
        match record.value {
            RecordValue::Inline(bytes) if record.kind.needs_older() && operand.is_none() => {
                let value = RecordValue::Inline(&[]);
                operand = Some((StoredRecord { value, ..record }, bytes.to_vec()));
                Ok(())
            }
            _ => {
                if let Some(operand) = operand.take() {
                    emit(with_operand(&operand), true)?;
                }
                emit(record, false)
            }
        }
    })?;
    match operand {
        Some(operand) => emit(with_operand(&operand), false),
        None => Ok(()),
    }
}

/// Returns a record that was held back, with its operand.
fn with_operand<'o>((record, operand): &'o (StoredRecord<'_>, Vec<u8>)) -> StoredRecord<'o> {
    StoredRecord {
        value: RecordValue::Inline(operand),
        ..*record
    }
}

/// Returns the total numbers of leaves that the inputs have passed without reading them.
fn count_unread<S: RunMergeInput>(inputs: &[S]) -> UnreadLeaves {
    let counts = inputs.iter().map(S::unread_leaves);
    counts.fold(UnreadLeaves::default(), |sum, of| UnreadLeaves {
        adopted: sum.adopted + of.adopted,
        dropped: sum.dropped + of.dropped,
    })
}

/// Returns whether the merge copies a separate value instead of keeping the pointer to it. It does
/// so if it moves all values, or if the value is in a sparsely used extent, which can then be
/// freed. It never copies a very long value, because such a value has most of its extents to
/// itself.
fn is_copied(sparse: &[Extent], moves_values: bool, pointer: &ValuePointer) -> bool {
    pointer.len <= LONGEST_COPIED && (moves_values || lies_in(sparse, &pointer.node))
}

/// Returns whether a node is in one of `extents`, which must be sorted.
pub(crate) fn lies_in(extents: &[Extent], node: &NodePointer) -> bool {
    unit_lies_in(extents, (node.tier, node.offset / UNIT))
}

/// Returns whether an allocation unit of a tier belongs to one of `extents`, which must be sorted.
pub(crate) fn unit_lies_in(extents: &[Extent], (tier, unit): (u8, u64)) -> bool {
    let behind = |extent: &Extent| (extent.tier, u64::from(extent.start)) <= (tier, unit);
    debug_assert!(extents.is_sorted(), "extents by their places");
    let before = &extents[..extents.partition_point(behind)];
    let holds = |extent: &Extent| extent.tier == tier && unit < u64::from(extent.end());
    before.last().is_some_and(holds)
}

/// Removes each source whose data is completely deleted, for every reader, by range deletes of
/// newer sources. Such a source need not be read.
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
