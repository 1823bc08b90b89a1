//! Blocks into the store, in order: as batches, or, while keys ascend, straight into runs.
//!
//! A batch is a commit of rows together with how far the import is. Rows in the order of their keys are loaded (`Keyspace::begin_ingest`): written once, at the
//! speed of the device, and in effect all at once. A load is a commit of its own, so what it will have done is remembered before it takes effect
//! ([`Pending`]); whoever goes on after a kill looks whether it has. It is done again otherwise, and only what it says anyway is written again.

use super::layout::{Layout, layout_key};
use super::parser::{Block, Order};
use super::progress::{Identity, Pending, Saved, fingerprint};
use crate::bytes::escape;
use crate::exit::{Exit, failure};
use crate::formats::Change;
use alluvium::{Db, Ingest, Keyspace, WriteBatch};
use anyhow::Result;
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

/// Rows are loaded once so many bytes of them came in order.
const ENOUGH: usize = 2 << 20;
/// Every time the order breaks, twice as many are needed, up to so many.
const MOST_ENOUGH: usize = 256 << 20;
/// A load takes effect when it has so many bytes, or is so old: what is done again after a kill.
const LOAD: usize = 512 << 20;
const LOAD_AGE: Duration = Duration::from_secs(3);

/// Writes blocks.
pub(super) struct Writer<'a> {
    db: &'a Db,
    keyspace: Keyspace,
    places: Keyspace,
    identity: Identity,
    /// What is to be known of the table once there are rows of it.
    layout: Option<Layout>,
    uniqueness: Uniqueness,
    load: Option<Load>,
    /// The last key, while keys ascend, and how many bytes did.
    last: Option<Vec<u8>>,
    ascended: usize,
    enough: usize,
    /// How far the import is in the store.
    pub(super) saved: Option<Saved>,
}

/// What happens to a row whose key has a value already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uniqueness {
    /// It replaces the value.
    Replaced,
    /// It ends the import.
    Refused,
}

/// Whether a block's keys are all above those before it.
#[derive(PartialEq, Eq)]
enum Follows {
    Yes,
    No,
}

/// Rows that are being loaded.
struct Load {
    ingest: Ingest,
    bytes: usize,
    since: Instant,
    last: (Vec<u8>, u64),
    saved: Saved,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        db: &'a Db,
        keyspace: Keyspace,
        places: Keyspace,
        identity: Identity,
        layout: Option<Layout>,
        uniqueness: Uniqueness,
    ) -> Writer<'a> {
        Writer {
            layout,
            uniqueness,
            db,
            keyspace,
            places,
            identity,
            load: None,
            last: None,
            ascended: 0,
            enough: ENOUGH,
            saved: None,
        }
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
            self.places
                .put(layout_key(&self.identity.keyspace), layout.encode())?;
        }
        if self.ascended < self.enough {
            self.settle()?;
            return self.batch(block);
        }
        self.load(block)?;
        let is_due = |load: &Load| load.bytes >= LOAD || load.since.elapsed() >= LOAD_AGE;
        if block.is_last || self.load.as_ref().is_some_and(is_due) {
            self.settle()?;
        }
        if block.is_last {
            self.places.delete(self.identity.key())?;
        }
        Ok(())
    }

    /// Refuses a block in which a row puts a key that has a value: in the store, or of a row before
    /// it.
    fn refuse_duplicates(&self, block: &Block) -> Result<()> {
        let key_of = |change| match change {
            Change::Put(key, ..) | Change::Delete(key) => key,
        };
        let keys: Vec<&[u8]> = block.changes.iter().map(key_of).collect();
        let stored = self.keyspace.multi_get(&keys)?;
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

    /// Notes whether keys still ascend.
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

    /// Loads a block behind others.
    fn load(&mut self, block: &Block) -> Result<()> {
        let mut load = match self.load.take() {
            Some(load) => load,
            None => Load {
                ingest: self.keyspace.begin_ingest()?,
                bytes: 0,
                since: Instant::now(),
                last: (Vec::new(), 0),
                saved: Saved::default(),
            },
        };
        let mut last = None;
        for change in block.changes.iter() {
            if let Change::Put(key, value, _) = change {
                load.ingest.put(key, value)?;
                last = Some((key, value));
            }
        }
        if let Some((key, value)) = last {
            load.last = (key.to_vec(), fingerprint(value));
        }
        load.bytes += block.bytes;
        load.saved = block.saved.clone();
        self.load = Some(load);
        Ok(())
    }

    /// What is being loaded takes effect.
    pub(super) fn settle(&mut self) -> Result<()> {
        let Some(load) = self.load.take() else {
            return Ok(());
        };
        if load.ingest.records() > 0 {
            let (key, after) = load.last;
            let pending = Pending {
                before: self.keyspace.get(&key)?.map(|value| fingerprint(&value)),
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
            self.places.put(self.identity.key(), now.encode())?;
            load.ingest.finish()?;
        }
        self.places.put(self.identity.key(), load.saved.encode())?;
        self.saved = Some(load.saved);
        Ok(())
    }

    /// Commits a block together with how far the import is then; nothing is left to be remembered after the last.
    fn batch(&mut self, block: &Block) -> Result<()> {
        let mut batch = WriteBatch::new();
        for change in block.changes.iter() {
            match change {
                Change::Put(key, value, None) => batch.put(&self.keyspace, key, value)?,
                Change::Put(key, value, Some(ms)) => {
                    match SystemTime::now().checked_add(Duration::from_millis(ms)) {
                        Some(expires) => batch.put_until(&self.keyspace, key, value, expires)?,
                        None => batch.put(&self.keyspace, key, value)?,
                    }
                }
                Change::Delete(key) => batch.delete(&self.keyspace, key)?,
            };
        }
        if block.is_last {
            batch.delete(&self.places, self.identity.key())?;
        } else {
            batch.put(&self.places, self.identity.key(), block.saved.encode())?;
        }
        self.db.write(&batch)?;
        self.saved = Some(block.saved.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Changes;

    /// A block of so many rows with keys from `first` on.
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
        let places = db.keyspace("places").expect("it is made");
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
        let mut writer = Writer::new(
            &db,
            keyspace.clone(),
            places.clone(),
            identity.clone(),
            None,
            Uniqueness::Replaced,
        );
        let before = db.sequence();
        for first in 0..8 {
            writer.take(&block(first * 1000, 1000)).expect("there is room");
        }
        // What is being loaded is not there yet, and so is not said to be.
        assert_eq!(keyspace.get(7999u32.to_be_bytes()).expect("it is read"), None);
        assert!(remembered().offset < 8000);
        // An earlier key comes: what was loaded takes effect first.
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
        assert_eq!(saved.clone().settled(&keyspace).expect("it is read").offset, 2);
        keyspace.delete(7999u32.to_be_bytes()).expect("there is room");
        assert_eq!(saved.settled(&keyspace).expect("it is read").offset, 1);
    }
}
