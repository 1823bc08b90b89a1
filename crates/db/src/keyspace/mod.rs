//! A keyspace: the handle that users read and write through.
//!
//! *Knows*: how a user's key and value become a write, and what is refused before it is one.
//!
//! *Does not know*: what happens to a write; that is the engine's.
//!
//! *Read in this order*: `options.rs` (what it is created with), this file, `ingest.rs`.

mod ingest;
mod options;

pub use ingest::Ingest;
pub use options::{Compression, KeyspaceOptions};

use crate::batch::{checked_key, checked_value, expiry_ms};
use crate::catalog::{Definition, Owners};
use crate::db::Shared;
use crate::engine::{At, Commit, Tally, Verdict};
use crate::format::{self, TreeKey};
use crate::iter::Iter;
use crate::reads::{Get, MultiGet};
use crate::stats::Began;
use crate::{Durability, Error, Result, Value};
use alluvium_base::Kind;
use alluvium_dictionary::merge::Operator;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::KeyspaceRules;
use smallvec::SmallVec;
use std::cell::Cell;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::SystemTime;

/// A set of keys with values, in the order of the keys' bytes. Handles are cheap to clone and may be used by any thread.
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
    shared: Arc<Shared>,
    definition: Arc<Definition>,
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// The record of this thread's last single write, for its memory.
    static RECORD: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A thread does not keep more than this for its next write, in bytes.
const KEPT_RECORD: usize = 64 << 10;

impl Keyspace {
    pub(crate) fn new(shared: Arc<Shared>, definition: Arc<Definition>) -> Keyspace {
        Keyspace { shared, definition }
    }

    pub(crate) fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Tells its store from others.
    pub(crate) fn store_number(&self) -> usize {
        self.shared.number()
    }

    pub(crate) fn operator(&self) -> Option<&dyn Operator> {
        self.definition.rules.operator.as_deref()
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

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.definition.name()
    }

