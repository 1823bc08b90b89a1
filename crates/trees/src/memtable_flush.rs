//! Flushes a slice of a sealed memtable to a new run, in small steps.

use crate::run::{BuiltRun, RunBuilder, RunOptions};
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::merge::{FoldRule, MessageFolder};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::{RecordValue, StoredRecord};
use alluvium_dictionary::rules::{KeyspaceCursor, KeyspaceSchema};
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use std::sync::Arc;

/// Flushes one slice of a sealed memtable to a new run. If the writer is dropped before
/// [`MemtableRunWriter::finish`], everything that it has written is discarded.
#[derive(Debug)]
pub(crate) struct MemtableRunWriter {
    share: MemtableSlice,
    rule: FoldRule,
    builder: RunBuilder,
    keyspace: KeyspaceCursor,
    /// The key that was written last; `None` if no key has been written yet.
    last: Option<Vec<u8>>,
    taken: usize,
}

impl MemtableRunWriter {
    /// Creates a writer that flushes the slice `share`. The function `touches` returns whether the
    /// dictionary has any data in a key range. Range deletes that would delete nothing are not
    /// written to the run.
    ///
    /// # Errors
    /// See [`RunBuilder::new`].
    pub(crate) fn new(
        store: &Store,
        options: &RunOptions,
        schema: &Arc<dyn KeyspaceSchema>,
        rule: FoldRule,
        share: MemtableSlice,
        touches: impl Fn(&KeyRange) -> bool,
    ) -> Result<MemtableRunWriter> {
        let mut builder = RunBuilder::new(store, options)?;
        if share.memtable.has_range_deletes() {
            // Range deletes are clipped to this slice before they are folded. Folding first could
            // merge a range delete with an adjacent one that belongs to another slice.
            let mut deletes = share.range_deletes();
            // All range deletes that every reader can see get the same sequence number, so that
            // folding can merge neighbours. This is safe because everything in the dictionary is
            // older than the memtable's oldest message, and the range deletes are applied to the
            // records below with their original sequence numbers.
            deletes.equalize_sequences(rule.horizon);
            deletes.fold(&[rule.horizon]);
            // A range delete that every reader can see is dropped if the dictionary has no data in
            // its range (G4).
            deletes.retain(|start, end, sequence| {
                sequence > rule.horizon || touches(&KeyRange::new(start, Some(end)))
            });
            builder.delete_ranges(Arc::new(deletes.finish()));
        }
        Ok(MemtableRunWriter {
            share,
            rule,
            builder,
            keyspace: KeyspaceCursor::new(schema),
            last: None,
            taken: 0,
        })
    }

    /// Writes the messages of complete keys until at least `records` further messages have been
    /// read, or the slice is exhausted. Returns whether there are more messages to write.
    pub(crate) fn go_on(&mut self, records: usize) -> Result<StepProgress> {
        let (share, builder) = (&self.share, &mut self.builder);
        let mut cursor = match &self.last {
            None => share.first(),
            Some(last) => share.behind(last),
        };
        let until = self.taken.saturating_add(records);
        while let Some(key) = cursor.key() {
            if self.taken >= until {
                return Ok(StepProgress::More);
            }
            let memtable = &share.memtable;
            let deleted = |reader| memtable.range_deleted(key, reader);
            if let Some(rules) = self.keyspace.enter(key) {
                builder.begin_keyspace(rules.codec, rules.value_threshold)?;
            }
            let mut folder = MessageFolder::new(&self.rule, self.keyspace.rules().operator.as_deref());
            let mut pushed = Ok(());
            folder.fold(cursor.versions(MAX_SEQUENCE), deleted, |folded| {
                if pushed.is_ok() {
                    let record = StoredRecord {
                        sequence: folded.sequence,
                        kind: folded.kind,
                        expires_ms: folded.expires_ms,
                        value: RecordValue::Inline(folded.operand),
                    };
                    pushed = builder.push(key, record);
                }
            });
            pushed?;
            self.taken += cursor.versions(MAX_SEQUENCE).count();
            let last = self.last.get_or_insert_with(Vec::new);
            debug_assert!(last.is_empty() || &last[..] < key, "keys ascend");
            last.clear();
            last.extend_from_slice(key);
            share.next(&mut cursor);
        }
        Ok(StepProgress::Done)
    }

    /// Returns the number of messages of the memtable that have been read so far.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Completes the run and returns it, or `None` if the slice had no messages.
    ///
    /// # Errors
    /// See [`RunBuilder::finish`].
    pub(crate) fn finish(self) -> Result<Option<BuiltRun>> {
        self.builder.finish()
    }
}
