//! Writes a share of a sealed memtable as a run, in slices.

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

/// A run being written from the messages of a share. Dropping it unfinished discards its output.
#[derive(Debug)]
pub(crate) struct MemtableRunWriter {
    share: MemtableSlice,
    rule: FoldRule,
    builder: RunBuilder,
    keyspace: KeyspaceCursor,
    /// The last key that was written, or `None` before the first.
    last: Option<Vec<u8>>,
    taken: usize,
}

impl MemtableRunWriter {
    /// Starts to write a share. `touches` returns whether the dictionary has any data in a range.
    /// Deletes of nothing are left out.
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
            // Deletes of other shares are clipped before folding, which would merge a delete with
            // another that starts at its end.
            let mut deletes = share.range_deletes();
            // All data in the dictionary is older than the memtable's oldest message, and the
            // following records were not deleted.
            deletes.equalize_sequences(rule.horizon);
            deletes.fold(&[rule.horizon]);
            // A delete that every reader sees can be dropped where the dictionary has no data (G4).
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

    /// Processes whole keys until at least `records` more messages are read or the share ends.
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

    /// Returns the number of messages written so far.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Completes the run. `None` for a share without messages.
    ///
    /// # Errors
    /// See [`RunBuilder::finish`].
    pub(crate) fn finish(self) -> Result<Option<BuiltRun>> {
        self.builder.finish()
    }
}
