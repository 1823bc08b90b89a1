//! What commands read and write through: the store with their own writes laid over it, committed as
//! one.

use super::databases::{Numbers, database_of};
use super::kept::Keeping;
use super::locks::Held;
use super::marks::MarkChanges;
use super::order::Open;
use super::own_records::OwnRecords;
use super::records::Home;
use super::staging::Staged;
use super::vacancies::Vacancies;
use super::within::Within;
use super::{Reading, Store, scan};
use crate::error::Failure;
use crate::model::format::{self, InnerKey};
use crate::model::{Collection, Entry, Found};
use alluvium::Durability;
use alluvium::{OwnWrite, Value, WriteBatch, WriteSet};
use smallvec::SmallVec;
use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How far a lookup may be behind what was collected for it.
const AHEAD: usize = 16;

/// The memory of batches up to this size is kept for the next one of the same thread. There may be
/// as many threads as writers that wait.
const KEPT_BATCH: usize = 64 << 10;

thread_local! {
    /// Batches that are empty, with the memory that they had.
    static SPARE: Cell<Option<Box<Blind>>> = const { Cell::new(None) };
}

/// Writes of commands that do not look at what is there, as they will be committed, in their order.
/// No command reads them before.
struct Blind {
    batch: WriteBatch,
    /// Where a record is put together.
    record: Vec<u8>,
}

impl Blind {
    /// Returns an empty batch, with memory if this thread has kept any.
    fn spare() -> Box<Blind> {
        let new = || {
            Box::new(Blind {
                batch: WriteBatch::new().durability(Durability::Process),
                record: Vec::new(),
            })
        };
        SPARE.take().unwrap_or_else(new)
    }
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
    /// The number that the database is stored under which keys are of.
    pub(crate) database: u8,
    /// The number of the client whose commands they are, or 0: it holds the cursors of its walks.
    pub(crate) client: u64,
    /// Under which numbers databases are to be stored, if any were swapped.
    swapped: Option<Box<Numbers>>,
    /// The time of all that it does.
    pub(crate) now_ms: u64,
    prefetched: Vec<(InnerKey, Option<Value>)>,
    /// Where the next lookup of something prefetched probably is.
    next: usize,
    /// Elements that were read for commands to come, where the next of them probably is, and the
    /// memory that they take.
    elements: Vec<(InnerKey, Option<Value>)>,
    next_element: Cell<usize>,
    elements_reading: Option<Reading>,
    /// Where writes go when no command reads them: in a transaction of commands that are all blind.
    blind: Option<Box<Blind>>,
    /// Where they go otherwise; nothing as long as nothing was written.
    pub(super) writes: Option<Box<WriteSet>>,
    /// Where writes to records go, where those have no order.
    pub(super) records: Option<Box<OwnRecords>>,
    /// The record of the collection that commands work on.
    pub(super) keeping: Keeping,
    /// Which keys have got collections, and which have lost theirs, if any.
    marks: Option<Box<MarkChanges>>,
    /// Orders of sorted sets that were asked for.
    pub(super) orders: Vec<Open>,
    /// Collections whose elements were written before.
    pub(super) staged: Staged<'s>,
    /// Where walks have found no elements, once there are writes.
    pub(super) vacancies: Vacancies,
    /// The memory of what was read last.
    reading: Cell<Option<Reading>>,
    /// The transaction of a client that it is a part of, if any: what is read comes from there.
    pub(super) within: Option<Box<Within<'s>>>,
    /// User's keys that were written to, by the databases that clients know.
    touched: Vec<(u8, Box<[u8]>)>,
    /// How many bytes were written blindly.
    bytes: usize,
    /// How many bytes expire, and when the last ones do.
    expiring: u64,
    expiring_keys: u64,
    last_expiry_ms: u64,
}

