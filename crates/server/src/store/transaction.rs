//! The transaction of a batch of commands. Its reads see the store merged with its own writes,
//! which it commits atomically.

use super::collection_filter::MarkChanges;
use super::commit_reports::CommitReports;
use super::databases::{DatabaseNumbers, database_of};
use super::deferred_record::RecordDeferral;
use super::key_events::{KeyChange, KeyEvent, KeyKind};
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

/// Number of prefetched keys, from the expected position on, that a lookup compares with its key.
const AHEAD: usize = 16;

/// Maximum size in bytes of a batch that a thread keeps for reuse. It is small because there may be
/// as many threads as waiting writers.
const KEPT_BATCH: usize = 64 << 10;

thread_local! {
    /// This thread's empty batch, kept to reuse its memory.
    static SPARE: Cell<Option<Box<BlindBatch>>> = const { Cell::new(None) };
}

/// The uncommitted writes of blind commands, which write keys without reading them. They are in
/// order and already encoded for the commit. No command reads them before the commit.
struct BlindBatch {
    batch: WriteBatch,
    /// Buffer for encoding records.
    record: Vec<u8>,
}

impl BlindBatch {
    /// Returns an empty batch, reusing the memory that this thread has kept, if any.
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

/// The reads and writes of one or more commands that take effect atomically. Reads see the
/// transaction's own writes, except those of blind commands.
pub(crate) struct CommandTransaction<'s> {
    pub(crate) store: &'s ServerStore,
    /// The selected database's stored number.
    pub(crate) database: u8,
    /// The ID of the client that sent the commands, or 0. SCAN cursors belong to this client.
    pub(crate) client: u64,
    /// The new database mapping, if the transaction has swapped any databases.
    swapped: Option<Box<DatabaseNumbers>>,
    /// The time that all commands of the transaction see, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    prefetched: Vec<(InnerKey, Option<Value>)>,
    /// Where in `prefetched` the next lookup is expected.
    next: usize,
    /// Prefetched elements of collections, where the next lookup is expected among them, and their
    /// memory charge.
    elements: Vec<(InnerKey, Option<Value>)>,
    next_element: Cell<usize>,
    elements_reading: Option<ReadReservation>,
    /// The writes, if all commands of the transaction are blind.
    blind: Option<Box<BlindBatch>>,
    /// The writes to the ordered keyspace, unless the commands are blind. `None` until the first
    /// write.
    pub(super) writes: Option<Box<WriteSet>>,
    /// The writes to hashed records. `None` until the first write.
    pub(super) records: Option<Box<OwnRecords>>,
    /// The deferred record of the collection that the commands are using.
    pub(super) keeping: RecordDeferral,
    /// The keys that have gained or lost collections. `None` if there are none.
    marks: Option<Box<MarkChanges>>,
    /// The rank indexes of the sorted sets that the transaction has read or changed.
    pub(super) orders: Vec<OpenOrder>,
    /// Collections whose elements are committed in advance.
    pub(super) staged: StagedCollections<'s>,
    /// Key ranges in which iterators found no elements. Maintained only once the transaction has
    /// writes.
    pub(super) vacancies: VacantRanges,
    /// The memory charge of the latest read.
    reading: Cell<Option<ReadReservation>>,
    /// The client's transaction in which this one is nested, if any. All reads go through it.
    pub(super) within: Option<Box<NestedTransaction<'s>>>,
    /// What the commit reports.
    pub(super) reports: CommitReports,
    /// Number of bytes that blind commands have written.
    pub(super) bytes: usize,
    /// Number of bytes and keys written with an expiry time, and the latest such time.
    expiring: u64,
    expiring_keys: u64,
    last_expiry_ms: u64,
}