    /// Its number: what the tree's keys of it begin with, in [`Db::outline`](crate::Db::outline). It stays the same when the keyspace gets another name.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.definition.id
    }

    /// What it was created with.
    #[must_use]
    pub fn options(&self) -> &KeyspaceOptions {
        &self.definition.options
    }

    /// The key has this value from now on.
    ///
    /// # Errors
    /// [`Error::TooLong`]; [`Error::KeyspaceDropped`]; [`Error::is_full`] when the disk is; [`Error::Background`]; as the device says.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(key.as_ref(), Kind::Put, 0, value.as_ref())
    }

    /// The key has this value until `expires`: then it has none, and its space comes back.
    ///
    /// Expiry follows the clock of the machine, and nothing else. A clock that jumps ahead, if
    /// only once and for a moment, has compactions delete
    /// for good what had expired by it. Snapshots do not keep a value beyond its moment.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) -> Result<()> {
        self.write(key.as_ref(), Kind::Put, expiry_ms(expires), value.as_ref())
    }

    /// The key has no value from now on.
    ///
    /// # Errors
    /// As [`Keyspace::put`]. It works on a full disk, too.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(key.as_ref(), Kind::Delete, 0, &[])
    }

    /// Folds an operand into the key's value by the keyspace's merge operator, without reading it.
    /// Where the key has a value that the operator cannot
    /// fold into, such as a text under `add`, value and operands stay as they are, and reads of
    /// the key fail with [`Error::BadBase`] until it is
    /// put or deleted.
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
    /// As [`Keyspace::put`], [`Error::NoOperator`], [`Error::BadOperand`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.check_operand(operand.as_ref())?;
        self.write(key.as_ref(), Kind::Merge, 0, operand.as_ref())
    }

    /// No key from `start` on and before `end` has a value from now on; without an end, none that follows. It costs one small record,
    /// whatever is in the range.
    ///
    /// # Errors
    /// As [`Keyspace::delete`].
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: Option<&[u8]>) -> Result<()> {
        let mut batch = crate::WriteBatch::new();
        batch.delete_range(self, start, end)?;
        self.shared
            .commit(&batch.commit, batch.owners(), None)
            .map(|_| ())
    }

    /// For a commit that writes to this keyspace alone.
    fn owner(&self) -> Owners<'_> {
        Owners::One(&self.definition)
    }

    fn write(&self, key: &[u8], kind: Kind, expires_ms: u64, operand: &[u8]) -> Result<()> {
        let mut commit = Commit {
            record: RECORD.take(),
            ..Commit::default()
        };
        commit.record.clear();
        commit.add_only(
            &self.definition.prefix,
            checked_key(key)?,
            kind,
            expires_ms,
            checked_value(operand)?,
        );
        let result = self.shared.commit(&commit, self.owner(), None).map(|_| ());
        if commit.record.capacity() <= KEPT_RECORD {
            RECORD.set(commit.record);
        }
        result
    }

    /// The key gets the value `new`, or loses its value if `new` is none, if it has exactly the value `expected` now, or none if that
    /// is none. Whether it did. Reads, writes and conditional writes of a key take effect one
    /// after the other: what made the condition
    /// fail is seen by every later read.
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
    /// As [`Keyspace::put`].
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = checked_key(key.as_ref())?;
        let mut commit = Commit::default();
        let prefix = &self.definition.prefix;
        match new {
            Some(value) => commit.add_only(prefix, key, Kind::Put, 0, checked_value(value)?),
            None => commit.add(prefix, key, Kind::Delete, 0, &[]),
        }
        let key = format::tree_key(prefix, key);
        let engine = &self.shared.engine;
        let holds = || {
            let found = engine.get(&key, &self.definition.rules, At::Newest)?;
            Ok(if found.as_deref() == expected {
                Verdict::Go
            } else {
                Verdict::Stop
            })
        };
        self.shared.healthy()?;
        let done = engine.commit_if(&commit, self.owner(), engine.durability, Some(&holds))?;
        Ok(done.is_some())
    }

    /// The key's value.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`]; [`Error::BadBase`]; as the device says; damage.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_at(key.as_ref(), At::Now)
    }

    pub(crate) fn get_at(&self, key: &[u8], at: At) -> Result<Option<Value>> {
        self.definition.alive()?;
        let key = format::tree_key(&self.definition.prefix, key);
        let began = Began::sampled();
        let found = self.shared.engine.get(&key, &self.definition.rules, at)?;
        began.over(&self.shared.recorders.get);
        self.shared.engine.tallies.add([(Tally::Gets, 1)]);
        Ok(found.map(Value::new))
    }

    /// Whether the key has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The values of many keys, in their order. What must be read from the device for them is read at once, so this is much faster
    /// than one after the other.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Value>>> {
        self.multi_get_at(keys, At::Now)
    }

    pub(crate) fn multi_get_at<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        at: At,
    ) -> Result<Vec<Option<Value>>> {
        self.definition.alive()?;
        let keys: Vec<TreeKey> = keys
            .into_iter()
            .map(|key| format::tree_key(&self.definition.prefix, key.as_ref()))
            .collect();
        let began = Began::sampled();
        let found = self.shared.engine.multi_get(&keys, &self.definition.rules, at)?;
        began.over(&self.shared.recorders.multi_get);
        self.shared.count_multi_get(keys.len());
        Ok(found.into_iter().map(|value| value.map(Value::new)).collect())
    }

    /// The values of many keys, in their order, if all of them are known without the device; none otherwise. It never waits, and costs little: for
    /// whoever serves others meanwhile, and asks again by [`Keyspace::multi_get_async`] if he must.
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
    /// As [`Keyspace::get`].
    pub fn multi_get_in_memory<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Option<Vec<Option<Value>>>> {
        self.definition.alive()?;
        let prefix = &self.definition.prefix;
        let keys: SmallVec<[TreeKey; 1]> = keys
            .iter()
            .map(|key| format::tree_key(prefix, key.as_ref()))
            .collect();
        let began = Began::sampled();
        let rules = &self.definition.rules;
        let engine = &self.shared.engine;
        let Some(found) = engine.multi_get_in_memory(&keys, rules, At::Now)? else {
            return Ok(None);
        };
        began.over(&self.shared.recorders.multi_get);
        self.shared.count_multi_get(keys.len());
        Ok(Some(
            found.into_iter().map(|value| value.map(Value::new)).collect(),
        ))
    }

    /// The key's value as it is now, by a future: it is ready at its first poll when what it needs is in memory, and wakes its task when the
    /// device has brought what is not. Thousands may be under way on one thread, in any executor. What is read is what everybody sees at the
    /// first poll, or later.
    ///
    /// Whoever drops the last handle of a store by dropping such a future has it closed by another thread, for that takes time.
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
    /// As [`Keyspace::get`].
    pub fn get_async(&self, key: impl AsRef<[u8]>) -> Get {
        Get::new(self, key.as_ref(), Ok(None))
    }

    /// The values of many keys as they are now, in their order, by a future: see [`Keyspace::get_async`]. All that must be read from the device is
    /// asked for together.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get_async<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> MultiGet {
        MultiGet::new(self, keys, Ok(None))
    }

    /// A key of this keyspace as the tree has it, with its rules.
    pub(crate) fn asked_key(&self, key: &[u8]) -> (TreeKey, Arc<KeyspaceRules>) {
        let key = format::tree_key(&self.definition.prefix, key);
        (key, Arc::clone(&self.definition.rules))
    }

    /// Every key and its value, in the order of the keys, as they are now.
    #[must_use]
    pub fn iter(&self) -> Iter {
        self.range::<&[u8]>(..)
    }

    /// The keys within bounds and their values, as they are now.
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
        Iter::new(self, crate::iter::bounds(&self.definition, &range), None)
    }

    /// The keys that begin with some bytes and their values, as they are now.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::new(
            self,
            crate::iter::prefixed(&self.definition, prefix.as_ref()),
            None,
        )
    }

    /// About how many keys have a value. It costs some index nodes, and a walk over what of it is in memory: a tenth of a microsecond for each.
    ///
    /// What it says is off by what only reading everything could tell: a key that was written again, or deleted, since the tree was compacted
    /// there counts once for each version that is left, deletes take nothing off, and a range delete counts only from its compaction on. In a
    /// keyspace of which each key was written once, it is exact.
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
    /// [`Error::KeyspaceDropped`]; as the device says; damage.
    pub fn approximate_len(&self) -> Result<u64> {
        self.definition.alive()?;
        self.shared.engine.approximate_len(&self.whole())
    }

    /// About how many keys within bounds have a value: see [`Keyspace::approximate_len`].
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
    /// As [`Keyspace::approximate_len`].
    pub fn approximate_len_of<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.definition.alive()?;
        let range = crate::iter::bounds(&self.definition, &range);
        self.shared.engine.approximate_len(&range)
    }

    /// About how many bytes it takes in the data files: its records with all their versions, values that are kept apart, its share of what finds
    /// them. Exact but for a leaf (some pages) at each end of each run.
    ///
    /// What is in memory and in the log only is not in it: [`Db::checkpoint`](crate::Db::checkpoint) writes that out. What was deleted counts until
    /// a compaction has come by.
    ///
    /// # Errors
    /// As [`Keyspace::approximate_len`].
    pub fn size_on_disk(&self) -> Result<u64> {
        self.definition.alive()?;
        self.shared.engine.size_on_disk(&self.whole())
    }

    /// The tree's keys that are its own.
    pub(crate) fn whole(&self) -> KeyRange {
        KeyRange::new(&self.definition.prefix, Some(&self.definition.end))
    }

    /// When its writes are acknowledged.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.shared.engine.durability
    }
}
