//! Writes blocks in order. A block is written as a batch or, while keys are ascending, loaded
//! directly into sorted runs.
//!
//! A batch commits rows together with the progress. Rows in key order are bulk-loaded instead
//! (`Keyspace::begin_ingest`), which writes them only once, at the speed of the device, and makes
//! them visible atomically. The load is a commit of its own, so the progress after it is recorded
//! before it takes effect ([`PendingLoad`]). A continued import checks whether the load of a killed
//! one took effect. If not, it repeats the load, which writes the same data again.

use super::layout::{ImportLayout, layout_key, set};
use super::parser::{BlockOrder, RowBlock};
use super::progress::{ImportIdentity, ImportProgress, PendingLoad, fingerprint};
use crate::formats::{RowChange, redis};
use crate::store::StoreHandle;
use crate::terminal::exit::{CommandExit, failure};
use crate::values::bytes::escape;
use alluvium_server::control::{KeyChange as Written, ManagementRequest};
use anyhow::Result;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Number of bytes that must arrive in ascending order before rows are bulk-loaded.
const ENOUGH: usize = 2 << 20;
/// Each break in the order doubles the required number of bytes, up to this maximum.
const MOST_ENOUGH: usize = 256 << 20;
/// Size in bytes and age at which a bulk load is made to take effect. They bound the work to repeat
/// after a kill.
const LOAD: usize = 512 << 20;
const LOAD_AGE: Duration = Duration::from_secs(3);

pub(super) struct BlockWriter<'a> {
    store: &'a StoreHandle,
    to: ImportTarget,
    identity: ImportIdentity,
    /// The layout of the table, which is stored with the first rows.
    layout: Option<ImportLayout>,
    uniqueness: KeyUniqueness,
    load: Option<RowLoad>,
    /// The last key while keys are ascending, and the number of bytes that have arrived in
    /// ascending order.
    last: Option<Vec<u8>>,
    ascended: usize,
    enough: usize,
    /// The progress that is currently recorded in the store.
    pub(super) saved: Option<ImportProgress>,
}

/// What an import writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ImportTarget {
    /// A keyspace. The rows are stored without changes.
    Keyspace(String),
    /// A Redis database. The rows are written in the same way as by Redis clients.
    Database(u8),
}

/// What happens to a row whose key already has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyUniqueness {
    Replaced,
    /// The import ends with an error.
    Refused,
}

/// Whether all keys of a block are greater than the keys before the block.
#[derive(PartialEq, Eq)]
enum KeyContinuity {
    Yes,
    No,
}

/// A bulk load in progress. Its rows become visible when it ends.
struct RowLoad {
    /// Number of records that were passed to the load.
    records: u64,
    bytes: usize,
    since: Instant,
    last: (Vec<u8>, u64),
    saved: ImportProgress,
}

