//! Merges adjacent layers of an ingest into one layer. The records of all inputs are read in the
//! order of their hashes, and the messages of each key are folded.

use super::rules::RulesCache;
use super::run::{HashRecordBuffer, HashRunBuilder, HashRunCursor, RunMessage, RunOptions, WrittenHashRun};
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{MessageKind, Purpose};
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::merge::{FoldRule, MessageFolder, OlderData};
use alluvium_dictionary::placement::{self, PlacementRequest};
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_dictionary::versioned::{LayerGroup, LayerMerge, MergedLayers};
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;
use std::sync::Arc;

/// A run of the result ends after this number of records. It bounds the memory for their hashes to
/// about 16 MiB.
const MOST_RECORDS: u64 = 8 << 20;

/// Estimated memory in bytes of the read buffers of an input run, and of the write buffers of the
/// result.
const BUFFERS: u64 = 512 << 10;

/// A merge of layers, in progress.
#[derive(Debug)]
pub struct HashLayerMerge {
    store: Arc<Store>,
    options: RunOptions,
    rules: RulesCache,
    rule: FoldRule,
    group: LayerGroup<WrittenHashRun>,
    /// Number of records in all inputs.
    records: u64,
    /// `None` until the first slice opens the inputs.
    inputs: Option<MergeInputs>,
    /// The run that is being written, and the run of operands that could not be folded into the
    /// messages of their keys.
    messages: OutputRun,
    operands: OutputRun,
    /// Buffer for the records with the current hash.
    same_hash: HashRecordBuffer,
}

/// Cursors over the input runs. `heads` has the next hash of each cursor and its index.
#[derive(Debug)]
struct MergeInputs {
    cursors: Vec<HashRunCursor>,
    heads: BinaryHeap<Reverse<(u64, usize)>>,
}

/// The runs of one layer of the result.
#[derive(Debug, Default)]
struct OutputRun {
    builder: Option<HashRunBuilder>,
    written: Vec<WrittenHashRun>,
}

impl OutputRun {
    fn push(
        &mut self,
        begin: impl FnOnce() -> Result<HashRunBuilder>,
        (hash, key): (u64, &[u8]),
        message: RunMessage<'_>,
        rules: &mut RulesCache,
    ) -> Result<()> {
        let builder = match &mut self.builder {
            Some(builder) => builder,
            none => none.insert(begin()?),
        };
        builder.push(hash, key, message, &rules.of(key))
    }

    /// Completes the current run if it has at least `least` records.
    fn end_run(&mut self, least: u64) -> Result<()> {
        if let Some(builder) = self.builder.take_if(|builder| builder.records() >= least) {
            self.written.extend(builder.finish()?);
        }
        Ok(())
    }
}

impl MergeInputs {
    fn open(store: &Arc<Store>, group: &LayerGroup<WrittenHashRun>) -> Result<MergeInputs> {
        let all = group.layers.iter().flat_map(|(number, runs)| {
            let newest_first = runs.iter().rev();
            newest_first.map(move |run| run.run().clone().based(*number))
        });
        let runs: Vec<_> = all.collect();
        let (count, hashes) = (runs.len(), (0, u64::MAX));
        let mut cursors = Vec::with_capacity(count);
        for run in runs {
            cursors.push(HashRunCursor::open_among(
                count,
                store,
                run,
                hashes,
                Purpose::Compact,
            )?);
        }
        let heads = cursors.iter().enumerate();
        let heads = heads.filter_map(|(number, cursor)| Some(Reverse((cursor.hash()?, number))));
        Ok(MergeInputs {
            heads: heads.collect(),
            cursors,
        })
    }

    /// Moves the records with the next hash into `group`, newest first. Returns that hash, or
    /// `None` if all inputs are exhausted.
    fn take_into(&mut self, group: &mut HashRecordBuffer) -> Result<Option<u64>> {
        group.clear();
        let Some(&Reverse((hash, _))) = self.heads.peek() else {
            return Ok(None);
        };
        while let Some(mut head) = self.heads.peek_mut()
            && head.0.0 == hash
        {
            let cursor = &mut self.cursors[head.0.1];
            while cursor.hash() == Some(hash) {
                cursor.take_into(group)?;
            }
            match cursor.hash() {
                Some(next) => head.0.0 = next,
                None => drop(PeekMut::pop(head)),
            }
        }
        // The records of newer layers are before those of older ones. A stable sort by key
        // therefore leaves the messages of each key newest first.
        if group.count() > 1 {
            group.sort_by_key();
        }
        Ok(Some(hash))
    }
}