impl<'s> CommandTransaction<'s> {
    #[inline]
    pub(crate) fn new(store: &'s ServerStore, database: u8) -> CommandTransaction<'s> {
        CommandTransaction::with(store, database, None)
    }

    /// Creates a transaction for blind commands, which overwrite keys without reading them. Its
    /// reads do not see its own writes.
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
            reports: CommitReports::default(),
            bytes: 0,
            expiring: 0,
            expiring_keys: 0,
            last_expiry_ms: 0,
        }
    }

    /// Returns the approximate memory of the transaction's writes in bytes.
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

    /// Reads the records of several keys in one request, so that the following commands find them
    /// in memory. The caller must either hold the locks of the keys or ensure that only one command
    /// reads each key.
    pub(crate) fn prefetch(&mut self, keys: Vec<InnerKey>) -> Result<(), CommandError> {
        let values = self.read(&keys)?;
        self.has_read(keys, values);
        Ok(())
    }

    /// Stores prefetched records, in the order in which the commands will read them.
    pub(crate) fn has_read(&mut self, keys: Vec<InnerKey>, values: Vec<Option<Value>>) {
        for value in values.iter().flatten() {
            self.store.sizes.note_kept(value.len());
        }
        self.prefetched = keys.into_iter().zip(values).collect();
        self.next = 0;
    }

    /// Returns a key's collection if its record was prefetched. `from` is the position at which the
    /// record is expected, and is advanced to where it was found.
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

    /// Prefetches elements of collections in one request, so that the following commands find them
    /// in memory. The caller must hold the locks of the collections' keys.
    pub(crate) fn prefetch_elements(&mut self, places: Vec<InnerKey>) -> Result<(), CommandError> {
        if places.is_empty() {
            return Ok(());
        }
        let (values, reading) = self.store.read_places(&places)?;
        self.elements = places.into_iter().zip(values).collect();
        self.elements_reading = reading;
        Ok(())
    }

    /// Returns an element's stored value if it was prefetched at or near the expected position.
    fn element(&self, key: &[u8]) -> Option<Option<&Value>> {
        let next = self.next_element.get();
        let mut ahead = self.elements.iter().skip(next).take(AHEAD);
        let step = ahead.position(|(name, _)| **name == *key)?;
        self.next_element.set(next + step);
        Some(self.elements[next + step].1.as_ref())
    }

    /// Returns whether any records were prefetched.
    pub(super) fn is_prefetched(&self) -> bool {
        !self.prefetched.is_empty()
    }

    /// Returns the position of a prefetched key at or near the expected position. Commands normally
    /// look up keys in the order in which they were prefetched. If this returns `None`, the caller
    /// reads the key again.
    fn prefetched(&mut self, key: &[u8]) -> Option<usize> {
        let ahead = self.prefetched.iter().skip(self.next).take(AHEAD);
        let step = ahead.into_iter().position(|(name, _)| **name == *key)?;
        self.next += step;
        Some(self.next)
    }

    /// Returns the value that the transaction has written to a key, or `Some(None)` if it has
    /// deleted the key. Returns `None` if it has done neither.
    fn own(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.is_hashed(key) {
            return self.records.as_ref()?.own(key);
        }
        self.writes.as_ref()?.own(key).map(OwnWrite::value)
    }

    /// Returns whether `key` belongs to a hashed record.
    #[inline]
    fn is_hashed(&self, key: &[u8]) -> bool {
        self.store.records.home(key) != KeyPlacement::Ordered
    }

    /// Returns the value that the transaction has written to a key, or `None` if it has deleted the
    /// key or not written it.
    pub(crate) fn own_value(&self, key: &[u8]) -> Option<&[u8]> {
        self.own(key).flatten()
    }

    /// Returns whether the transaction has deleted a key range that contains this key.
    pub(super) fn is_deleted(&self, key: &[u8]) -> bool {
        self.writes.as_ref().is_some_and(|writes| writes.hides(key))
    }

    /// Reads values from the store. Long values' memory remains charged until the next read.
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

    /// Holds a read's memory charge until the next read.
    pub(crate) fn take_over(&mut self, reading: Option<ReadReservation>) {
        self.reading.set(reading);
    }

    /// Returns a key's value, taking the transaction's own writes and prefetched values into
    /// account.
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

    /// Returns for each key whether it has a value, using at most one request to the store.
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

    /// Returns the values of several keys, using at most one request to the store.
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

    /// Writes a value that expires at `expires_ms` (milliseconds since 1970), or never if it is 0.
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

    /// Sets a user key to the concatenation of `parts`, without deleting a collection that the key
    /// may have.
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
            // The batch has a copy of the record, so free the large buffer before waiting for the
            // commit.
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

    /// Deletes all keys from `start` to `end` (exclusive).
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

    /// Returns an iterator over the keys from `start` to `end` (exclusive), in either direction.
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

    /// Like [`CommandTransaction::scan`], but empty values may replace long ones.
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

    /// Writes the mark for a key that has gained the collection with this number.
    pub(crate) fn mark(&mut self, key: &[u8], number: u64) {
        let hash = format::place(key);
        let note = format::collection_key(self.database, number);
        self.put(note, format::encode_number(hash).to_vec(), 0);
        let database = self.database;
        self.marks().add(database, number, hash);
    }

    /// Deletes the mark of a key's collection.
    pub(crate) fn unmark(&mut self, key: &[u8], number: u64) {
        self.delete(format::collection_key(self.database, number));
        let database = self.database;
        self.marks().remove(database, number, format::place(key));
    }

    /// Returns whether this transaction may itself have stored a collection under a key. Other
    /// commands cannot see such a collection yet.
    pub(super) fn has_own_collection(&self, key: &[u8]) -> bool {
        let adds_any = self.marks.as_ref().is_some_and(|marks| marks.adds_any());
        adds_any && self.own_value(&format::record_key(self.database, key)).is_some()
    }

    /// Takes the changes of marks out of the transaction.
    pub(super) fn take_marks(&mut self) -> MarkChanges {
        self.marks
            .take()
            .map_or_else(MarkChanges::default, |marks| *marks)
    }

    /// Returns whether this transaction is nested in a client's transaction.
    pub(crate) fn is_within(&self) -> bool {
        self.within.is_some()
    }

    /// Returns the database mapping, including swaps by this transaction.
    fn numbers(&self) -> DatabaseNumbers {
        match &self.swapped {
            Some(numbers) => **numbers,
            None => self.store.databases.numbers(),
        }
    }

    /// Returns the number that clients use for the selected database.
    pub(crate) fn client_database(&self) -> u8 {
        database_of(&self.numbers(), self.database)
    }

    /// Returns the stored number of a client's database, taking swaps by this transaction into
    /// account.
    #[inline]
    pub(crate) fn number_of(&self, database: u8) -> u8 {
        match &self.swapped {
            Some(numbers) => numbers[usize::from(database)],
            None => self.store.databases.number_of(database),
        }
    }

    /// Swaps two databases, and records the affected watched keys to notify their watchers. The
    /// caller must hold all locks.
    pub(crate) fn swap(&mut self, one: u8, other: u8) -> Result<(), CommandError> {
        let mut numbers = self.numbers();
        let (first, second) = (numbers[usize::from(one)], numbers[usize::from(other)]);
        let now = self.database;
        for (database, before, after) in [(one, first, second), (other, second, first)] {
            for key in self.store.locks.observed(database) {
                self.database = before;
                let was_there = self.entry(&key)?.is_some();
                self.database = after;
                let kind = KeyKind::of(self.entry(&key)?.as_ref());
                if was_there || kind != KeyKind::Absent {
                    let event = KeyEvent::INTERNAL;
                    self.reports.changes.push(KeyChange {
                        database,
                        key,
                        kind,
                        event,
                    });
                }
            }
        }
        // The following commands continue in the client's selected database, which now has the
        // other stored number.
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

    /// Deletes all data of the database with this stored number. The caller must hold all locks.
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

    /// Deletes all keys in a range of the selected database, and records the deleted watched keys
    /// to notify their watchers. The caller must hold all locks.
    pub(crate) fn empty_range(&mut self, start: InnerKey, end: InnerKey) -> Result<(), CommandError> {
        let database = database_of(&self.numbers(), self.database);
        for key in self.store.locks.observed(database) {
            let is_within = (&start..&end).contains(&&format::record_key(self.database, &key));
            if is_within && self.entry(&key)?.is_some() {
                self.touch_as(&key, KeyKind::Absent, KeyEvent::INTERNAL);
            }
        }
        self.delete_range(start, end);
        Ok(())
    }

    /// Commits the writes under the locks `held` (S6). The transaction must not be used afterwards.
    /// This does not wait until the commit is durable on the disk; sending the replies does (S3).
    #[inline]
    pub(crate) fn commit(&mut self, held: &KeyLockGuard<'_>) -> Result<CommitOutcome, CommandError> {
        self.write_kept();
        // Usually, the commands were read-only and there is nothing to commit.
        let is_written = self.blind.is_some() || self.writes.is_some() || self.records.is_some();
        if !is_written && self.orders.is_empty() {
            self.report(held);
            return Ok(CommitOutcome::Nothing);
        }
        self.commit_with(held, |_| Ok(()))
    }

    /// Commits the transaction's writes and those that `also` adds to the batch.
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
            self.report(held);
            return Ok(CommitOutcome::Nothing);
        }
        // Update the filter before the commit, because a SET that follows the release of the locks
        // must find the new marks in it. Apply the removals only after the commit, so that the
        // filter is missing no mark if the commit fails.
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
        self.report(held);
        if is_short {
            spare.batch.clear();
            SPARE.set(Some(spare));
        }
        Ok(CommitOutcome::Committed)
    }

    /// Adds all of the transaction's writes to a batch.
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

/// Converts an expiry time in milliseconds since 1970. Returns `None`, which means never, if it is
/// 0 or out of range.
pub(super) fn moment(expires_ms: u64) -> Option<SystemTime> {
    let until = UNIX_EPOCH.checked_add(Duration::from_millis(expires_ms));
    until.filter(|_| expires_ms != 0)
}
