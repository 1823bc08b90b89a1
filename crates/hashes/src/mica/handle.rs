//! Table handles. The type of a handle determines which threads may call which operations.

use super::core::{ItemLocation, TableCore, read};
use super::error::Result;
use super::item;
use super::key::HashedKey;
use super::many::{AccessCounting, get_many, set_many};
use super::mode::{Crcw, Crew, Erew};
use super::pipeline::{self, PipelineStages};
use std::borrow::Borrow;
use std::slice::from_ref;
use std::sync::Arc;

/// Handle to a table that only one thread uses at a time (EREW).
///
/// ```
/// use alluvium_hashes::mica::{ExclusiveTable, HashedKey, LossyTable, LossyOptions, NEVER};
/// let mut table = ExclusiveTable::new(LossyTable::new(&LossyOptions::new(1 << 20, 64))?);
/// let key = HashedKey::new(0, b"river");
/// table.set(key, b"Rhine", NEVER, 0)?;
/// assert_eq!(table.get(key, 0), Some(&b"Rhine"[..]));
/// # Ok::<(), alluvium_hashes::mica::Error>(())
/// ```
#[derive(Debug)]
pub struct ExclusiveTable<C>(C);

/// A request in a burst. The requests of a burst are executed in one pipeline.
#[derive(Clone, Copy, Debug)]
pub enum BurstRequest<'a> {
    Get(HashedKey<'a>),
    /// Sets the value of a key. The last field is its expiry time, or [`super::NEVER`].
    Set(HashedKey<'a>, &'a [u8], u64),
}

impl<'a> BurstRequest<'a> {
    #[inline(always)]
    pub(super) fn key(&self) -> HashedKey<'a> {
        match self {
            BurstRequest::Get(key) | BurstRequest::Set(key, ..) => *key,
        }
    }
}

/// Response to a request in a burst.
#[derive(Debug, PartialEq, Eq)]
pub enum BurstResponse<'a> {
    /// The value of the key, or `None` if it has none.
    Value(Option<&'a [u8]>),
    /// The result of setting the key.
    Set(Result<()>),
}

impl<C: TableCore<Mode = Erew>> ExclusiveTable<C> {
    /// Creates a handle that owns a table.
    #[must_use]
    pub fn new(table: C) -> ExclusiveTable<C> {
        ExclusiveTable(table)
    }

    /// Returns the table, for access to its statistics.
    #[must_use]
    pub fn table(&self) -> &C {
        &self.0
    }

    /// Returns the value of a key at time `now`, or `None` if it has none.
    #[inline]
    pub fn get(&mut self, key: HashedKey<'_>, now: u64) -> Option<&[u8]> {
        let found = self.look_up(key, now);
        self.0.tally().read_alone(1, u64::from(found.is_some()));
        found.map(|found| self.value(found))
    }

    #[inline(always)]
    fn look_up(&mut self, key: HashedKey<'_>, now: u64) -> Option<ItemLocation> {
        let found = self.0.find(key)?;
        let is_live = !item::has_expired(self.0.words(), found.at, found.header, now);
        is_live.then(|| self.0.touch(key, found, now))
    }

    #[inline(always)]
    fn value(&self, found: ItemLocation) -> &[u8] {
        let at = found.at + found.header.value_at();
        #[cfg(not(alluvium_model_check))]
        // SAFETY: the mode is exclusive, and the slice borrows the table for its whole lifetime.
        // Every method that writes needs a mutable borrow of the table, so nothing is written while
        // the slice is alive.
        unsafe {
            self.0.words().bytes(at, found.header.value_len())
        }
        #[cfg(alluvium_model_check)]
        unreachable!("no model has one thread: {at}")
    }

    /// Sets the value of a key until time `expires_at`.
    ///
    /// # Errors
    /// [`super::Error::TooLarge`]; in a lossless table also [`super::Error::OutOfSpace`] and
    /// [`super::Error::OutOfBuckets`], in which case the key retains its previous value.
    #[inline]
    pub fn set(&mut self, key: HashedKey<'_>, value: &[u8], expires_at: u64, now: u64) -> Result<()> {
        self.0.set(key, value, expires_at, now)
    }

