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

/// Flushes one slice of a sealed memtable to a new run. Dropping the writer before
/// [`MemtableRunWriter::finish`] discards everything it has written.
#[derive(Debug)]
pub(crate) struct MemtableRunWriter {
    share: MemtableSlice,
    rule: FoldRule,
    builder: RunBuilder,
    keyspace: KeyspaceCursor,
    /// The last key written, or `None` if nothing has been written yet.
    last: Option<Vec<u8>>,
    taken: usize,
}

impl MemtableRunWriter {
    /// Creates a writer that flushes the slice `share`. `touches` returns whether the dictionary
    /// has any data in a key range, so that range deletes with nothing to delete are not written to
    /// the run.
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
            // Clip range deletes to this slice before folding them. Folding first could merge a
            // range delete with an adjacent one from another slice.
            let mut deletes = share.range_deletes();
            // Give all range deletes that every reader can see the same sequence number, so that
            // neighbours can be folded into one. This is safe because everything in the dictionary
            // is older than the memtable's oldest message, and the range deletes are applied to the
            // records below with their original sequence numbers.
            deletes.equalize_sequences(rule.horizon);
            deletes.fold(&[rule.horizon]);
            // Drop a range delete that every reader can see if the dictionary has no data in its
            // range (G4).
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

    /// Writes the messages of whole keys until at least `records` more messages have been read or
    /// the slice is exhausted. Returns whether messages are left to write.
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

    /// Returns the number of memtable messages read so far.
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
