//! The transaction of a batch of commands: reads of the store merged with own writes, committed
//! atomically.

use super::collection_filter::MarkChanges;
use super::databases::{DatabaseNumbers, database_of};
use super::deferred_record::RecordDeferral;
use super::locks::KeyLockGuard;
use super::model::format::{self, InnerKey};
use super::model::{CollectionHeader, RecordBytes, TypedValue};
use super::nested_transaction::NestedTransaction;
use super::order::OpenOrder;
use super::own_records::OwnRecords;
use super::records::KeyPlacement;
use super::staged_writes::StagedCollections;
use super::vacant_ranges::VacantRanges;
use super::{ReadReservation, ServerStore, scan};
use crate::error::CommandError;
use alluvium::Durability;
use alluvium::{OwnWrite, Value, WriteBatch, WriteSet};
use smallvec::SmallVec;
use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Number of prefetched keys after the expected position in which a lookup searches.
const AHEAD: usize = 16;

/// Largest batch, in bytes, whose memory a thread keeps for its next one. There may be as many
/// threads as waiting writers.
const KEPT_BATCH: usize = 64 << 10;

thread_local! {
    /// An empty batch with its memory, for reuse.
    static SPARE: Cell<Option<Box<BlindBatch>>> = const { Cell::new(None) };
}

/// Writes of blind commands in order, ready for the commit. No command reads them before.
struct BlindBatch {
    batch: WriteBatch,
    /// Buffer for encoding a record.
    record: Vec<u8>,
}

impl BlindBatch {
    /// Returns an empty batch, with reused memory if this thread has some.
    fn spare() -> Box<BlindBatch> {
        let new = || {
            Box::new(BlindBatch {
                batch: WriteBatch::new().durability(Durability::Process),
                record: Vec::new(),
            })
        };
        SPARE.take().unwrap_or_else(new)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    Committed,
    Nothing,
}

/// Reads and writes of one or several commands that take effect together. It sees its own writes.
pub(crate) struct CommandTransaction<'s> {
    pub(crate) store: &'s ServerStore,
    /// The stored number of the selected database.
    pub(crate) database: u8,
    /// The number of the client that sent the commands, or 0. It owns the cursors of its walks.
    pub(crate) client: u64,
    /// The new mapping of databases, if any were swapped.
    swapped: Option<Box<DatabaseNumbers>>,
    /// The time for all commands of the transaction.
    pub(crate) now_ms: u64,
    prefetched: Vec<(InnerKey, Option<Value>)>,
    /// Expected position of the next lookup in `prefetched`.
    next: usize,
    /// Prefetched elements, the expected position of the next lookup, and their memory charge.
    elements: Vec<(InnerKey, Option<Value>)>,
    next_element: Cell<usize>,
    elements_reading: Option<ReadReservation>,
    /// Writes of a transaction that consists of blind commands.
    blind: Option<Box<BlindBatch>>,
    /// Writes of any other transaction. `None` until the first write.
    pub(super) writes: Option<Box<WriteSet>>,
    /// Writes to records if these are hashed.
    pub(super) records: Option<Box<OwnRecords>>,
    /// The decoded record of the collection that commands work on.
    pub(super) keeping: RecordDeferral,
    /// Keys that have gained or lost collections, if any.
    marks: Option<Box<MarkChanges>>,
    /// Orders of sorted sets that were read or changed.
    pub(super) orders: Vec<OpenOrder>,
    /// Collections whose elements were committed in advance.
    pub(super) staged: StagedCollections<'s>,
    /// Ranges in which walks have found no elements, maintained once there are writes.
    pub(super) vacancies: VacantRanges,
    /// The memory charge of the last read.
    reading: Cell<Option<ReadReservation>>,
    /// The client's transaction that this one is nested in, if any. Reads go through it.
    pub(super) within: Option<Box<NestedTransaction<'s>>>,
    /// User keys written to, with the databases as clients know them.
    touched: Vec<(u8, Box<[u8]>)>,
    /// Number of bytes written blindly.
    bytes: usize,
    /// Bytes and keys written with an expiry time, and the latest of these times.
    expiring: u64,
    expiring_keys: u64,
    last_expiry_ms: u64,
}