    /// Deletes a key. Returns whether the key had a value.
    pub fn delete(&mut self, key: HashedKey<'_>, now: u64) -> bool {
        self.0.delete(key, now)
    }

    /// Frees the items in the next `buckets` buckets of a lossless table that have expired at time
    /// `now`, and returns their number. Does nothing for a lossy table, whose log drops expired
    /// items once they are the oldest.
    pub fn reclaim(&mut self, now: u64, buckets: usize) -> usize {
        self.0.reclaim(now, buckets)
    }

    /// Executes requests in order, and passes each response to `respond` with the index of its
    /// request. Memory for later requests is prefetched during the execution of earlier ones.
    pub fn burst(
        &mut self,
        requests: &[BurstRequest<'_>],
        now: u64,
        mut respond: impl FnMut(usize, BurstResponse<'_>),
    ) {
        let (mut gets, mut hits) = (0, 0);
        let mut execute = |table: &mut Self, number: usize| match requests[number] {
            BurstRequest::Get(key) => {
                let found = table.look_up(key, now);
                gets += 1;
                hits += u64::from(found.is_some());
                respond(
                    number,
                    BurstResponse::Value(found.map(|found| table.value(found))),
                );
            }
            BurstRequest::Set(key, value, expires_at) => {
                respond(
                    number,
                    BurstResponse::Set(table.0.set(key, value, expires_at, now)),
                );
            }
        };
        let mut burst = ExclusiveBurst {
            table: self,
            requests,
            execute: &mut execute,
        };
        pipeline::run(&mut burst, requests.len());
        self.0.tally().read_alone(gets, hits);
    }
}

/// A request burst in progress on an exclusive table.
struct ExclusiveBurst<'a, 'b, C, E> {
    table: &'a mut ExclusiveTable<C>,
    requests: &'a [BurstRequest<'b>],
    execute: &'a mut E,
}

impl<C: TableCore<Mode = Erew>, E: FnMut(&mut ExclusiveTable<C>, usize)> PipelineStages
    for ExclusiveBurst<'_, '_, C, E>
{
    #[inline(always)]
    fn prefetch_bucket(&mut self, number: usize) {
        self.table.0.bucket(self.requests[number].key().hash()).prefetch();
    }

    #[inline(always)]
    fn prefetch_item(&mut self, number: usize) {
        self.table.0.prefetch_item(self.requests[number].key());
    }

    #[inline(always)]
    fn execute(&mut self, number: usize) {
        (self.execute)(self.table, number);
    }
}

/// Handle for the only writer of a table that other threads may read concurrently (CREW).
///
/// ```
/// use alluvium_hashes::mica::{HashedKey, LossyTable, LossyOptions, NEVER, TableWriter};
/// let mut writer = TableWriter::new(LossyTable::new(&LossyOptions::new(1 << 20, 64))?);
/// let reader = writer.reader();
/// let key = HashedKey::new(0, b"river");
/// writer.set(key, b"Rhine", NEVER, 0)?;
/// let mut value = Vec::new();
/// assert!(reader.get(key, 0, &mut value));
/// assert_eq!(value, b"Rhine");
/// # Ok::<(), alluvium_hashes::mica::Error>(())
/// ```
#[derive(Debug)]
pub struct TableWriter<C>(Arc<C>);

/// Handle for a reader of a table that another thread may write concurrently (CREW).
#[derive(Debug)]
pub struct TableReader<C>(Arc<C>);

impl<C> Borrow<C> for TableReader<C> {
    fn borrow(&self) -> &C {
        &self.0
    }
}

impl<C> Clone for TableReader<C> {
    fn clone(&self) -> TableReader<C> {
        TableReader(Arc::clone(&self.0))
    }
}

impl<C: TableCore<Mode = Crew>> TableWriter<C> {
    /// Creates the writer's handle to a table.
    #[must_use]
    pub fn new(table: C) -> TableWriter<C> {
        TableWriter(Arc::new(table))
    }

