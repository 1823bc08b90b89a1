//! What commands read and write through: the store with their own writes laid over it, committed as
//! one.

use super::locks::Held;
use super::marks::MarkChanges;
use super::order::Open;
use super::staging::Staged;
use super::{Reading, Store, scan};
use crate::error::Failure;
use crate::model::Found;
use crate::model::format::{self, InnerKey};
use alluvium::Durability;
use alluvium::{Value, WriteBatch};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, UNIX_EPOCH};

/// What a key is to become.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Put { value: Vec<u8>, expires_ms: u64 },
    Delete,
}

/// How far a lookup may be behind what was collected for it.
const AHEAD: usize = 16;

/// The memory of batches up to this size is kept for the next one of the same thread.
const KEPT_BATCH: usize = 1 << 20;

thread_local! {
    /// Batches that are empty, with the memory that they had.
    static SPARE: Cell<Option<Blind>> = const { Cell::new(None) };
}

/// Writes of commands that do not look at what is there, as they will be committed, in their order.
/// No command reads them before.
struct Blind {
    batch: WriteBatch,
    /// Where a record is put together.
    record: Vec<u8>,
}

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
    /// Where writes go when no command reads them: in a transaction of commands that are all blind.
    blind: Option<Blind>,
    /// Where they go otherwise.
    pub(super) writes: BTreeMap<InnerKey, Write>,
    /// Ranges that are deleted, of what was there before `writes`: their ends by their starts. No
    /// two of them meet.
    pub(super) deleted: BTreeMap<InnerKey, InnerKey>,
    /// Which keys have got collections, and which have lost theirs.
    marks: MarkChanges,
    /// Orders of sorted sets that were asked for.
    pub(super) orders: Vec<Open>,
    /// Collections whose elements were written before.
    pub(super) staged: Staged<'s>,
    /// The memory of what was read last.
    reading: Cell<Option<Reading>>,
    /// User's keys that were written to.
    touched: Vec<(u8, InnerKey)>,
    /// About how many bytes were written.
    bytes: usize,
    /// How many of them expire, and when the last ones do.
    expiring: u64,
    expiring_keys: u64,
    last_expiry_ms: u64,
}

