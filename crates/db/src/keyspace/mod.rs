//! The keyspace handle, through which programs read and write.
//!
//! *Scope*: how a user's key and value are validated and encoded as a write.
//!
//! *Must not depend on*: how the engine executes a write.
//!
//! The options of a new keyspace are in `options/keyspace.rs`.

mod batch;
mod expiry;
mod ingest;
mod pop;
pub(crate) mod reads;
pub(crate) mod snapshot;

pub use ingest::Ingest;

use crate::engine::latencies::LatencyTimer;
use crate::engine::{CommitPreconditions, CommitRecord, ConditionVerdict, EngineCounter, ReadPosition};
use crate::error::{Error, Result};
use crate::options::{Durability, KeyspaceOptions};
use crate::read::futures::{GetFuture, MultiGetFuture, WriteFuture};
use crate::read::iter::{Iter, Keys, Values};
use crate::read::unordered::UnorderedScan;
use crate::read::value::Value;
use crate::schema::catalog::{CommitKeyspaces, KeyspaceDefinition};
use crate::schema::format::{self, TreeKey};
use crate::shared::{OpenKeyspace, SharedStore};
use crate::write::batch::{WriteBatch, checked_key_of, checked_value, expiry_ms};
use alluvium_base::MessageKind;
use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::merge::MergeOperator;
use alluvium_dictionary::range::KeyRange;
use smallvec::SmallVec;
use std::cell::Cell;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::SystemTime;

/// An ordered map from keys to values. Keys are compared byte by byte. Handles are cheap to clone
/// and can be used from any thread.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// let rivers = db.keyspace("rivers")?;
/// rivers.put("Elbe", "1094 km")?;
/// assert_eq!(rivers.get("Elbe")?.unwrap(), b"1094 km");
/// rivers.delete("Elbe")?;
/// assert!(!rivers.contains("Elbe")?);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    open: OpenKeyspace,
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// Buffer for the commit record of a single write, reused by the thread's next write.
    static RECORD: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Maximum size in bytes of the buffer that a thread keeps for reuse. Larger buffers are freed.
const KEPT_RECORD: usize = 64 << 10;

impl Keyspace {
    pub(crate) fn new(shared: Arc<SharedStore>, definition: Arc<KeyspaceDefinition>) -> Keyspace {
        Keyspace {
            open: OpenKeyspace { shared, definition },
        }
    }

    pub(crate) fn definition(&self) -> &Arc<KeyspaceDefinition> {
        &self.open.definition
    }

    pub(crate) fn shared(&self) -> &Arc<SharedStore> {
        &self.open.shared
    }

    pub(crate) fn handle(&self) -> &OpenKeyspace {
        &self.open
    }

    /// Returns a number that distinguishes the store from the other open stores of the process.
    pub(crate) fn store_number(&self) -> usize {
        self.open.shared.number()
    }

    pub(crate) fn operator(&self) -> Option<&dyn MergeOperator> {
        self.open.definition.rules.operator.as_deref()
    }

    /// Returns how to read long values that a transaction combines with its own writes. In a
    /// keyspace with a merge operator they must be read in full, because the transaction may have
    /// written operands to merge into them.
    pub(crate) fn without_operands(&self, long_values: LongValues) -> LongValues {
        match self.operator() {
            Some(_) => LongValues::Read,
            None => long_values,
        }
    }

    pub(crate) fn check_operand(&self, operand: &[u8]) -> Result<()> {
        let Some(operator) = self.operator() else {
            return Err(Error::NoOperator {
                keyspace: self.name(),
            });
        };
        operator.check(operand).map_err(|bad| Error::BadOperand {
            keyspace: self.name(),
            why: bad.why,
        })
    }

    /// Returns the name of the keyspace.
    #[must_use]
    pub fn name(&self) -> String {
        self.open.definition.name()
    }