impl<'a> BlockWriter<'a> {
    pub(super) fn new(
        store: &'a StoreHandle,
        to: ImportTarget,
        identity: ImportIdentity,
        layout: Option<ImportLayout>,
        uniqueness: KeyUniqueness,
    ) -> BlockWriter<'a> {
        BlockWriter {
            layout,
            uniqueness,
            store,
            to,
            identity,
            load: None,
            last: None,
            ascended: 0,
            enough: ENOUGH,
            saved: None,
        }
    }

    /// Announces that keys will arrive in ascending order, so that rows are bulk-loaded from the
    /// start.
    pub(super) fn expect_order(&mut self) {
        self.enough = 1;
    }

    /// Writes a block as a batch, or bulk-loads it if enough bytes have arrived in ascending order.
    pub(super) fn take(&mut self, block: &RowBlock) -> Result<()> {
        if self.follow(block) == KeyContinuity::No {
            self.settle()?;
        }
        let is_nothing = self.load.is_some() || block.saved.rows == 0;
        if block.order == BlockOrder::Empty && is_nothing && !block.is_last {
            return Ok(());
        }
        if self.uniqueness == KeyUniqueness::Refused {
            self.refuse_duplicates(block)?;
        }
        if let Some(layout) = self.layout.take() {
            let key = layout_key(&self.identity.keyspace);
            self.store.write(vec![set(key, Some(layout.encode()))])?;
        }
        let ImportTarget::Keyspace(keyspace) = self.to.clone() else {
            return self.batch(block);
        };
        if self.ascended < self.enough {
            self.settle()?;
            return self.batch(block);
        }
        self.load(&keyspace, block)?;
        let is_due = |load: &RowLoad| load.bytes >= LOAD || load.since.elapsed() >= LOAD_AGE;
        if block.is_last || self.load.as_ref().is_some_and(is_due) {
            self.settle()?;
        }
        if block.is_last {
            self.remember(None)?;
        }
        Ok(())
    }

    /// Returns an error if the key of any row in the block already has a value, in the store or
    /// from an earlier row.
    fn refuse_duplicates(&self, block: &RowBlock) -> Result<()> {
        let key_of = |change| match change {
            RowChange::Put(key, ..) | RowChange::Delete(key) => key,
            RowChange::Command(_) => &[],
        };
        let keys: Vec<&[u8]> = block.changes.iter().map(key_of).collect();
        let ImportTarget::Keyspace(keyspace) = &self.to else {
            return Ok(());
        };
        let owned: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        let stored = self.store.values(keyspace, &owned)?;
        let mut has_value: HashMap<&[u8], bool> = HashMap::with_capacity(keys.len());
        for (key, value) in keys.iter().zip(&stored) {
            has_value.insert(key, value.is_some());
        }
        for (index, change) in block.changes.iter().enumerate() {
            let key = key_of(change);
            let is_put = matches!(change, RowChange::Put(..));
            if has_value.insert(key, is_put) == Some(true) && is_put {
                let line = block.lines.get(index).copied().unwrap_or_default();
                let text = format!(
                    "line {line}: the key \"{}\" has a value already, from an earlier row or from before the import, which --unique refuses; \
                     the rows before line {} are imported",
                    escape(&key[..key.len().min(60)]),
                    block.begins_behind + 1
                );
                return Err(failure(CommandExit::BadRows, text));
            }
        }
        Ok(())
    }

    /// Tracks whether keys are still ascending.
    fn follow(&mut self, block: &RowBlock) -> KeyContinuity {
        match &block.order {
            BlockOrder::Empty => KeyContinuity::Yes,
            BlockOrder::Ascending(first, last) => {
                let is_behind = self.last.as_ref().is_none_or(|before| first > before);
                if !is_behind {
                    self.break_order();
                }
                self.ascended = self.ascended.saturating_add(block.bytes);
                self.last = Some(last.clone());
                if is_behind {
                    KeyContinuity::Yes
                } else {
                    KeyContinuity::No
                }
            }
            BlockOrder::Any => {
                self.break_order();
                self.last = None;
                KeyContinuity::No
            }
        }
    }

    fn break_order(&mut self) {
        if self.ascended >= self.enough {
            self.enough = (self.enough * 2).min(MOST_ENOUGH);
        }
        self.ascended = 0;
    }

    /// Adds the rows of a block to the current bulk load.
    fn load(&mut self, keyspace: &str, block: &RowBlock) -> Result<()> {
        let mut load = match self.load.take() {
            Some(load) => load,
            None => {
                self.store
                    .change(&ManagementRequest::BeginIngest(keyspace.to_owned()))?;
                RowLoad {
                    records: 0,
                    bytes: 0,
                    since: Instant::now(),
                    last: (Vec::new(), 0),
                    saved: ImportProgress::default(),
                }
            }
        };
        let records: Vec<(Vec<u8>, Vec<u8>)> = block
            .changes
            .iter()
            .filter_map(|change| match change {
                RowChange::Put(key, value, _) => Some((key.to_vec(), value.to_vec())),
                _ => None,
            })
            .collect();
        if let Some((key, value)) = records.last() {
            load.last = (key.clone(), fingerprint(value));
        }
        load.records += records.len() as u64;
        self.store.change(&ManagementRequest::Ingest(records))?;
        load.bytes += block.bytes;
        load.saved = block.saved.clone();
        self.load = Some(load);
        Ok(())
    }

    /// Ends the current bulk load, so that its rows take effect.
    pub(super) fn settle(&mut self) -> Result<()> {
        let (Some(load), ImportTarget::Keyspace(keyspace)) = (self.load.take(), &self.to) else {
            return Ok(());
        };
        if load.records > 0 {
            let (key, after) = load.last;
            let before = self.store.value(keyspace, &key)?;
            let pending = PendingLoad {
                before: before.map(|value| fingerprint(&value)),
                key,
                after,
                then: load.saved.clone(),
            };
            let now = ImportProgress {
                pending: Some(Box::new(pending)),
                ..self.saved.clone().unwrap_or_else(|| ImportProgress {
                    options: load.saved.options.clone(),
                    layout: load.saved.layout.clone(),
                    ..ImportProgress::default()
                })
            };
            self.remember(Some(&now))?;
            self.store.change(&ManagementRequest::FinishIngest)?;
        } else {
            self.store.change(&ManagementRequest::AbandonIngest)?;
        }
        self.remember(Some(&load.saved))?;
        self.saved = Some(load.saved);
        Ok(())
    }

    /// Records the progress in the store, or deletes it if `saved` is `None`.
    fn remember(&self, saved: Option<&ImportProgress>) -> Result<()> {
        self.store.write(vec![self.progress(saved)])
    }

    fn progress(&self, saved: Option<&ImportProgress>) -> Written {
        set(self.identity.key(), saved.map(ImportProgress::encode))
    }

    /// Commits the changes of a block together with the progress. The last block deletes the
    /// progress.
    fn batch(&mut self, block: &RowBlock) -> Result<()> {
        let progress = self.progress((!block.is_last).then_some(&block.saved));
        match &self.to {
            ImportTarget::Keyspace(keyspace) => {
                let written = |change| {
                    let (key, value, expires_in_ms) = match change {
                        RowChange::Put(key, value, ms) => (key, Some(value.to_vec()), ms),
                        RowChange::Delete(key) => (key, None, None),
                        RowChange::Command(_) => return None,
                    };
                    Some(Written {
                        keyspace: keyspace.clone(),
                        key: key.to_vec(),
                        value,
                        expires_in_ms,
                    })
                };
                let mut changes: Vec<Written> = block.changes.iter().filter_map(written).collect();
                assert!(
                    changes.len() == block.changes.len(),
                    "commands are executed in databases alone"
                );
                changes.push(progress);
                self.store.write(changes)?;
            }
            ImportTarget::Database(database) => {
                let commands = block.changes.iter().map(command).collect();
                if let Err((index, why)) = self.store.try_execute(*database, commands, vec![progress])? {
                    let line = block.lines.get(index).copied().unwrap_or_default();
                    let text = format!(
                        "line {line}: {why}; the rows before line {} are imported",
                        block.begins_behind + 1
                    );
                    return Err(failure(CommandExit::BadRows, text));
                }
            }
        }
        self.saved = Some(block.saved.clone());
        Ok(())
    }
}