impl<'s> Transaction<'s> {
    #[inline]
    pub(crate) fn new(store: &'s Store, database: u8) -> Transaction<'s> {
        Transaction::with(store, database, None)
    }

    /// One for commands that overwrite whatever is there, and ask for nothing that they have
    /// written: it does not see its own writes.
    #[inline]
    pub(crate) fn blind(store: &'s Store, database: u8) -> Transaction<'s> {
        Transaction::with(store, database, Some(Blind::spare()))
    }

    #[inline]
    fn with(store: &'s Store, database: u8, blind: Option<Box<Blind>>) -> Transaction<'s> {
        Transaction {
            store,
            database,
            client: 0,
            swapped: None,
            now_ms: store.now_ms(),
            prefetched: Vec::new(),
            next: 0,
            elements: Vec::new(),
            next_element: Cell::new(0),
            elements_reading: None,
            blind,
            writes: None,
            records: None,
            keeping: Keeping::default(),
            marks: None,
            orders: Vec::new(),
            staged: Staged::default(),
            vacancies: Vacancies::default(),
            reading: Cell::new(None),
            within: None,
            touched: Vec::new(),
            bytes: 0,
            expiring: 0,
            expiring_keys: 0,
            last_expiry_ms: 0,
        }
    }

    /// About how many bytes its writes take.
    pub(crate) fn bytes(&self) -> usize {
        let records = self.records.as_ref().map_or(0, |records| records.memory());
        self.bytes + records + self.writes.as_ref().map_or(0, |writes| writes.memory())
    }

    fn writes(&mut self) -> &mut WriteSet {
        let new = || Box::new(WriteSet::new(&self.store.data));
        self.writes.get_or_insert_with(new)
    }

    fn marks(&mut self) -> &mut MarkChanges {
        self.marks.get_or_insert_default()
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

    /// Returns the collection that a record has which was read beforehand. `from` is about where
    /// that is among those, and moves on.
    pub(crate) fn known_collection(&self, key: &[u8], from: &mut usize) -> Option<Collection> {
        let place = format::record_key(self.database, key);
        let mut ahead = self.prefetched.iter().skip(*from).take(AHEAD);
        let step = ahead.position(|(name, _)| *name == place)?;
        *from += step;
        let record = self.prefetched[*from].1.as_deref()?;
        match Entry::read(Found::Borrowed(record), self.now_ms) {
            Ok(Some(Entry::Collection(collection))) => Some(collection),
            _ => None,
        }
    }

    /// Reads elements at once, for commands to come. The locks of their keys are held.
    pub(crate) fn prefetch_elements(&mut self, places: Vec<InnerKey>) -> Result<(), Failure> {
        if places.is_empty() {
            return Ok(());
        }
        let (values, reading) = self.store.read_places(&places)?;
        self.elements = places.into_iter().zip(values).collect();
        self.elements_reading = reading;
        Ok(())
    }

    /// An element that was read beforehand, if it is near where the last one was: what the store
    /// has of it.
    fn element(&self, key: &[u8]) -> Option<Option<&Value>> {
        let next = self.next_element.get();
        let mut ahead = self.elements.iter().skip(next).take(AHEAD);
        let step = ahead.position(|(name, _)| **name == *key)?;
        self.next_element.set(next + step);
        Some(self.elements[next + step].1.as_ref())
    }

    /// Whether records were read beforehand.
    pub(super) fn is_prefetched(&self) -> bool {
        !self.prefetched.is_empty()
    }

    /// Returns where a prefetched key is, if it is the last one that was asked for or near it:
    /// commands ask in the order in which keys were collected. Other keys are read once more.
    fn prefetched(&mut self, key: &[u8]) -> Option<usize> {
        let ahead = self.prefetched.iter().skip(self.next).take(AHEAD);
        let step = ahead.into_iter().position(|(name, _)| **name == *key)?;
        self.next += step;
        Some(self.next)
    }

    /// Whether the transaction itself says what a key has.
    fn own(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.is_hashed(key) {
            return self.records.as_ref()?.own(key);
        }
        self.writes.as_ref()?.own(key).map(OwnWrite::value)
    }

    /// Whether a key is the place of a record that has no order.
    #[inline]
    fn is_hashed(&self, key: &[u8]) -> bool {
        self.store.records.home(key) != Home::Ordered
    }

    /// The value that the transaction itself has given a key.
    pub(crate) fn own_value(&self, key: &[u8]) -> Option<&[u8]> {
        self.own(key).flatten()
    }

    /// Whether what the store has of a key is in a range that was deleted.
    pub(super) fn is_deleted(&self, key: &[u8]) -> bool {
        self.writes.as_ref().is_some_and(|writes| writes.hides(key))
    }

    /// Values of the store. The memory that long ones take is charged until the next ones are read.
    fn read(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>, Failure> {
        drop(self.reading.take());
        if let Some(within) = &self.within {
            self.reading.set(self.store.wait_for_room_to_read(keys.len()));
            return within.read(self.store, keys);
        }
        let (values, reading) = self.store.read_places(keys)?;
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
        if !self.elements.is_empty() && self.element(key).is_some() {
            return Ok(self.element(key).flatten().map(|value| Found::Borrowed(value)));
        }
        Ok(self.read(&[key])?.pop().flatten().map(Found::Owned))
    }

    /// Whether keys have values, read at once.
    pub(crate) fn are_there(&self, keys: &[InnerKey]) -> Result<SmallVec<[bool; 4]>, Failure> {
        let (mut answers, mut unknown) = (SmallVec::new(), SmallVec::<[usize; 4]>::new());
        for (index, key) in keys.iter().enumerate() {
            let known = match self.own(key) {
                Some(value) => Some(value.is_some()),
                None => self.element(key).map(|value| value.is_some()),
            };
            answers.push(known == Some(true));
            if known.is_none() {
                unknown.push(index);
            }
        }
        if !unknown.is_empty() {
            let names: SmallVec<[&[u8]; 4]> = unknown.iter().map(|&index| &keys[index][..]).collect();
            for (index, value) in unknown.into_iter().zip(self.read(&names)?) {
                answers[index] = value.is_some();
            }
        }
        Ok(answers)
    }

    /// The values of many keys, read at once.
    pub(crate) fn multi_get(&self, keys: &[InnerKey]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let mut answers = Vec::with_capacity(keys.len());
        let mut unknown = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            match self.own(key) {
                Some(value) => answers.push(value.map(<[u8]>::to_vec)),
                None => match self.element(key) {
                    Some(value) => answers.push(value.map(|value| value.to_vec())),
                    None => {
                        answers.push(None);
                        unknown.push(index);
                    }
                },
            }
        }
        if unknown.is_empty() {
            return Ok(answers);
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
        debug_assert!(
            !self.keeping.has_any() || !format::is_record(&key),
            "records are written when none is kept"
        );
        self.store.sizes.note_kept(value.len());
        self.count_expiring(key.len() + value.len(), expires_ms);
        if let Some(within) = &mut self.within {
            within.wrote(&key, expires_ms);
        }
        if self.is_hashed(&key) {
            self.records.get_or_insert_default().put(key, value, expires_ms);
            return;
        }
        self.vacancies.fill(&key);
        match moment(expires_ms) {
            Some(until) => self.writes().put_until(key, value, until),
            None => self.writes().put(key, value),
        }
    }

    /// The user's key has this string, whatever it had.
    pub(super) fn put_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure> {
        let place = format::record_key(self.database, key);
        let Some(blind) = &mut self.blind else {
            self.put(place, format::encode_text(parts, expires_ms), expires_ms);
            return Ok(());
        };
        let Blind { batch, record } = &mut **blind;
        record.clear();
        format::write_text(record, parts, expires_ms);
        let bytes = place.len() + record.len();
        self.store.sizes.note_kept(record.len());
        let (space, name) = match self.store.records.home(&place) {
            Home::Ordered => (&self.store.data, &place[..]),
            Home::Records(database) => (self.store.records.space(database)?, key),
        };
        match moment(expires_ms) {
            Some(until) => batch.put_until(space, name, &*record, until)?,
            None => batch.put(space, name, &*record)?,
        };
        if record.capacity() > KEPT_BATCH {
            // The batch waits with its copy, which is enough.
            *record = Vec::new();
        }
        self.bytes += bytes;
        self.count_expiring(bytes, expires_ms);
        Ok(())
    }

    fn count_expiring(&mut self, bytes: usize, expires_ms: u64) {
        if expires_ms != 0 {
            self.expiring += bytes as u64;
            self.expiring_keys += 1;
            self.last_expiry_ms = self.last_expiry_ms.max(expires_ms);
        }
    }

    /// The key has no value.
    pub(crate) fn delete(&mut self, key: InnerKey) {
        debug_assert!(
            !self.keeping.has_any() || !format::is_record(&key),
            "records are deleted when none is kept"
        );
        if let Some(within) = &mut self.within {
            within.wrote(&key, 0);
        }
        if self.is_hashed(&key) {
            self.records.get_or_insert_default().delete(key);
            return;
        }
        self.writes().delete(key);
    }

    /// No key of the range has a value.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "callers make the keys for this call"
    )]
    pub(crate) fn delete_range(&mut self, start: InnerKey, end: InnerKey) {
        if let Some(within) = &mut self.within {
            within.deleted_range(&start, &end);
        }
        self.writes().delete_range(start, Some(&end));
    }

    /// Everything from `start` on and before `end`, in order.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "callers make the keys for this call"
    )]
    pub(crate) fn scan(&self, start: InnerKey, end: InnerKey, direction: scan::Direction) -> scan::Scan<'_> {
        assert!(
            !self.is_hashed(&start),
            "records without order are walked over by `walk_records`"
        );
        scan::Scan::new(self, &start, &end, direction, scan::Values::All)
    }