    /// Returns the number that identifies the keyspace, which is the prefix of its keys in
    /// [`Db::outline`](crate::Db::outline). Renaming the keyspace does not change it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.open.definition.id
    }

    /// Returns the options that the keyspace was created with.
    #[must_use]
    pub fn options(&self) -> &KeyspaceOptions {
        &self.open.definition.options
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`Error::TooLong`]; [`Error::KeyspaceDropped`]; [`Error::is_full`] on a full disk;
    /// [`Error::Background`]; I/O errors.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let expires_ms = self.put_expiry_ms();
        self.write(key.as_ref(), MessageKind::Put, expires_ms, value.as_ref())
    }

    /// Sets the value of a key until the time `expires`. After that, the key has no value, and its
    /// space is freed.
    ///
    /// Expiry follows the machine's clock. If the clock jumps ahead, even for a moment, compactions
    /// permanently delete all values that it has made expire. Snapshots do not retain values beyond
    /// their expiry time.
    ///
    /// # Errors
    /// The same errors as [`Keyspace::put`].
    pub fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) -> Result<()> {
        self.write(key.as_ref(), MessageKind::Put, expiry_ms(expires), value.as_ref())
    }

    /// Deletes a key. Deleting a key that has no value is not an error.
    ///
    /// # Errors
    /// The same errors as [`Keyspace::put`], but deletes also work on a full disk.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(key.as_ref(), MessageKind::Delete, 0, &[])
    }

    /// Deletes the value that a key has now, but not before `time`. The call does not read the
    /// value. Until `time`, it changes nothing; afterwards, only what was put or merged after the
    /// call remains. A put before `time` therefore makes the call void.
    ///
    /// The time follows the machine's clock, as that of [`Keyspace::put_until`] does. A later call
    /// cannot make the delete happen later, and one with an earlier time makes it happen earlier.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use std::time::{Duration, SystemTime};
    /// let sessions = db.keyspace("sessions")?;
    /// sessions.put("7", "Ada")?;
    /// sessions.delete_at("7", SystemTime::now() + Duration::from_secs(3600))?;
    /// assert_eq!(sessions.get("7")?.unwrap(), b"Ada");
    /// sessions.delete_at("7", SystemTime::now())?;
    /// assert!(sessions.get("7")?.is_none());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Keyspace::put`].
    pub fn delete_at(&self, key: impl AsRef<[u8]>, time: SystemTime) -> Result<()> {
        self.write(key.as_ref(), MessageKind::TimedDelete, expiry_ms(time), &[])
    }

    /// Atomically deletes a key and returns the value that it had, or `None` if it had no value.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let jobs = db.keyspace("jobs")?;
    /// jobs.put("7", "send the mail")?;
    /// assert_eq!(jobs.take("7")?.unwrap(), b"send the mail");
    /// assert!(jobs.take("7")?.is_none());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Keyspace::delete`] and [`Keyspace::get`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = checked_key_of(&self.open.definition, key.as_ref())?;
        let mut commit = CommitRecord::default();
        commit.add(&self.open.definition.prefix, key, MessageKind::Delete, 0, &[]);
        let key = format::tree_key(&self.open.definition.prefix, key);
        let engine = &self.open.shared.engine;
        let taken = Cell::new(None);
        let has_value = || {
            taken.set(engine.get(&key, &self.open.definition, ReadPosition::Newest)?);
            let found = taken.take();
            let verdict = match found {
                Some(_) => ConditionVerdict::Go,
                None => ConditionVerdict::Stop,
            };
            taken.set(found);
            Ok(verdict)
        };
        self.open.shared.healthy()?;
        let done = engine.commit_if(
            &commit,
            self.owner(),
            engine.durability,
            Some(&CommitPreconditions::of_its_keys(&has_value)),
        )?;
        Ok(done.and(taken.take()).map(Value::new))
    }

    /// Merges an operand into the value of a key without reading the value. The keyspace's merge
    /// operator combines the value and its operands when the key is read or compacted.
    ///
    /// If the operator cannot combine the operands with the stored value, as when `add` is applied
    /// to a text, the store keeps both. Reads of the key then fail with [`Error::BadBase`] until
    /// the key is put or deleted.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::KeyspaceOptions;
    /// let hits = db.keyspace_with("hits", &KeyspaceOptions::new().merge_operator("add"))?;
    /// hits.merge("home", 1i64.to_le_bytes())?;
    /// hits.merge("home", 2i64.to_le_bytes())?;
    /// assert_eq!(hits.get("home")?.unwrap(), &3i64.to_le_bytes());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Keyspace::put`]; [`Error::NoOperator`]; [`Error::BadOperand`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.check_operand(operand.as_ref())?;
        self.write(key.as_ref(), MessageKind::Merge, 0, operand.as_ref())
    }

    /// Deletes all keys from `start` (inclusive) to `end` (exclusive), or all keys from `start` on
    /// if `end` is `None`. The call writes one small record, however many keys it deletes.
    ///
    /// # Errors
    /// The same errors as [`Keyspace::delete`].
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: Option<&[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(self, start, end)?;
        self.open
            .shared
            .commit(&batch.commit, batch.owners(), None)
            .map(|_| ())
    }

    /// Returns the keyspaces of a commit that writes only to this one.
    fn owner(&self) -> CommitKeyspaces<'_> {
        CommitKeyspaces::One(&self.open.definition)
    }

    fn write(&self, key: &[u8], kind: MessageKind, expires_ms: u64, operand: &[u8]) -> Result<()> {
        let mut commit = CommitRecord {
            record: RECORD.take(),
            ..CommitRecord::default()
        };
        commit.record.clear();
        commit.add_only(
            &self.open.definition.prefix,
            checked_key_of(&self.open.definition, key)?,
            kind,
            expires_ms,
            checked_value(operand)?,
        );
        let result = self.open.shared.commit(&commit, self.owner(), None).map(|_| ());
        if commit.record.capacity() <= KEPT_RECORD {
            RECORD.set(commit.record);
        }
        result
    }

    /// Atomically replaces the value of `key` with `new` if the current value equals `expected`. In
    /// both arguments, `None` means no value. Returns whether the value was replaced.
    ///
    /// Reads, writes and conditional writes of one key are linearizable. In particular, if this
    /// call returns `false`, every later read sees the value that made it fail, or a newer one.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let locks = db.keyspace("locks")?;
    /// assert!(locks.compare_and_set("door", None, Some(b"alice"))?);
    /// assert!(!locks.compare_and_set("door", None, Some(b"bob"))?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Keyspace::put`].
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let new = new.map(|value| (value, self.put_expiry_ms()));
        self.exchange(key.as_ref(), expected, new)
    }

    /// Like [`Keyspace::compare_and_set`], but the new value ends at the time `expires`, as one of
    /// [`Keyspace::put_until`] does. A lock that its owner fails to release therefore ends by
    /// itself.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use std::time::{Duration, SystemTime};
    /// let locks = db.keyspace("locks")?;
    /// let later = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    /// assert!(locks.compare_and_set_until("door", None, "alice", later)?);
    /// assert!(!locks.compare_and_set_until("door", None, "bob", later)?);
    /// assert_eq!(locks.expires_at("door")?, Some(later));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Keyspace::put`].
    pub fn compare_and_set_until(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: impl AsRef<[u8]>,
        expires: SystemTime,
    ) -> Result<bool> {
        self.exchange(key.as_ref(), expected, Some((new.as_ref(), expiry_ms(expires))))
    }

    /// Replaces the value of a key if it equals `expected`. The new value has an expiry time in
    /// milliseconds, or 0.
    fn exchange(&self, key: &[u8], expected: Option<&[u8]>, new: Option<(&[u8], u64)>) -> Result<bool> {
        let key = checked_key_of(&self.open.definition, key)?;
        let mut commit = CommitRecord::default();
        let prefix = &self.open.definition.prefix;
        match new {
            Some((value, expires_ms)) => {
                commit.add_only(prefix, key, MessageKind::Put, expires_ms, checked_value(value)?);
            }
            None => commit.add(prefix, key, MessageKind::Delete, 0, &[]),
        }
        let key = format::tree_key(prefix, key);
        let engine = &self.open.shared.engine;
        let holds = || {
            let found = engine.get(&key, &self.open.definition, ReadPosition::Newest)?;
            Ok(if found.as_deref() == expected {
                ConditionVerdict::Go
            } else {
                ConditionVerdict::Stop
            })
        };
        self.open.shared.healthy()?;
        let done = engine.commit_if(
            &commit,
            self.owner(),
            engine.durability,
            Some(&CommitPreconditions::of_its_keys(&holds)),
        )?;
        Ok(done.is_some())
    }

    /// Returns a future that sets the value of a key: see [`Keyspace::put`] and
    /// [`Db::write_async`](crate::Db::write_async).
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// pollster::block_on(async {
    ///     rivers.put_async("Elbe", "1094 km").await?;
    ///     rivers.delete_async("Styx").await
    /// })?;
    /// assert!(rivers.contains("Elbe")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Keyspace::put`].
    pub fn put_async(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> WriteFuture {
        self.write_async(|batch| batch.put(self, key, value).map(|_| ()))
    }

    /// Returns a future that deletes a key: see [`Keyspace::delete`] and
    /// [`Db::write_async`](crate::Db::write_async).
    ///
    /// # Errors
    /// The same errors as [`Keyspace::delete`].
    pub fn delete_async(&self, key: impl AsRef<[u8]>) -> WriteFuture {
        self.write_async(|batch| batch.delete(self, key).map(|_| ()))
    }

    fn write_async(&self, fill: impl FnOnce(&mut WriteBatch) -> Result<()>) -> WriteFuture {
        let mut batch = WriteBatch::new();
        let filled = fill(&mut batch);
        WriteFuture::new(&self.open.shared, filled.map(|()| batch))
    }

    /// Returns the value of a key, or `None` if the key has no value.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`]; [`Error::BadBase`]; I/O errors; damage.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_at(key.as_ref(), ReadPosition::Now)
    }

    pub(crate) fn get_at(&self, key: &[u8], at: ReadPosition) -> Result<Option<Value>> {
        self.open.definition.alive()?;
        let key = format::tree_key(&self.open.definition.prefix, key);
        let began = LatencyTimer::sampled();
        let found = self.open.shared.engine.get(&key, &self.open.definition, at)?;
        began.over(&self.open.shared.recorders.get);
        self.open.shared.engine.counters.add([(EngineCounter::Gets, 1)]);
        Ok(found.map(Value::new))
    }

    /// Returns whether a key has a value.
    ///
    /// # Errors
    /// The same errors as [`Keyspace::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_at(key.as_ref(), ReadPosition::Now)
    }

    pub(crate) fn contains_at(&self, key: &[u8], at: ReadPosition) -> Result<bool> {
        self.open.definition.alive()?;
        let key = format::tree_key(&self.open.definition.prefix, key);
        let engine = &self.open.shared.engine;
        let is_there = engine.contains(&key, &self.open.definition, at)?;
        engine.counters.add([(EngineCounter::Gets, 1)]);
        Ok(is_there)
    }

    /// Returns the values of many keys, in the order of the keys. The device reads run
    /// concurrently, so one call is much faster than calling `get` for each key.
    ///
    /// # Errors
    /// The same errors as [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Value>>> {
        self.multi_get_at(keys, ReadPosition::Now)
    }

    pub(crate) fn multi_get_at<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        at: ReadPosition,
    ) -> Result<Vec<Option<Value>>> {
        self.open.definition.alive()?;
        let keys: Vec<TreeKey> = keys
            .into_iter()
            .map(|key| format::tree_key(&self.open.definition.prefix, key.as_ref()))
            .collect();
        let began = LatencyTimer::sampled();
        let found = self
            .open
            .shared
            .engine
            .multi_get(&keys, &self.open.definition, at)?;
        began.over(&self.open.shared.recorders.multi_get);
        self.open.shared.count_multi_get(keys.len());
        Ok(found.into_iter().map(|value| value.map(Value::new)).collect())
    }

    /// Returns the values of many keys, in the order of the keys, for callers that need only short
    /// values and whether a key exists. Values longer than 1 KiB are replaced by empty ones, and
    /// values stored outside leaves are not read.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// rivers.put("Elbe", "1094 km")?;
    /// rivers.put("Oder", "a long story ".repeat(1000))?;
    /// let found = rivers.multi_get_without_long_values(["Elbe", "Oder", "Styx"])?;
    /// assert_eq!(found[0].as_deref(), Some(&b"1094 km"[..]));
    /// assert_eq!(found[1].as_deref(), Some(&b""[..]));
    /// assert!(found[2].is_none());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Keyspace::get`].
    pub fn multi_get_without_long_values<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        self.open.definition.alive()?;
        let prefix = &self.open.definition.prefix;
        let keys = keys.into_iter().map(|key| format::tree_key(prefix, key.as_ref()));
        let keys: Vec<TreeKey> = keys.collect();
        let engine = &self.open.shared.engine;
        let found = engine.multi_get_without_long_values(&keys, &self.open.definition, ReadPosition::Now)?;
        self.open.shared.count_multi_get(keys.len());
        let short = |value| Value::new(value).shown(LongValues::LeftOut);
        Ok(found.into_iter().map(|value| value.map(short)).collect())
    }

    /// Returns the values of many keys if all of them are in memory, otherwise `None`. The call
    /// never waits for the device, so an event loop can try it before
    /// [`Keyspace::multi_get_async`].
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// rivers.put("Elbe", "1094 km")?;
    /// let found = rivers.multi_get_in_memory(&["Elbe", "Styx"])?;
    /// let found = found.expect("what was just written is in memory");
    /// assert_eq!(found[0].as_deref(), Some(&b"1094 km"[..]));
    /// assert!(found[1].is_none());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Keyspace::get`].
    pub fn multi_get_in_memory<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Option<Vec<Option<Value>>>> {
        self.open.definition.alive()?;
        let prefix = &self.open.definition.prefix;
        let keys: SmallVec<[TreeKey; 1]> = keys
            .iter()
            .map(|key| format::tree_key(prefix, key.as_ref()))
            .collect();
        let began = LatencyTimer::sampled();
        let engine = &self.open.shared.engine;
        let Some(found) = engine.multi_get_in_memory(&keys, &self.open.definition, ReadPosition::Now)? else {
            return Ok(None);
        };
        began.over(&self.open.shared.recorders.multi_get);
        self.open.shared.count_multi_get(keys.len());
        Ok(Some(
            found.into_iter().map(|value| value.map(Value::new)).collect(),
        ))
    }

    /// Returns a future for the value of a key. If the value is in memory, the future is ready at
    /// its first poll. Otherwise it wakes its task once the device reads are complete. Thousands of
    /// such futures can be in flight on one thread, in any executor. The result reflects at least
    /// all commits that are visible at the first poll.
    ///
    /// If dropping the future releases the last handle of the store, another thread closes the
    /// store, because closing takes time.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// rivers.put("Elbe", "1094 km")?;
    /// let length = pollster::block_on(async { rivers.get_async("Elbe").await })?;
    /// assert_eq!(length.unwrap(), b"1094 km");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Keyspace::get`].
    pub fn get_async(&self, key: impl AsRef<[u8]>) -> GetFuture {
        GetFuture::new(&self.open, key.as_ref(), Ok(None))
    }

    /// Returns a future for the values of many keys, in the order of the keys: see
    /// [`Keyspace::get_async`]. All device reads are submitted together.
    ///
    /// # Errors
    /// The same errors as [`Keyspace::get`].
    pub fn multi_get_async<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> MultiGetFuture {
        MultiGetFuture::new(&self.open, keys, Ok(None))
    }

    /// Returns an iterator over all keys and values, in key order, as of the latest visible commit.
    #[must_use]
    pub fn iter(&self) -> Iter {
        self.range::<&[u8]>(..)
    }

    /// Returns an iterator over the keys and values within bounds, in key order, as of the latest
    /// visible commit.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let years = db.keyspace("years")?;
    /// for year in 2020..2026u32 {
    ///     years.put(year.to_be_bytes(), year.to_string())?;
    /// }
    /// let last = years.range(..2024u32.to_be_bytes()).next_back().unwrap()?;
    /// assert_eq!(last.1, b"2023");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        Iter::new(
            &self.open,
            crate::read::iter::bounds(&self.open.definition, &range),
            None,
        )
    }

    /// Returns an iterator over the keys with a prefix and their values, in key order, as of the
    /// latest visible commit.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::new(
            &self.open,
            crate::read::iter::prefixed(&self.open.definition, prefix.as_ref()),
            None,
        )
    }

    /// Returns an iterator over all keys and values in unspecified order, as of the latest visible
    /// commit. It works for every structure, including the hashed one.
    ///
    /// ```
    /// use alluvium::{HashedOptions, KeyspaceOptions, Structure};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let hashed = KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::default()));
    /// let blobs = db.keyspace_with("blobs", &hashed)?;
    /// blobs.put("one", "1")?;
    /// blobs.put("two", "2")?;
    /// let (first, _) = blobs.unordered().next().unwrap()?;
    /// let rest: Result<Vec<_>, _> = blobs.unordered().after(&first).collect();
    /// assert_eq!(rest?.len(), 1);
    /// assert!(blobs.iter().next().unwrap().is_err(), "its keys have no order");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn unordered(&self) -> UnorderedScan {
        UnorderedScan::new(&self.open, None)
    }

    /// Returns the first key and its value, or `None` if the keyspace is empty.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// assert!(rivers.first()?.is_none());
    /// rivers.put("Oder", "840 km")?;
    /// rivers.put("Elbe", "1094 km")?;
    /// assert_eq!(rivers.first()?.unwrap().0, b"Elbe");
    /// assert_eq!(rivers.last()?.unwrap().0, b"Oder");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Keyspace::get`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().next().transpose()
    }

    /// Returns the last key and its value, or `None` if the keyspace is empty.
    ///
    /// # Errors
    /// The same errors as [`Keyspace::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().next_back().transpose()
    }

    /// Returns an iterator over all keys, in order, as of the latest visible commit: see
    /// [`Iter::keys`].
    #[must_use]
    pub fn keys(&self) -> Keys {
        self.iter().keys()
    }

    /// Returns an iterator over all values, in key order, as of the latest visible commit: see
    /// [`Iter::values`].
    #[must_use]
    pub fn values(&self) -> Values {
        self.iter().values()
    }

    /// Estimates the number of keys that have a value. The call reads a few index nodes and takes
    /// 0.1 µs per record in memtables.
    ///
    /// The estimate is exact if each key was written once and none was deleted. Otherwise it is too
    /// high, because it counts every version of a key that compactions have not merged yet and
    /// ignores deletes. Range deletes reduce it only after they are compacted.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let years = db.keyspace("years")?;
    /// for year in 1990..2026u32 {
    ///     years.put(year.to_be_bytes(), "")?;
    /// }
    /// assert_eq!(years.approximate_len()?, 36);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`]; I/O errors; damage.
    pub fn approximate_len(&self) -> Result<u64> {
        self.open.definition.alive()?;
        self.open
            .shared
            .engine
            .approximate_len(self.open.definition.dictionary(), &self.whole())
    }

    /// Estimates the number of keys within bounds that have a value, with the inaccuracies of
    /// [`Keyspace::approximate_len`].
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let years = db.keyspace("years")?;
    /// for year in 1990..2026u32 {
    ///     years.put(year.to_be_bytes(), "")?;
    /// }
    /// assert_eq!(years.approximate_len_of(2000u32.to_be_bytes()..)?, 26);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Keyspace::approximate_len`].
    pub fn approximate_len_of<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.open.definition.alive()?;
        let range = crate::read::iter::bounds(&self.open.definition, &range);
        self.open
            .shared
            .engine
            .approximate_len(self.open.definition.dictionary(), &range)
    }

    /// Returns the approximate size in bytes of the keyspace in the data files: all versions of its
    /// records, values outside leaves, and its share of index nodes and maplets. The estimate is
    /// off by at most one leaf (a few pages) at each end of each run.
    ///
    /// Writes that are only in memory and in the log are not included;
    /// [`Db::checkpoint`](crate::Db::checkpoint) flushes them to the data files. Deleted records
    /// count until compactions remove them.
    ///
    /// # Errors
    /// The same errors as [`Keyspace::approximate_len`].
    pub fn size_on_disk(&self) -> Result<u64> {
        self.open.definition.alive()?;
        self.open
            .shared
            .engine
            .size_on_disk(self.open.definition.dictionary(), &self.whole())
    }

    /// Returns the keyspace's range of tree keys.
    pub(crate) fn whole(&self) -> KeyRange {
        KeyRange::new(&self.open.definition.prefix, Some(&self.open.definition.end))
    }

    /// Returns the durability of writes for which the program specifies none.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.open.shared.engine.durability
    }
}