impl<'s> Transaction<'s> {
    pub(crate) fn new(store: &'s Store, database: u8) -> Transaction<'s> {
        Transaction {
            store,
            database,
            now_ms: store.now_ms(),
            prefetched: Vec::new(),
            next: 0,
            blind: None,
            writes: BTreeMap::new(),
            deleted: BTreeMap::new(),
            marks: MarkChanges::default(),
            orders: Vec::new(),
            staged: Staged::default(),
            reading: Cell::new(None),
            touched: Vec::new(),
            bytes: 0,
            expiring: 0,
            expiring_keys: 0,
            last_expiry_ms: 0,
        }
    }

    /// One for commands that overwrite whatever is there, and ask for nothing that they have
    /// written: it does not see its own writes.
    pub(crate) fn blind(store: &'s Store, database: u8) -> Transaction<'s> {
        let new = || Blind {
            batch: WriteBatch::new().durability(Durability::Process),
            record: Vec::new(),
        };
        Transaction {
            blind: Some(SPARE.take().unwrap_or_else(new)),
            ..Transaction::new(store, database)
        }
    }

    /// About how many bytes were written.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the records of many keys at once, for commands to come. Their locks are held, or each
    /// is read by one command alone.
    pub(crate) fn prefetch(&mut self, keys: Vec<InnerKey>) -> Result<(), Failure> {
        let values = self.read(&keys)?;
        self.has_read(keys, values);
        Ok(())
    }

    /// These records were read for commands to come.
    pub(crate) fn has_read(&mut self, keys: Vec<InnerKey>, values: Vec<Option<Value>>) {
        for value in values.iter().flatten() {
            self.store.sizes.note_kept(value.len());
        }
        self.prefetched = keys.into_iter().zip(values).collect();
        self.next = 0;
    }

    /// Whether records were read beforehand.
    pub(super) fn is_prefetched(&self) -> bool {
        !self.prefetched.is_empty()
    }

    /// Where a prefetched key is, if it is near where the last one was: commands ask in the order
    /// in which keys were collected. What is not found is read once more.
    fn prefetched(&mut self, key: &[u8]) -> Option<usize> {
        let ahead = self.prefetched.iter().skip(self.next).take(AHEAD);
        let step = ahead.into_iter().position(|(name, _)| **name == *key)?;
        let index = self.next + step;
        self.next = index + 1;
        Some(index)
    }

    /// Whether the transaction itself says what a key has.
    fn own(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.writes.is_empty() && self.deleted.is_empty() {
            return None;
        }
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
        let before = (Bound::Unbounded, Bound::Included(key));
        let last = self.deleted.range::<[u8], _>(before).next_back();
        last.is_some_and(|(_, end)| key < &end[..])
    }

    /// Values of the store. The memory that long ones take is charged until the next ones are read.
    fn read(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>, Failure> {
        drop(self.reading.take());
        let (values, reading) = self.store.read_charged(&self.store.data, keys)?;
        self.reading.set(reading);
        Ok(values)
    }

    /// From now on it has the memory that a read has taken for it.
    pub(crate) fn take_over(&mut self, reading: Option<Reading>) {
        self.reading.set(reading);
    }

    /// The value of a key.
    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<Found<'_>>, Failure> {
        if self.own(key).is_some() {
            return Ok(self.own(key).flatten().map(Found::Borrowed));
        }
        if let Some(index) = self.prefetched(key) {
            return Ok(self.prefetched[index].1.as_deref().map(Found::Borrowed));
        }
        Ok(self.read(&[key])?.pop().flatten().map(Found::Owned))
    }

    /// The values of many keys, read at once.
    pub(crate) fn multi_get(&self, keys: &[InnerKey]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
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
        let names: Vec<&[u8]> = unknown.iter().map(|&index| &keys[index][..]).collect();
        let found = self.read(&names)?;
        for (index, value) in unknown.into_iter().zip(found) {
            answers[index] = value.map(Value::into_vec);
        }
        Ok(answers)
    }

    /// The key has this value, until `expires_ms` if that is not 0.
    pub(crate) fn put(&mut self, key: InnerKey, value: Vec<u8>, expires_ms: u64) {
        self.store.sizes.note_kept(value.len());
        self.count(key.len() + value.len(), expires_ms);
        self.writes.insert(key, Write::Put { value, expires_ms });
    }

    /// The user's key has this string, whatever it had.
    pub(super) fn put_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure> {
        let place = format::record_key(self.database, key);
        let Some(Blind { batch, record }) = &mut self.blind else {
            self.put(place, format::encode_text(parts, expires_ms), expires_ms);
            return Ok(());
        };
        record.clear();
        format::write_text(record, parts, expires_ms);
        let bytes = place.len() + record.len();
        self.store.sizes.note_kept(record.len());
        put(batch, self.store, &place, record, expires_ms)?;
        self.count(bytes, expires_ms);
        Ok(())
    }

    fn count(&mut self, bytes: usize, expires_ms: u64) {
        self.bytes += bytes;
        if expires_ms != 0 {
            self.expiring += bytes as u64;
            self.expiring_keys += 1;
            self.last_expiry_ms = self.last_expiry_ms.max(expires_ms);
        }
    }

    /// The key has no value.
    pub(crate) fn delete(&mut self, key: InnerKey) {
        self.bytes += key.len();
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
        self.note_deleted(start, end);
    }

    /// Joins a range with those deleted ranges that it meets.
    fn note_deleted(&mut self, mut start: InnerKey, mut end: InnerKey) {
        while let Some((other, other_end)) = self
            .deleted
            .range(..=end.clone())
            .next_back()
            .filter(|(_, other_end)| **other_end >= start)
            .map(|(other, other_end)| (other.clone(), other_end.clone()))
        {
            self.deleted.remove(&other);
            start = start.min(other);
            end = end.max(other_end);
        }
        self.deleted.insert(start, end);
    }

    /// Everything from `start` on and before `end`, in order.
    pub(crate) fn scan(&self, start: InnerKey, end: InnerKey, direction: scan::Direction) -> scan::Scan<'_> {
        scan::Scan::new(self, start, end, direction)
    }

    /// Notes that a key has a collection.
    pub(crate) fn mark(&mut self, key: &[u8], number: u64) {
        let hash = format::place(key);
        let note = format::collection_key(self.database, number);
        self.put(note, format::encode_number(hash).to_vec(), 0);
        self.marks.add(self.database, number, hash);
    }

    /// Notes that a key has that collection no longer.
    pub(crate) fn unmark(&mut self, key: &[u8], number: u64) {
        self.delete(format::collection_key(self.database, number));
        self.marks.remove(self.database, number, format::place(key));
    }

    /// Whether the transaction itself may have given a key a collection: others do not know of that
    /// yet.
    pub(super) fn has_own_collection(&self, key: &[u8]) -> bool {
        self.marks.adds_any() && self.own_value(&format::record_key(self.database, key)).is_some()
    }

    /// Notes that a user's key was written to.
    pub(crate) fn touch(&mut self, key: &[u8]) {
        if self.store.locks.has_watchers() {
            self.touched.push((self.database, key.into()));
        }
    }

    /// Deletes everything of a database. All locks are held.
    pub(crate) fn empty(&mut self, database: u8) -> Result<(), Failure> {
        let own = std::mem::replace(&mut self.database, database);
        let (start, end) = format::everything(database);
        self.marks.clear(database);
        self.forget_orders_of(database);
        let emptied = self.empty_range(start, end);
        self.database = own;
        emptied
    }

    /// Deletes all records of a range of the database, and tells who watches a key that has one.
    /// All locks are held.
    pub(crate) fn empty_range(&mut self, start: InnerKey, end: InnerKey) -> Result<(), Failure> {
        for key in self.store.locks.watched(self.database) {
            let is_within = (&start..&end).contains(&&format::record_key(self.database, &key));
            if is_within && self.entry(&key)?.is_some() {
                self.touch(&key);
            }
        }
        self.delete_range(start, end);
        Ok(())
    }

    /// Commits what was written, under the locks that are held for it (S6). Replies that depend on
    /// the disk wait for it elsewhere (S3).
    pub(crate) fn commit(self, held: &Held<'_>) -> Result<Outcome, Failure> {
        self.commit_with(held, |_| Ok(()))
    }

    /// Commits the same together with what `also` adds.
    pub(crate) fn commit_with(
        mut self,
        held: &Held<'_>,
        also: impl FnOnce(&mut WriteBatch) -> alluvium::Result<()>,
    ) -> Result<Outcome, Failure> {
        let mut blind = self.blind.take();
        let mut own = WriteBatch::new().durability(Durability::Process);
        let batch = blind.as_mut().map_or(&mut own, |blind| &mut blind.batch);
        self.collect(batch)?;
        also(batch)?;
        if batch.is_empty() {
            self.keep_orders();
            return Ok(Outcome::Nothing);
        }
        // A SET that comes as soon as the locks are let go must find the marks, and none too few if
        // this fails.
        self.marks.before(&self.store.marks);
        self.store.db.write(batch)?;
        self.staged.keep();
        self.marks.after(&self.store.marks);
        self.keep_orders();
        if self.expiring > 0 {
            self.store
                .expiring
                .note(self.last_expiry_ms, self.expiring, self.expiring_keys);
        }
        for (database, key) in &self.touched {
            held.touch(*database, key);
        }
        if self.bytes <= KEPT_BATCH
            && let Some(mut blind) = blind
        {
            blind.batch.clear();
            SPARE.set(Some(blind));
        }
        Ok(Outcome::Committed)
    }

    /// Puts what is to be committed into a batch.
    fn collect(&self, batch: &mut WriteBatch) -> Result<(), Failure> {
        let data = &self.store.data;
        for (start, end) in &self.deleted {
            batch.delete_range(data, start, Some(end))?;
        }
        for (key, write) in &self.writes {
            match write {
                Write::Put { value, expires_ms } => put(batch, self.store, key, value, *expires_ms)?,
                Write::Delete => {
                    batch.delete(data, key)?;
                }
            }
        }
        for (key, count) in self.order_changes() {
            match count {
                Some(count) => batch.put(data, key, format::encode_number(count.into()))?,
                None => batch.delete(data, key)?,
            };
        }
        Ok(())
    }
}

fn put(
    batch: &mut WriteBatch,
    store: &Store,
    key: &[u8],
    value: &[u8],
    expires_ms: u64,
) -> Result<(), Failure> {
    // Beyond what a moment can be is never.
    let until = UNIX_EPOCH.checked_add(Duration::from_millis(expires_ms));
    match until.filter(|_| expires_ms != 0) {
        Some(until) => batch.put_until(&store.data, key, value, until)?,
        None => batch.put(&store.data, key, value)?,
    };
    Ok(())
}