/// Converts a change to the words of a Redis command.
fn command(change: RowChange<'_>) -> Vec<Vec<u8>> {
    match change {
        RowChange::Put(key, value, None) => vec![b"SET".to_vec(), key.to_vec(), value.to_vec()],
        RowChange::Put(key, value, Some(ms)) => vec![
            b"SET".to_vec(),
            key.to_vec(),
            value.to_vec(),
            b"PX".to_vec(),
            ms.to_string().into_bytes(),
        ],
        RowChange::Delete(key) => vec![b"DEL".to_vec(), key.to_vec()],
        RowChange::Command(bytes) => redis::decode(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::RowChanges;

    /// Returns a block of `rows` rows whose keys start from `first`.
    fn block(first: u32, rows: u32) -> RowBlock {
        let mut changes = RowChanges::new();
        for number in first..first + rows {
            changes.put(&number.to_be_bytes(), &[number as u8; 1000]);
        }
        RowBlock {
            changes,
            bytes: rows as usize * 1036,
            saved: ImportProgress {
                offset: u64::from(first + rows),
                rows: u64::from(first + rows),
                ..ImportProgress::default()
            },
            order: BlockOrder::Ascending(
                first.to_be_bytes().to_vec(),
                (first + rows - 1).to_be_bytes().to_vec(),
            ),
            is_last: false,
            ..RowBlock::default()
        }
    }

    #[test]
    fn rows_in_order_are_loaded_and_others_are_not_and_progress_is_that_of_the_store() {
        let place = tempfile::tempdir().expect("a directory");
        let db = alluvium::Options::new()
            .memory(32 << 20)
            .open(place.path().join("store"))
            .expect("it opens");
        let keyspace = db.keyspace("rows").expect("it is made");
        let places = db.keyspace(super::super::PROGRESS).expect("it is made");
        let identity = ImportIdentity {
            keyspace: "rows".to_owned(),
            input: "-".to_owned(),
        };
        let remembered = || {
            let saved = places
                .get(identity.key())
                .expect("it is read")
                .expect("it is there");
            ImportProgress::decode(&saved).expect("it was encoded")
        };
        let store = StoreHandle::own(db.clone());
        let mut writer = BlockWriter::new(
            &store,
            ImportTarget::Keyspace("rows".to_owned()),
            identity.clone(),
            None,
            KeyUniqueness::Replaced,
        );
        let before = db.sequence();
        for first in 0..8 {
            writer.take(&block(first * 1000, 1000)).expect("there is room");
        }
        // The bulk load has not taken effect yet, so the recorded progress does not include it.
        assert_eq!(keyspace.get(7999u32.to_be_bytes()).expect("it is read"), None);
        assert!(remembered().offset < 8000);
        // A smaller key makes the bulk load take effect first.
        writer.take(&block(500, 10)).expect("there is room");
        assert_eq!(remembered().offset, 510);
        assert!(
            db.sequence() - before < 4000,
            "most rows have no number of their own"
        );
        writer.settle().expect("there is nothing to be done");
        assert_eq!(keyspace.iter().count(), 8000);
        let saved = ImportProgress {
            offset: 1,
            pending: Some(Box::new(PendingLoad {
                key: 7999u32.to_be_bytes().to_vec(),
                before: None,
                after: fingerprint(&[7999u32 as u8; 1000]),
                then: ImportProgress {
                    offset: 2,
                    ..ImportProgress::default()
                },
            })),
            ..ImportProgress::default()
        };
        assert_eq!(
            saved.clone().settled(&store, "rows").expect("it is read").offset,
            2
        );
        keyspace.delete(7999u32.to_be_bytes()).expect("there is room");
        assert_eq!(saved.settled(&store, "rows").expect("it is read").offset, 1);
    }
}