impl HashLayerMerge {
    pub(super) fn new(
        store: &Arc<Store>,
        schema: &Arc<dyn KeyspaceSchema>,
        options: RunOptions,
        group: LayerGroup<WrittenHashRun>,
    ) -> HashLayerMerge {
        let runs = || group.layers.iter().flat_map(|(_, runs)| runs);
        let bytes = runs().map(|run| run.run().device_bytes()).sum();
        let records = runs().map(|run| run.run().records()).sum();
        HashLayerMerge {
            store: Arc::clone(store),
            options: RunOptions {
                purpose: Purpose::Compact,
                tier: placement::tier(store, &PlacementRequest::older(0, bytes)),
                ..options
            },
            rules: RulesCache::new(schema),
            rule: FoldRule {
                horizon: MAX_SEQUENCE,
                readers: Arc::default(),
                older: OlderData::Elsewhere,
                // Values expire only by the clock of the store, after the ingest is attached.
                now_ms: 0,
            },
            group,
            records,
            inputs: None,
            messages: OutputRun::default(),
            operands: OutputRun::default(),
            same_hash: HashRecordBuffer::default(),
        }
    }

    /// Folds the messages about one key, which are the records `numbers` of `group`, and writes the
    /// messages that remain: at most one record of the key, and one operand above it.
    fn fold(&mut self, hash: u64, group: &HashRecordBuffer, numbers: Range<usize>) -> Result<()> {
        let Some(record) = group.get(numbers.start) else {
            return Ok(());
        };
        let key = record.key;
        let rules = self.rules.of(key);
        let mut folder = MessageFolder::new(&self.rule, rules.operator.as_deref());
        let deletes = &self.group.deletes;
        let deleted = |at| deletes.covering(key, at).filter(|_| !deletes.is_empty());
        let mut left: Vec<(MessageKind, u64, Vec<u8>)> = Vec::new();
        folder.fold(group.messages(numbers), deleted, |folded| {
            left.push((folded.kind, folded.expires_ms, folded.operand.to_vec()));
        });
        assert!(
            left.len() <= 2,
            "the layers look like one commit, so little remains of a key"
        );
        let count = left.len();
        let most = self.records.min(MOST_RECORDS);
        for (number, (kind, expires_ms, operand)) in left.iter().enumerate() {
            let message = RunMessage {
                sequence: 0,
                kind: *kind,
                expires_ms: *expires_ms,
                operand,
            };
            let output = match number + 1 < count {
                true => &mut self.operands,
                false => &mut self.messages,
            };
            let begin = || HashRunBuilder::new(&self.store, &self.options, most);
            output.push(begin, (hash, key), message, &mut self.rules)?;
        }
        Ok(())
    }
}

impl LayerMerge for HashLayerMerge {
    type Run = WrittenHashRun;

    fn step(&mut self, records: usize) -> Result<StepProgress> {
        self.rules.clear();
        let mut inputs = match self.inputs.take() {
            Some(inputs) => inputs,
            None => MergeInputs::open(&self.store, &self.group)?,
        };
        let mut group = std::mem::take(&mut self.same_hash);
        let mut taken = 0;
        while taken < records {
            let Some(hash) = inputs.take_into(&mut group)? else {
                self.messages.end_run(0)?;
                self.operands.end_run(0)?;
                return Ok(StepProgress::Done);
            };
            // All records with one hash are in the same run.
            self.messages.end_run(MOST_RECORDS)?;
            self.operands.end_run(MOST_RECORDS)?;
            let mut first = 0;
            while first < group.count() {
                let end = group.end_of_key(first);
                self.fold(hash, &group, first..end)?;
                first = end;
            }
            taken += group.count();
        }
        (self.inputs, self.same_hash) = (Some(inputs), group);
        Ok(StepProgress::More)
    }

    fn take_result(&mut self) -> MergedLayers<WrittenHashRun> {
        MergedLayers {
            messages: std::mem::take(&mut self.messages.written),
            operands: std::mem::take(&mut self.operands.written),
        }
    }

    fn memory_bytes(&self) -> u64 {
        let runs: usize = self.group.layers.iter().map(|(_, runs)| runs.len()).sum();
        (runs as u64 + 2) * BUFFERS + 2 * self.records.min(MOST_RECORDS)
    }
}
