//! Moves the writes of a set to the layers of an ingest.

use super::WriteSet;
use super::write::KeyWrite;
use crate::schema::format::{self, TreeKey};
use alluvium_base::Message;
use alluvium_dictionary::contract::BulkIngest;
use alluvium_storage::Result;

impl WriteSet {
    /// Adds the set's deleted ranges to the newest layer of an ingest. Returns whether there are
    /// any.
    pub(crate) fn pour_ranges(&self, ingest: &mut dyn BulkIngest) -> bool {
        for (start, end) in self.deleted_tree_ranges() {
            ingest.delete_range(&start, &end);
        }
        self.deleted.len() > 0
    }

    /// Returns the start and end of each deleted range as tree keys, in key order.
    pub(crate) fn deleted_tree_ranges(&self) -> impl Iterator<Item = (TreeKey, TreeKey)> {
        let ranges = self.deleted.iter();
        ranges.map(|(start, end)| (self.tree_key(start), self.tree_end(end)))
    }

    /// Adds the set's writes to the newest layer of an ingest, with one message for each key. Where
    /// operands were merged into a put of the set, only the put is added here. Returns whether
    /// anything was added.
    pub(crate) fn pour_writes(&self, ingest: &mut dyn BulkIngest) -> Result<bool> {
        for (key, write) in self.writes.by_key().iter() {
            let key = self.tree_key(key);
            let message = match write {
                KeyWrite::Put { value, expires_ms }
                | KeyWrite::MergeUpon {
                    value, expires_ms, ..
                } => Message {
                    expires_ms: *expires_ms,
                    ..Message::put(0, value)
                },
                KeyWrite::Delete => Message::delete(0),
                KeyWrite::Merge { chain } => {
                    chain.as_message(|message| ingest.push(&key, message))?;
                    continue;
                }
            };
            ingest.push(&key, message)?;
        }
        Ok(!self.writes.by_key().is_empty())
    }

    /// Adds the operands merged into the set's puts to the newest layer of an ingest, which must be
    /// above the layer with the puts. Returns whether anything was added.
    pub(crate) fn pour_merges_upon_puts(&self, ingest: &mut dyn BulkIngest) -> Result<bool> {
        let mut are_there = false;
        for (key, write) in self.writes.by_key().iter() {
            if let KeyWrite::MergeUpon { chain, .. } = write {
                chain.as_message(|message| ingest.push(&self.tree_key(key), message))?;
                are_there = true;
            }
        }
        Ok(are_there)
    }

    /// Returns the first and last written key, as tree keys, counting the bounds of deleted ranges.
    /// Returns `None` if the set is empty.
    pub(crate) fn stretch(&self) -> Option<(TreeKey, TreeKey)> {
        let mut stretch: Option<(TreeKey, TreeKey)> = None;
        let mut add = |low: TreeKey, high: TreeKey| match &mut stretch {
            None => stretch = Some((low, high)),
            Some((first, last)) => {
                if low < *first {
                    *first = low;
                }
                if high > *last {
                    *last = high;
                }
            }
        };
        self.visit_keys(|key| {
            let key = self.tree_key(key);
            add(key.clone(), key);
        });
        for (start, end) in self.deleted.iter() {
            add(self.tree_key(start), self.tree_end(end));
        }
        stretch
    }

    fn tree_key(&self, key: &[u8]) -> TreeKey {
        format::tree_key(&self.keyspace.definition().prefix, key)
    }

    fn tree_end(&self, end: Option<&[u8]>) -> TreeKey {
        match end {
            Some(end) => self.tree_key(end),
            None => self.keyspace.definition().end.clone(),
        }
    }
}
