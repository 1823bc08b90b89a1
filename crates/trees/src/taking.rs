//! The share of a sealed memtable becomes a run, a slice at a time.

use crate::run::{Builder, Built, RunOptions};
use alluvium_base::message::LAST;
use alluvium_dictionary::contract::Progress;
use alluvium_dictionary::merge::{Folder, Rule};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::{Record, Value};
use alluvium_dictionary::rules::{Keyspace, Schema};
use alluvium_dictionary::share::Share;
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use std::sync::Arc;

/// A run that the messages of a share are written to. Dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Taking {
    share: Share,
    rule: Rule,
    builder: Builder,
    keyspace: Keyspace,
    /// The last key that was taken; none before the first.
    last: Option<Vec<u8>>,
    taken: usize,
}

impl Taking {
    /// Begins to write a share. `touches` says whether the dictionary has anything in a range: what
    /// deletes nothing is left out.
    ///
    /// # Errors
    /// As [`Builder::new`].
    pub(crate) fn new(
        store: &Store,
        options: &RunOptions,
        schema: &Arc<dyn Schema>,
        rule: Rule,
        share: Share,
        touches: impl Fn(&KeyRange) -> bool,
    ) -> Result<Taking> {
        let mut builder = Builder::new(store, options)?;
        if share.memtable.has_range_deletes() {
            // Those of other shares are cut off first: a delete that ends where the next one begins
            // would become one with it.
            let mut deletes = share.range_deletes();
            // The dictionary holds nothing as new as the memtable's oldest message, and the records
            // that follow were not deleted.
            deletes.level(rule.horizon);
            deletes.fold(&[rule.horizon]);
            // Where the dictionary has nothing, a delete that every reader sees has nothing left to
            // delete (G4).
            deletes.retain(|start, end, sequence| {
                sequence > rule.horizon || touches(&KeyRange::new(start, Some(end)))
            });
            builder.delete_ranges(Arc::new(deletes.finish()));
        }
        Ok(Taking {
            share,
            rule,
            builder,
            keyspace: Keyspace::new(schema),
            last: None,
            taken: 0,
        })
    }

    /// Takes about `records` messages.
    pub(crate) fn go_on(&mut self, records: usize) -> Result<Progress> {
        let (share, builder) = (&self.share, &mut self.builder);
        let mut cursor = match &self.last {
            None => share.first(),
            Some(last) => share.behind(last),
        };
        let until = self.taken.saturating_add(records);
        while let Some(key) = cursor.key() {
            if self.taken >= until {
                return Ok(Progress::More);
            }
            let memtable = &share.memtable;
            let deleted = |reader| memtable.range_deleted(key, reader);
            if let Some(rules) = self.keyspace.enter(key) {
                builder.begin_keyspace(rules.codec, rules.value_threshold)?;
            }
            let mut folder = Folder::new(&self.rule, self.keyspace.rules().operator.as_deref());
            let mut pushed = Ok(());
            folder.fold(cursor.versions(LAST), deleted, |folded| {
                if pushed.is_ok() {
                    let record = Record {
                        sequence: folded.sequence,
                        kind: folded.kind,
                        expires_ms: folded.expires_ms,
                        value: Value::Inline(folded.operand),
                    };
                    pushed = builder.push(key, record);
                }
            });
            pushed?;
            self.taken += cursor.versions(LAST).count();
            let last = self.last.get_or_insert_with(Vec::new);
            debug_assert!(last.is_empty() || &last[..] < key, "keys ascend");
            last.clear();
            last.extend_from_slice(key);
            share.next(&mut cursor);
        }
        Ok(Progress::Done)
    }

    /// Returns how many messages were taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Writes what is left of the run; none of a share without messages.
    ///
    /// # Errors
    /// As [`Builder::finish`].
    pub(crate) fn finish(self) -> Result<Option<Built>> {
        self.builder.finish()
    }
}
