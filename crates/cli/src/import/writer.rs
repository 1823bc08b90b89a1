//! Writes blocks in order: as batches, or, while keys ascend, directly into runs.
//!
//! A batch commits rows together with the progress. Rows in key order are loaded instead
//! (`Keyspace::begin_ingest`): they are written once, at the speed of the device, and take effect
//! atomically. A load is a separate commit, so its result is recorded before it takes effect
//! ([`Pending`]). An import that continues after a kill checks whether the load has taken effect,
//! and otherwise repeats it, which writes the same data again.

use super::layout::{Layout, layout_key, set};
use super::parser::{Block, Order};
use super::progress::{Identity, Pending, Saved, fingerprint};
use crate::formats::{Change, redis};
use crate::store::Store;
use crate::terminal::exit::{Exit, failure};
use crate::values::bytes::escape;
use alluvium_server::control::{Change as Written, Request};
use anyhow::Result;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Number of bytes in ascending order after which rows are loaded.
const ENOUGH: usize = 2 << 20;
/// That number doubles whenever the order breaks, up to this limit.
const MOST_ENOUGH: usize = 256 << 20;
/// Size and age at which a load takes effect. They limit what is repeated after a kill.
const LOAD: usize = 512 << 20;
const LOAD_AGE: Duration = Duration::from_secs(3);

/// A writer of blocks.
pub(super) struct Writer<'a> {
    store: &'a Store,
    to: To,
    identity: Identity,
    /// The layout of the table, to be stored with its first rows.
    layout: Option<Layout>,
    uniqueness: Uniqueness,
    load: Option<Load>,
    /// The last key while keys ascend, and the number of ascending bytes.
    last: Option<Vec<u8>>,
    ascended: usize,
    enough: usize,
    /// The progress recorded in the store.
    pub(super) saved: Option<Saved>,
}

/// The target of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// A keyspace; rows are stored unchanged.
    Keyspace(String),
    /// A Redis database; rows are written as clients would.
    Database(u8),
}

/// How to treat a row whose key already has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uniqueness {
    /// It replaces the value.
    Replaced,
    /// It ends the import.
    Refused,
}

/// Whether all keys of a block are greater than those before it.
#[derive(PartialEq, Eq)]
enum Follows {
    Yes,
    No,
}