    /// Returns the table, for access to its statistics.
    #[must_use]
    pub fn table(&self) -> &C {
        &self.0
    }

    /// Creates a reader's handle, which any thread may use.
    #[must_use]
    pub fn reader(&self) -> TableReader<C> {
        TableReader(Arc::clone(&self.0))
    }

    /// Copies the value of a key to `value`. Returns whether the key has a value. An access by the
    /// writer influences which items are evicted, and an access by a reader does not.
    #[inline]
    pub fn get(&mut self, key: HashedKey<'_>, now: u64, value: &mut Vec<u8>) -> bool {
        get_and_touch(&*self.0, key, now, value)
    }

    /// Sets the value of a key until time `expires_at`.
    ///
    /// # Errors
    /// The same errors as [`ExclusiveTable::set`].
    #[inline]
    pub fn set(&mut self, key: HashedKey<'_>, value: &[u8], expires_at: u64, now: u64) -> Result<()> {
        self.0.set(key, value, expires_at, now)
    }

    /// Sets the values of keys in order, and passes each result to `respond` with the index of its
    /// key. Memory for later keys is prefetched while earlier ones are set.
    pub fn set_many(
        &mut self,
        items: &[(HashedKey<'_>, &[u8])],
        now: u64,
        respond: impl FnMut(usize, Result<()>),
    ) {
        set_many::<C, _>(from_ref(&*self.0), items, now, respond);
    }

    /// Deletes a key. Returns whether the key had a value.
    pub fn delete(&mut self, key: HashedKey<'_>, now: u64) -> bool {
        self.0.delete(key, now)
    }

    /// Frees the items in the next `buckets` buckets of a lossless table that have expired at time
    /// `now`, and returns their number. Does nothing for a lossy table, whose log drops expired
    /// items once they are the oldest.
    pub fn reclaim(&mut self, now: u64, buckets: usize) -> usize {
        self.0.reclaim(now, buckets)
    }
}

impl<C: TableCore<Mode = Crew>> TableReader<C> {
    /// Copies the value of a key to `value`. Returns whether the key has a value.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>, now: u64, value: &mut Vec<u8>) -> bool {
        let hit = read(&*self.0, key, now, value);
        self.0.tally().read(1, u64::from(hit.is_some()));
        hit.is_some()
    }

    /// Looks up keys in order, and passes each value to `respond` with the index of its key. Memory
    /// for later keys is prefetched during the lookups of earlier ones.
    pub fn get_many(&self, keys: &[HashedKey<'_>], now: u64, respond: impl FnMut(usize, Option<&[u8]>)) {
        get_many::<C, _>(from_ref(&*self.0), keys, (now, AccessCounting::Ignored), respond);
    }

    /// Like [`TableReader::get_many`], but in several partitions. `readers` must have one reader
    /// per partition, in the order of the numbers that [`super::partition`] returns.
    pub fn get_many_of(
        readers: &[TableReader<C>],
        keys: &[HashedKey<'_>],
        now: u64,
        respond: impl FnMut(usize, Option<&[u8]>),
    ) {
        get_many::<C, _>(readers, keys, (now, AccessCounting::Ignored), respond);
    }
}

/// Handle to a table that all threads may read and write (CRCW).
///
/// ```
/// use alluvium_hashes::mica::{HashedKey, LossyTable, LossyOptions, NEVER, SharedTable};
/// let table = SharedTable::new(LossyTable::new(&LossyOptions::new(1 << 20, 64))?);
/// let other = table.clone();
/// let key = HashedKey::new(0, b"river");
/// std::thread::spawn(move || other.set(key, b"Rhine", NEVER, 0)).join().unwrap()?;
/// let mut value = Vec::new();
/// assert!(table.get(key, 0, &mut value));
/// # Ok::<(), alluvium_hashes::mica::Error>(())
/// ```
#[derive(Debug)]
pub struct SharedTable<C>(Arc<C>);

impl<C> Borrow<C> for SharedTable<C> {
    fn borrow(&self) -> &C {
        &self.0
    }
}

impl<C> Clone for SharedTable<C> {
    fn clone(&self) -> SharedTable<C> {
        SharedTable(Arc::clone(&self.0))
    }
}

impl<C: TableCore<Mode = Crcw>> SharedTable<C> {
    /// Creates the first handle to a table. Its clones are handles to the same table.
    #[must_use]
    pub fn new(table: C) -> SharedTable<C> {
        SharedTable(Arc::new(table))
    }

    /// Returns the table, for access to its statistics.
    #[must_use]
    pub fn table(&self) -> &C {
        &self.0
    }

    /// Copies the value of a key to `value`. Returns whether the key has a value.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>, now: u64, value: &mut Vec<u8>) -> bool {
        get_and_touch(&*self.0, key, now, value)
    }

    /// Looks up keys in order, and passes each value to `respond` with the index of its key. Memory
    /// for later keys is prefetched during the lookups of earlier ones.
    pub fn get_many(&self, keys: &[HashedKey<'_>], now: u64, respond: impl FnMut(usize, Option<&[u8]>)) {
        get_many::<C, _>(from_ref(&*self.0), keys, (now, AccessCounting::Counted), respond);
    }

    /// Like [`SharedTable::get_many`], but in several partitions. `tables` must have one table per
    /// partition, in the order of the numbers that [`super::partition`] returns.
    pub fn get_many_of(
        tables: &[SharedTable<C>],
        keys: &[HashedKey<'_>],
        now: u64,
        respond: impl FnMut(usize, Option<&[u8]>),
    ) {
        get_many::<C, _>(tables, keys, (now, AccessCounting::Counted), respond);
    }

    /// Sets the value of a key until time `expires_at`.
    ///
    /// # Errors
    /// The same errors as [`ExclusiveTable::set`].
    #[inline]
    pub fn set(&self, key: HashedKey<'_>, value: &[u8], expires_at: u64, now: u64) -> Result<()> {
        self.0.set(key, value, expires_at, now)
    }

    /// Sets the values of keys in order, and passes each result to `respond` with the index of its
    /// key. Memory for later keys is prefetched while earlier ones are set.
    pub fn set_many(
        &self,
        items: &[(HashedKey<'_>, &[u8])],
        now: u64,
        respond: impl FnMut(usize, Result<()>),
    ) {
        set_many::<C, _>(from_ref(&*self.0), items, now, respond);
    }

    /// Like [`SharedTable::set_many`], but in several partitions. `tables` must have one table per
    /// partition, in the order of the numbers that [`super::partition`] returns.
    pub fn set_many_of(
        tables: &[SharedTable<C>],
        items: &[(HashedKey<'_>, &[u8])],
        now: u64,
        respond: impl FnMut(usize, Result<()>),
    ) {
        set_many::<C, _>(tables, items, now, respond);
    }

    /// Deletes a key. Returns whether the key had a value.
    pub fn delete(&self, key: HashedKey<'_>, now: u64) -> bool {
        self.0.delete(key, now)
    }

    /// Frees the items in the next `buckets` buckets of a lossless table that have expired at time
    /// `now`, and returns their number. Does nothing for a lossy table, whose log drops expired
    /// items once they are the oldest.
    pub fn reclaim(&self, now: u64, buckets: usize) -> usize {
        self.0.reclaim(now, buckets)
    }
}

#[inline]
fn get_and_touch<C: TableCore>(table: &C, key: HashedKey<'_>, now: u64, value: &mut Vec<u8>) -> bool {
    let hit = read(table, key, now, value);
    table.tally().read(1, u64::from(hit.is_some()));
    hit.map(|hit| table.touch(key, hit.found, now)).is_some()
}