    /// The same where values do not matter, but for short ones.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "callers make the keys for this call"
    )]
    pub(crate) fn scan_keys(
        &self,
        start: InnerKey,
        end: InnerKey,
        direction: scan::Direction,
    ) -> scan::Scan<'_> {
        scan::Scan::new(self, &start, &end, direction, scan::Values::Short)
    }

    /// Notes that a key has a collection.
    pub(crate) fn mark(&mut self, key: &[u8], number: u64) {
        let hash = format::place(key);
        let note = format::collection_key(self.database, number);
        self.put(note, format::encode_number(hash).to_vec(), 0);
        let database = self.database;
        self.marks().add(database, number, hash);
    }

    /// Notes that a key has that collection no longer.
    pub(crate) fn unmark(&mut self, key: &[u8], number: u64) {
        self.delete(format::collection_key(self.database, number));
        let database = self.database;
        self.marks().remove(database, number, format::place(key));
    }

    /// Whether the transaction itself may have given a key a collection: others do not know of that
    /// yet.
    pub(super) fn has_own_collection(&self, key: &[u8]) -> bool {
        let adds_any = self.marks.as_ref().is_some_and(|marks| marks.adds_any());
        adds_any && self.own_value(&format::record_key(self.database, key)).is_some()
    }

    /// Takes what keys have got collections, or have lost theirs.
    pub(super) fn take_marks(&mut self) -> MarkChanges {
        self.marks
            .take()
            .map_or_else(MarkChanges::default, |marks| *marks)
    }

    /// Returns whether it is a part of the transaction of a client.
    pub(crate) fn is_within(&self) -> bool {
        self.within.is_some()
    }

    /// Notes that a user's key was written to.
    pub(crate) fn touch(&mut self, key: &[u8]) {
        if let Some(within) = &mut self.within {
            within.touched(self.database, key);
        }
        if self.store.locks.has_watchers() {
            self.touched.push((self.client_database(), key.into()));
        }
    }

    /// The numbers that databases are stored under, as the transaction sees them.
    fn numbers(&self) -> Numbers {
        match &self.swapped {
            Some(numbers) => **numbers,
            None => self.store.databases.numbers(),
        }
    }

    /// What clients call the database that the transaction is for.
    pub(crate) fn client_database(&self) -> u8 {
        database_of(&self.numbers(), self.database)
    }

    /// The number that a database is stored under, as the transaction sees it.
    #[inline]
    pub(crate) fn number_of(&self, database: u8) -> u8 {
        match &self.swapped {
            Some(numbers) => numbers[usize::from(database)],
            None => self.store.databases.number_of(database),
        }
    }

    /// Lets two databases change places, and tells those who watch keys that are in one of them.
    /// All locks are held.
    pub(crate) fn swap(&mut self, one: u8, other: u8) -> Result<(), Failure> {
        let mut numbers = self.numbers();
        let (first, second) = (numbers[usize::from(one)], numbers[usize::from(other)]);
        let now = self.database;
        for database in [one, other] {
            for key in self.store.locks.watched(database) {
                let mut is_there = false;
                for number in [first, second] {
                    self.database = number;
                    is_there |= self.entry(&key)?.is_some();
                }
                if is_there {
                    self.touched.push((database, key));
                }
            }
        }
        // What follows is for the database that it was for, wherever that is now.
        self.database = match now {
            _ if now == first => second,
            _ if now == second => first,
            _ => now,
        };
        numbers.swap(usize::from(one), usize::from(other));
        self.put(
            format::databases_key(),
            format::encode_databases(&numbers).to_vec(),
            0,
        );
        self.swapped = Some(Box::new(numbers));
        Ok(())
    }

    /// Deletes everything of a database. All locks are held.
    pub(crate) fn empty(&mut self, database: u8) -> Result<(), Failure> {
        let own = std::mem::replace(&mut self.database, database);
        let (start, end) = format::everything(database);
        self.marks().clear(database);
        self.forget_orders_of(database);
        let emptied = self.empty_range(start, end);
        if self.store.records.are_hashed() {
            self.records.get_or_insert_default().empty(database);
        }
        self.database = own;
        emptied
    }

    /// Deletes all records of a range of the database, and tells who watches a key that has one.
    /// All locks are held.
    pub(crate) fn empty_range(&mut self, start: InnerKey, end: InnerKey) -> Result<(), Failure> {
        let database = database_of(&self.numbers(), self.database);
        for key in self.store.locks.watched(database) {
            let is_within = (&start..&end).contains(&&format::record_key(self.database, &key));
            if is_within && self.entry(&key)?.is_some() {
                self.touch(&key);
            }
        }
        self.delete_range(start, end);
        Ok(())
    }

    /// Commits what was written, under the locks that are held for it (S6). The transaction is done
    /// with then. Replies that depend on the disk wait for it elsewhere (S3).
    #[inline]
    pub(crate) fn commit(&mut self, held: &Held<'_>) -> Result<Outcome, Failure> {
        self.write_kept();
        // As it is after commands that only read.
        let is_written = self.blind.is_some() || self.writes.is_some() || self.records.is_some();
        if !is_written && self.orders.is_empty() {
            return Ok(Outcome::Nothing);
        }
        self.commit_with(held, |_| Ok(()))
    }

    /// Commits the same together with what `also` adds.
    pub(crate) fn commit_with(
        &mut self,
        held: &Held<'_>,
        also: impl FnOnce(&mut WriteBatch) -> alluvium::Result<()>,
    ) -> Result<Outcome, Failure> {
        self.write_kept();
        let is_short = self.bytes() <= KEPT_BATCH;
        let mut spare = self.blind.take().unwrap_or_else(Blind::spare);
        let batch = &mut spare.batch;
        self.collect(batch)?;
        also(batch)?;
        if batch.is_empty() {
            self.keep_orders();
            return Ok(Outcome::Nothing);
        }
        // A SET that comes as soon as the locks are let go must find the marks, and none too few if
        // this fails.
        let marks = self.marks.take();
        if let Some(changes) = &marks {
            changes.before(&self.store.marks);
        }
        self.store.db.write(batch)?;
        (self.writes, self.records) = (None, None);
        if let Some(numbers) = self.swapped.take() {
            self.store.databases.set(&numbers);
        }
        self.staged.keep();
        if let Some(changes) = &marks {
            changes.after(&self.store.marks);
        }
        self.keep_orders();
        if self.expiring > 0 {
            self.store
                .expiring
                .note(self.last_expiry_ms, self.expiring, self.expiring_keys);
        }
        for (database, key) in &self.touched {
            held.touch(*database, key);
        }
        if is_short {
            spare.batch.clear();
            SPARE.set(Some(spare));
        }
        Ok(Outcome::Committed)
    }

    /// Puts what is to be committed into a batch.
    #[inline]
    fn collect(&self, batch: &mut WriteBatch) -> Result<(), Failure> {
        if let Some(writes) = &self.writes {
            writes.add_to(batch)?;
        }
        if let Some(records) = &self.records {
            records.add_to(batch, &self.store.records)?;
        }
        if self.orders.is_empty() {
            return Ok(());
        }
        let data = &self.store.data;
        for (key, count) in self.order_changes() {
            match count {
                Some(count) => batch.put(data, key, format::encode_number(count.into()))?,
                None => batch.delete(data, key)?,
            };
        }
        Ok(())
    }
}

/// When a value expires, if it does. Beyond what a moment can be is never.
pub(super) fn moment(expires_ms: u64) -> Option<SystemTime> {
    let until = UNIX_EPOCH.checked_add(Duration::from_millis(expires_ms));
    until.filter(|_| expires_ms != 0)
}