impl<'s> CommandTransaction<'s> {
    #[inline]
    pub(crate) fn new(store: &'s ServerStore, database: u8) -> CommandTransaction<'s> {
        CommandTransaction::with(store, database, None)
    }

    /// Creates a transaction for blind commands, which overwrite keys without reading. It does not
    /// see its own writes.
    #[inline]
    pub(crate) fn blind(store: &'s ServerStore, database: u8) -> CommandTransaction<'s> {
        CommandTransaction::with(store, database, Some(BlindBatch::spare()))
    }

    #[inline]
    fn with(store: &'s ServerStore, database: u8, blind: Option<Box<BlindBatch>>) -> CommandTransaction<'s> {
        CommandTransaction {
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
            keeping: RecordDeferral::default(),
            marks: None,
            orders: Vec::new(),
            staged: StagedCollections::default(),
            vacancies: VacantRanges::default(),
            reading: Cell::new(None),
            within: None,
            touched: Vec::new(),
            bytes: 0,
            expiring: 0,
            expiring_keys: 0,
            last_expiry_ms: 0,
        }
    }

    /// Returns the approximate memory of its writes in bytes.
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

    /// Reads the records of many keys in one request, for later commands. Either the keys are
    /// locked, or each is read by one command only.
    pub(crate) fn prefetch(&mut self, keys: Vec<InnerKey>) -> Result<(), CommandError> {
        let values = self.read(&keys)?;
        self.has_read(keys, values);
        Ok(())
    }

    /// Stores prefetched records, in the order in which commands will read them.
    pub(crate) fn has_read(&mut self, keys: Vec<InnerKey>, values: Vec<Option<Value>>) {
        for value in values.iter().flatten() {
            self.store.sizes.note_kept(value.len());
        }
        self.prefetched = keys.into_iter().zip(values).collect();
        self.next = 0;
    }

    /// Returns the collection of a prefetched record. `from` is its expected position, which is
    /// advanced.
    pub(crate) fn known_collection(&self, key: &[u8], from: &mut usize) -> Option<CollectionHeader> {
        let place = format::record_key(self.database, key);
        let mut ahead = self.prefetched.iter().skip(*from).take(AHEAD);
        let step = ahead.position(|(name, _)| *name == place)?;
        *from += step;
        let record = self.prefetched[*from].1.as_deref()?;
        match TypedValue::read(RecordBytes::Borrowed(record), self.now_ms) {
            Ok(Some(TypedValue::Collection(collection))) => Some(collection),
            _ => None,
        }
    }

    /// Reads elements in one request, for later commands. The caller holds the locks of their keys.
    pub(crate) fn prefetch_elements(&mut self, places: Vec<InnerKey>) -> Result<(), CommandError> {
        if places.is_empty() {
            return Ok(());
        }
        let (values, reading) = self.store.read_places(&places)?;
        self.elements = places.into_iter().zip(values).collect();
        self.elements_reading = reading;
        Ok(())
    }

    /// Returns the stored value of a prefetched element if it is near the previous one.
    fn element(&self, key: &[u8]) -> Option<Option<&Value>> {
        let next = self.next_element.get();
        let mut ahead = self.elements.iter().skip(next).take(AHEAD);
        let step = ahead.position(|(name, _)| **name == *key)?;
        self.next_element.set(next + step);
        Some(self.elements[next + step].1.as_ref())
    }

    /// Returns whether records were prefetched.
    pub(super) fn is_prefetched(&self) -> bool {
        !self.prefetched.is_empty()
    }

    /// Returns the position of a prefetched key if it is at or near the expected position. Commands
    /// look keys up in the order in which they were collected. A key that is not found is read
    /// again.
    fn prefetched(&mut self, key: &[u8]) -> Option<usize> {
        let ahead = self.prefetched.iter().skip(self.next).take(AHEAD);
        let step = ahead.into_iter().position(|(name, _)| **name == *key)?;
        self.next += step;
        Some(self.next)
    }

    /// Returns the transaction's own write of a key, if any.
    fn own(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.is_hashed(key) {
            return self.records.as_ref()?.own(key);
        }
        self.writes.as_ref()?.own(key).map(OwnWrite::value)
    }

    /// Returns whether a key is the key of a hashed record.
    #[inline]
    fn is_hashed(&self, key: &[u8]) -> bool {
        self.store.records.home(key) != KeyPlacement::Ordered
    }

    /// Returns the value that the transaction itself has written to a key.
    pub(crate) fn own_value(&self, key: &[u8]) -> Option<&[u8]> {
        self.own(key).flatten()
    }

    /// Returns whether a key is in a range that the transaction has deleted.
    pub(super) fn is_deleted(&self, key: &[u8]) -> bool {
        self.writes.as_ref().is_some_and(|writes| writes.hides(key))
    }

    /// Reads values from the store. The memory of long ones is charged until the next read.
    fn read(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>, CommandError> {
        drop(self.reading.take());
        if let Some(within) = &self.within {
            self.reading.set(self.store.wait_for_room_to_read(keys.len()));
            return within.read(self.store, keys);
        }
        let (values, reading) = self.store.read_places(keys)?;
        self.reading.set(reading);
        Ok(values)
    }

    /// Takes over the memory charge of a read.
    pub(crate) fn take_over(&mut self, reading: Option<ReadReservation>) {
        self.reading.set(reading);
    }

    /// Returns the value of a key.
    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<RecordBytes<'_>>, CommandError> {
        if self.own(key).is_some() {
            return Ok(self.own(key).flatten().map(RecordBytes::Borrowed));
        }
        if let Some(index) = self.prefetched(key) {
            return Ok(self.prefetched[index].1.as_deref().map(RecordBytes::Borrowed));
        }
        if !self.elements.is_empty() && self.element(key).is_some() {
            return Ok(self
                .element(key)
                .flatten()
                .map(|value| RecordBytes::Borrowed(value)));
        }
        Ok(self.read(&[key])?.pop().flatten().map(RecordBytes::Owned))
    }

    /// Returns which keys have values, with one read.
    pub(crate) fn are_there(&self, keys: &[InnerKey]) -> Result<SmallVec<[bool; 4]>, CommandError> {
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

    /// Returns the values of many keys, with one read.
    pub(crate) fn multi_get(&self, keys: &[InnerKey]) -> Result<Vec<Option<Vec<u8>>>, CommandError> {
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

    /// Sets the value of a key. It expires at `expires_ms`, or never if that is 0.
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

    /// Sets a user key to a string, whatever it held.
    pub(super) fn put_text(
        &mut self,
        key: &[u8],
        parts: &[&[u8]],
        expires_ms: u64,
    ) -> Result<(), CommandError> {
        let place = format::record_key(self.database, key);
        let Some(blind) = &mut self.blind else {
            self.put(place, format::encode_text(parts, expires_ms), expires_ms);
            return Ok(());
        };
        let BlindBatch { batch, record } = &mut **blind;
        record.clear();
        format::write_text(record, parts, expires_ms);
        let bytes = place.len() + record.len();
        self.store.sizes.note_kept(record.len());
        let (space, name) = match self.store.records.home(&place) {
            KeyPlacement::Ordered => (&self.store.data, &place[..]),
            KeyPlacement::Records(database) => (self.store.records.space(database)?, key),
        };
        match moment(expires_ms) {
            Some(until) => batch.put_until(space, name, &*record, until)?,
            None => batch.put(space, name, &*record)?,
        };
        if record.capacity() > KEPT_BATCH {
            // The batch holds a copy of the record; free the buffer while waiting.
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

    /// Deletes a range of keys.
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

    /// Walks over the keys from `start` to `end`, exclusive.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "callers make the keys for this call"
    )]
    pub(crate) fn scan(
        &self,
        start: InnerKey,
        end: InnerKey,
        direction: scan::WalkDirection,
    ) -> scan::TransactionScan<'_> {
        assert!(
            !self.is_hashed(&start),
            "records without order are walked over by `walk_records`"
        );
        scan::TransactionScan::new(self, &start, &end, direction, scan::ValueSelection::All)
    }

    /// Like the scan above, but long values may be replaced by empty ones.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "callers make the keys for this call"
    )]
    pub(crate) fn scan_keys(
        &self,
        start: InnerKey,
        end: InnerKey,
        direction: scan::WalkDirection,
    ) -> scan::TransactionScan<'_> {
        scan::TransactionScan::new(self, &start, &end, direction, scan::ValueSelection::Short)
    }

    /// Marks a key as having a collection.
    pub(crate) fn mark(&mut self, key: &[u8], number: u64) {
        let hash = format::place(key);
        let note = format::collection_key(self.database, number);
        self.put(note, format::encode_number(hash).to_vec(), 0);
        let database = self.database;
        self.marks().add(database, number, hash);
    }

    /// Removes the mark of a key's collection.
    pub(crate) fn unmark(&mut self, key: &[u8], number: u64) {
        self.delete(format::collection_key(self.database, number));
        let database = self.database;
        self.marks().remove(database, number, format::place(key));
    }

    /// Returns whether this transaction may itself have given a key a collection, which is not
    /// visible to other commands yet.
    pub(super) fn has_own_collection(&self, key: &[u8]) -> bool {
        let adds_any = self.marks.as_ref().is_some_and(|marks| marks.adds_any());
        adds_any && self.own_value(&format::record_key(self.database, key)).is_some()
    }

    /// Takes the changes of marks.
    pub(super) fn take_marks(&mut self) -> MarkChanges {
        self.marks
            .take()
            .map_or_else(MarkChanges::default, |marks| *marks)
    }

    /// Returns whether it is nested in a client's transaction.
    pub(crate) fn is_within(&self) -> bool {
        self.within.is_some()
    }

    /// Records a write to a user key.
    pub(crate) fn touch(&mut self, key: &[u8]) {
        if let Some(within) = &mut self.within {
            within.touched(self.database, key);
        }
        if self.store.locks.has_watchers() {
            self.touched.push((self.client_database(), key.into()));
        }
    }

    /// Returns the mapping of databases as the transaction sees it.
    fn numbers(&self) -> DatabaseNumbers {
        match &self.swapped {
            Some(numbers) => **numbers,
            None => self.store.databases.numbers(),
        }
    }

    /// Returns the database of the transaction as clients know it.
    pub(crate) fn client_database(&self) -> u8 {
        database_of(&self.numbers(), self.database)
    }

    /// Returns the stored number of a database as the transaction sees it.
    #[inline]
    pub(crate) fn number_of(&self, database: u8) -> u8 {
        match &self.swapped {
            Some(numbers) => numbers[usize::from(database)],
            None => self.store.databases.number_of(database),
        }
    }

    /// Swaps two databases and notifies the watchers of keys in either of them. The caller holds
    /// all locks.
    pub(crate) fn swap(&mut self, one: u8, other: u8) -> Result<(), CommandError> {
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
        // Later commands continue on the client's database, which is now stored under the other
        // number.
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

    /// Deletes everything in a database. The caller holds all locks.
    pub(crate) fn empty(&mut self, database: u8) -> Result<(), CommandError> {
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

    /// Deletes all records in a range of the database, and notifies the watchers of deleted keys.
    /// The caller holds all locks.
    pub(crate) fn empty_range(&mut self, start: InnerKey, end: InnerKey) -> Result<(), CommandError> {
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

    /// Commits the writes, under the locks held for them (S6). The transaction must not be used
    /// afterwards. Replies that must wait for the disk do so elsewhere (S3).
    #[inline]
    pub(crate) fn commit(&mut self, held: &KeyLockGuard<'_>) -> Result<CommitOutcome, CommandError> {
        self.write_kept();
        // The usual case after read-only commands.
        let is_written = self.blind.is_some() || self.writes.is_some() || self.records.is_some();
        if !is_written && self.orders.is_empty() {
            return Ok(CommitOutcome::Nothing);
        }
        self.commit_with(held, |_| Ok(()))
    }

    /// Commits the writes together with the writes added by `also`.
    pub(crate) fn commit_with(
        &mut self,
        held: &KeyLockGuard<'_>,
        also: impl FnOnce(&mut WriteBatch) -> alluvium::Result<()>,
    ) -> Result<CommitOutcome, CommandError> {
        self.write_kept();
        let is_short = self.bytes() <= KEPT_BATCH;
        let mut spare = self.blind.take().unwrap_or_else(BlindBatch::spare);
        let batch = &mut spare.batch;
        self.collect(batch)?;
        also(batch)?;
        if batch.is_empty() {
            self.keep_orders();
            return Ok(CommitOutcome::Nothing);
        }
        // A SET that follows the release of the locks must find the marks, and none may be missing
        // if the commit fails.
        let marks = self.marks.take();
        if let Some(changes) = &marks {
            changes.apply_additions(&self.store.marks);
        }
        self.store.db.write(batch)?;
        (self.writes, self.records) = (None, None);
        if let Some(numbers) = self.swapped.take() {
            self.store.databases.set(&numbers);
        }
        self.staged.keep();
        if let Some(changes) = &marks {
            changes.apply_removals(&self.store.marks);
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
        Ok(CommitOutcome::Committed)
    }

    /// Adds all writes to a batch.
    #[inline]
    fn collect(&self, batch: &mut WriteBatch) -> Result<(), CommandError> {
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

/// Returns the expiry time of a value, if it expires. A time that is out of range counts as never.
pub(super) fn moment(expires_ms: u64) -> Option<SystemTime> {
    let until = UNIX_EPOCH.checked_add(Duration::from_millis(expires_ms));
    until.filter(|_| expires_ms != 0)
}