/// A load in progress.
struct Load {
    /// Number of records passed to the store.
    records: u64,
    bytes: usize,
    since: Instant,
    last: (Vec<u8>, u64),
    saved: Saved,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        store: &'a Store,
        to: To,
        identity: Identity,
        layout: Option<Layout>,
        uniqueness: Uniqueness,
    ) -> Writer<'a> {
        Writer {
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

    /// Announces that keys ascend, so rows are loaded from the first one on.
    pub(super) fn expect_order(&mut self) {
        self.enough = 1;
    }

    /// Writes a block.
    pub(super) fn take(&mut self, block: &Block) -> Result<()> {
        if self.follow(block) == Follows::No {
            self.settle()?;
        }
        let is_nothing = self.load.is_some() || block.saved.rows == 0;
        if block.order == Order::Empty && is_nothing && !block.is_last {
            return Ok(());
        }
        if self.uniqueness == Uniqueness::Refused {
            self.refuse_duplicates(block)?;
        }
        if let Some(layout) = self.layout.take() {
            let key = layout_key(&self.identity.keyspace);
            self.store.write(vec![set(key, Some(layout.encode()))])?;
        }
        let To::Keyspace(keyspace) = self.to.clone() else {
            return self.batch(block);
        };
        if self.ascended < self.enough {
            self.settle()?;
            return self.batch(block);
        }
        self.load(&keyspace, block)?;
        let is_due = |load: &Load| load.bytes >= LOAD || load.since.elapsed() >= LOAD_AGE;
        if block.is_last || self.load.as_ref().is_some_and(is_due) {
            self.settle()?;
        }
        if block.is_last {
            self.remember(None)?;
        }
        Ok(())
    }

    /// Refuses a block with a row whose key already has a value, in the store or from an earlier
    /// row.
    fn refuse_duplicates(&self, block: &Block) -> Result<()> {
        let key_of = |change| match change {
            Change::Put(key, ..) | Change::Delete(key) => key,
            Change::Command(_) => &[],
        };
        let keys: Vec<&[u8]> = block.changes.iter().map(key_of).collect();
        let To::Keyspace(keyspace) = &self.to else {
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
            let is_put = matches!(change, Change::Put(..));
            if has_value.insert(key, is_put) == Some(true) && is_put {
                let line = block.lines.get(index).copied().unwrap_or_default();
                let text = format!(
                    "line {line}: the key \"{}\" has a value already, of an earlier row or from before the import, which --unique refuses; \
                     what stands before line {} is imported",
                    escape(&key[..key.len().min(60)]),
                    block.begins_behind + 1
                );
                return Err(failure(Exit::BadRows, text));
            }
        }
        Ok(())
    }

    /// Updates whether keys still ascend.
    fn follow(&mut self, block: &Block) -> Follows {
        match &block.order {
            Order::Empty => Follows::Yes,
            Order::Ascending(first, last) => {
                let is_behind = self.last.as_ref().is_none_or(|before| first > before);
                if !is_behind {
                    self.break_order();
                }
                self.ascended = self.ascended.saturating_add(block.bytes);
                self.last = Some(last.clone());
                if is_behind { Follows::Yes } else { Follows::No }
            }
            Order::Any => {
                self.break_order();
                self.last = None;
                Follows::No
            }
        }
    }

    fn break_order(&mut self) {
        if self.ascended >= self.enough {
            self.enough = (self.enough * 2).min(MOST_ENOUGH);
        }
        self.ascended = 0;
    }

    /// Adds a block to the current load.
    fn load(&mut self, keyspace: &str, block: &Block) -> Result<()> {
        let mut load = match self.load.take() {
            Some(load) => load,
            None => {
                self.store.change(&Request::BeginIngest(keyspace.to_owned()))?;
                Load {
                    records: 0,
                    bytes: 0,
                    since: Instant::now(),
                    last: (Vec::new(), 0),
                    saved: Saved::default(),
                }
            }
        };
        let records: Vec<(Vec<u8>, Vec<u8>)> = block
            .changes
            .iter()
            .filter_map(|change| match change {
                Change::Put(key, value, _) => Some((key.to_vec(), value.to_vec())),
                _ => None,
            })
            .collect();
        if let Some((key, value)) = records.last() {
            load.last = (key.clone(), fingerprint(value));
        }
        load.records += records.len() as u64;
        self.store.change(&Request::Ingest(records))?;
        load.bytes += block.bytes;
        load.saved = block.saved.clone();
        self.load = Some(load);
        Ok(())
    }

    /// Makes the current load take effect.
    pub(super) fn settle(&mut self) -> Result<()> {
        let (Some(load), To::Keyspace(keyspace)) = (self.load.take(), &self.to) else {
            return Ok(());
        };
        if load.records > 0 {
            let (key, after) = load.last;
            let before = self.store.value(keyspace, &key)?;
            let pending = Pending {
                before: before.map(|value| fingerprint(&value)),
                key,
                after,
                then: load.saved.clone(),
            };
            let now = Saved {
                pending: Some(Box::new(pending)),
                ..self.saved.clone().unwrap_or_else(|| Saved {
                    options: load.saved.options.clone(),
                    layout: load.saved.layout.clone(),
                    ..Saved::default()
                })
            };
            self.remember(Some(&now))?;
            self.store.change(&Request::FinishIngest)?;
        } else {
            self.store.change(&Request::AbandonIngest)?;
        }
        self.remember(Some(&load.saved))?;
        self.saved = Some(load.saved);
        Ok(())
    }

    /// Records the progress, or deletes it.
    fn remember(&self, saved: Option<&Saved>) -> Result<()> {
        self.store.write(vec![self.progress(saved)])
    }

    fn progress(&self, saved: Option<&Saved>) -> Written {
        set(self.identity.key(), saved.map(Saved::encode))
    }

    /// Commits a block together with the progress. The last block deletes the progress.
    fn batch(&mut self, block: &Block) -> Result<()> {
        let progress = self.progress((!block.is_last).then_some(&block.saved));
        match &self.to {
            To::Keyspace(keyspace) => {
                let written = |change| {
                    let (key, value, expires_in_ms) = match change {
                        Change::Put(key, value, ms) => (key, Some(value.to_vec()), ms),
                        Change::Delete(key) => (key, None, None),
                        Change::Command(_) => return None,
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
            To::Database(database) => {
                let commands = block.changes.iter().map(command).collect();
                if let Err((index, why)) = self.store.try_execute(*database, commands, vec![progress])? {
                    let line = block.lines.get(index).copied().unwrap_or_default();
                    let text = format!(
                        "line {line}: {why}; what stands before line {} is imported",
                        block.begins_behind + 1
                    );
                    return Err(failure(Exit::BadRows, text));
                }
            }
        }
        self.saved = Some(block.saved.clone());
        Ok(())
    }
}

/// Converts a change to a Redis command.
fn command(change: Change<'_>) -> Vec<Vec<u8>> {
    match change {
        Change::Put(key, value, None) => vec![b"SET".to_vec(), key.to_vec(), value.to_vec()],
        Change::Put(key, value, Some(ms)) => vec![
            b"SET".to_vec(),
            key.to_vec(),
            value.to_vec(),
            b"PX".to_vec(),
            ms.to_string().into_bytes(),
        ],
        Change::Delete(key) => vec![b"DEL".to_vec(), key.to_vec()],
        Change::Command(bytes) => redis::decode(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Changes;

    /// Returns a block of `rows` rows with keys from `first` on.
    fn block(first: u32, rows: u32) -> Block {
        let mut changes = Changes::new();
        for number in first..first + rows {
            changes.put(&number.to_be_bytes(), &[number as u8; 1000]);
        }
        Block {
            changes,
            bytes: rows as usize * 1036,
            saved: Saved {
                offset: u64::from(first + rows),
                rows: u64::from(first + rows),
                ..Saved::default()
            },
            order: Order::Ascending(
                first.to_be_bytes().to_vec(),
                (first + rows - 1).to_be_bytes().to_vec(),
            ),
            is_last: false,
            ..Block::default()
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
        let identity = Identity {
            keyspace: "rows".to_owned(),
            input: "-".to_owned(),
        };
        let remembered = || {
            let saved = places
                .get(identity.key())
                .expect("it is read")
                .expect("it is there");
            Saved::decode(&saved).expect("it was encoded")
        };
        let store = Store::own(db.clone());
        let mut writer = Writer::new(
            &store,
            To::Keyspace("rows".to_owned()),
            identity.clone(),
            None,
            Uniqueness::Replaced,
        );
        let before = db.sequence();
        for first in 0..8 {
            writer.take(&block(first * 1000, 1000)).expect("there is room");
        }
        // The load is not visible yet, and the progress does not include it.
        assert_eq!(keyspace.get(7999u32.to_be_bytes()).expect("it is read"), None);
        assert!(remembered().offset < 8000);
        // An earlier key arrives: the load takes effect first.
        writer.take(&block(500, 10)).expect("there is room");
        assert_eq!(remembered().offset, 510);
        assert!(
            db.sequence() - before < 4000,
            "most rows have no number of their own"
        );
        writer.settle().expect("there is nothing to be done");
        assert_eq!(keyspace.iter().count(), 8000);
        let saved = Saved {
            offset: 1,
            pending: Some(Box::new(Pending {
                key: 7999u32.to_be_bytes().to_vec(),
                before: None,
                after: fingerprint(&[7999u32 as u8; 1000]),
                then: Saved {
                    offset: 2,
                    ..Saved::default()
                },
            })),
            ..Saved::default()
        };
        assert_eq!(
            saved.clone().settled(&store, "rows").expect("it is read").offset,
            2
        );
        keyspace.delete(7999u32.to_be_bytes()).expect("there is room");
        assert_eq!(saved.settled(&store, "rows").expect("it is read").offset, 1);
    }
}
