//! What commands read and write through: the store with their own writes laid over it, committed as one.

use super::locks::Held;
use super::{Store, scan};
use crate::error::Failure;
use crate::model::Found;
use crate::model::format::{self, InnerKey};
use alluvium::Durability;
use alluvium::{Value, WriteBatch};
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

/// What a key is to become.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Put { value: Vec<u8>, expires_ms: u64 },
    Delete,
}

/// How far a lookup may be behind what was collected for it.
const AHEAD: usize = 16;

/// Whether anything was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    Nothing,
}

/// Reads and writes of one or several commands that take effect together. It sees its own writes.
pub(crate) struct Transaction<'s> {
    pub(crate) store: &'s Store,
    /// The database that keys are of.
    pub(crate) database: u8,
    /// The time of all that it does.
    pub(crate) now_ms: u64,
    prefetched: Vec<(InnerKey, Option<Value>)>,
    /// Where the next lookup of something prefetched probably is.
    next: usize,
    pub(super) writes: BTreeMap<InnerKey, Write>,
    /// Ranges that are deleted, of what was there before `writes`.
    pub(super) deleted: Vec<(InnerKey, InnerKey)>,
    /// User's keys that were written to, and databases that were emptied.
    touched: Vec<(u8, InnerKey)>,
    emptied: Vec<u8>,
}

impl<'s> Transaction<'s> {
    pub(crate) fn new(store: &'s Store, database: u8) -> Transaction<'s> {
        Transaction {
            store,
            database,
            now_ms: store.now_ms(),
            prefetched: Vec::new(),
            next: 0,
            writes: BTreeMap::new(),
            deleted: Vec::new(),
            touched: Vec::new(),
            emptied: Vec::new(),
        }
    }

    /// Reads the records of many keys at once, for commands to come. Their locks are held, or each is read by one command alone.
    pub(crate) fn prefetch(&mut self, keys: Vec<InnerKey>) -> Result<(), Failure> {
        let values = self.store.data.multi_get(&keys)?;
        self.prefetched = keys.into_iter().zip(values).collect();
        self.next = 0;
        Ok(())
    }

    /// Whether records were read beforehand.
    pub(super) fn is_prefetched(&self) -> bool {
        !self.prefetched.is_empty()
    }

    /// Where a prefetched key is, if it is near where the last one was: commands ask in the order in which keys were collected. What is not
    /// found is read once more.
    fn prefetched(&mut self, key: &[u8]) -> Option<usize> {
        let ahead = self.prefetched.iter().skip(self.next).take(AHEAD);
        let step = ahead.into_iter().position(|(name, _)| **name == *key)?;
        let index = self.next + step;
        self.next = index + 1;
        Some(index)
    }

    /// Whether the transaction itself says what a key has.
    fn own(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        match self.writes.get(key) {
            Some(Write::Put { value, .. }) => return Some(Some(value)),
            Some(Write::Delete) => return Some(None),
            None => {}
        }
        self.is_deleted(key).then_some(None)
    }

    /// The value that the transaction itself has given a key.
    pub(crate) fn own_value(&self, key: &[u8]) -> Option<&[u8]> {
        self.own(key).flatten()
    }

    /// Whether what the store has of a key is in a range that was deleted.
    pub(super) fn is_deleted(&self, key: &[u8]) -> bool {
        self.deleted
            .iter()
            .any(|(start, end)| &start[..] <= key && key < &end[..])
    }

    /// The value of a key.
    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<Found<'_>>, Failure> {
        if self.own(key).is_some() {
            return Ok(self.own(key).flatten().map(Found::Borrowed));
        }
        if let Some(index) = self.prefetched(key) {
            return Ok(self.prefetched[index].1.as_deref().map(Found::Borrowed));
        }
        Ok(self.store.data.get(key)?.map(Found::Owned))
    }

    /// The values of many keys, read at once.
    pub(crate) fn multi_get(&mut self, keys: &[InnerKey]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let mut answers = Vec::with_capacity(keys.len());
        let mut unknown = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            match self.own(key) {
                Some(value) => answers.push(value.map(<[u8]>::to_vec)),
                None => {
                    answers.push(None);
                    unknown.push(index);
                }
            }
        }
        let found = self
            .store
            .data
            .multi_get(unknown.iter().map(|&index| &keys[index][..]))?;
        for (index, value) in unknown.into_iter().zip(found) {
            answers[index] = value.map(Value::into_vec);
        }
        Ok(answers)
    }

    /// The key has this value, until `expires_ms` if that is not 0.
    pub(crate) fn put(&mut self, key: InnerKey, value: Vec<u8>, expires_ms: u64) {
        self.writes.insert(key, Write::Put { value, expires_ms });
    }

    /// The key has no value.
    pub(crate) fn delete(&mut self, key: InnerKey) {
        self.writes.insert(key, Write::Delete);
    }

    /// No key of the range has a value.
    pub(crate) fn delete_range(&mut self, start: InnerKey, end: InnerKey) {
        if start >= end {
            return;
        }
        let within: Vec<InnerKey> = self
            .writes
            .range(start.clone()..end.clone())
            .map(|(key, _)| key.clone())
            .collect();
        for key in within {
            self.writes.remove(&key);
        }
        self.deleted.push((start, end));
    }

    /// Everything from `start` on and before `end`, in order.
    pub(crate) fn scan(&self, start: InnerKey, end: InnerKey, direction: scan::Direction) -> scan::Scan<'_> {
        scan::Scan::new(self, start, end, direction)
    }

    /// Notes that a user's key was written to.
    pub(crate) fn touch(&mut self, key: &[u8]) {
        if self.store.locks.has_watchers() {
            self.touched.push((self.database, key.into()));
        }
    }

    /// Deletes everything of a database. All locks are held.
    pub(crate) fn empty(&mut self, database: u8) {
        let (start, end) = format::everything(database);
        self.delete_range(start, end);
        self.emptied.push(database);
    }

    /// Deletes all records of a range of the database. All locks are held.
    pub(crate) fn empty_range(&mut self, start: InnerKey, end: InnerKey) {
        self.delete_range(start, end);
        self.emptied.push(self.database);
    }

    /// Commits what was written, under the locks that are held for it (S6). Replies that depend on the disk wait for it elsewhere (S3).
    pub(crate) fn commit(self, held: &Held<'_>) -> Result<Outcome, Failure> {
        if self.writes.is_empty() && self.deleted.is_empty() {
            return Ok(Outcome::Nothing);
        }
        let mut batch = WriteBatch::new().durability(Durability::Process);
        let data = &self.store.data;
        for (start, end) in &self.deleted {
            batch.delete_range(data, start, Some(end))?;
        }
        for (key, write) in &self.writes {
            match write {
                Write::Put { value, expires_ms: 0 } => batch.put(data, key, value)?,
                Write::Put { value, expires_ms } => {
                    // Beyond what a moment can be is never.
                    let until = UNIX_EPOCH.checked_add(Duration::from_millis(*expires_ms));
                    match until {
                        Some(until) => batch.put_until(data, key, value, until)?,
                        None => batch.put(data, key, value)?,
                    }
                }
                Write::Delete => batch.delete(data, key)?,
            };
        }
        self.store.db.write(&batch)?;
        for (database, key) in &self.touched {
            held.touch(*database, key);
        }
        for &database in &self.emptied {
            held.touch_all(database);
        }
        Ok(Outcome::Committed)
    }
}
