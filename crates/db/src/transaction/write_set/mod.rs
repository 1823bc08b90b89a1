//! Uncommitted writes to one keyspace, overlaid on the store.
//!
//! *Scope*: the order of the writes, which values of the store they replace or delete, and how much
//! memory they use.
//!
//! *Must not depend on*: locks, conflicts, and commits; a [`WriteBatch`] commits the writes.
//!
//! Invariants:
//!
//! - **A5** A write of the set takes precedence over the store's value of its key. A range delete
//!   takes precedence over the store's values of all keys in the range, but not over later writes
//!   of the set.
//! - **A6** Rolling the set back to a mark restores the state that the set had when the mark was
//!   created.

mod iter;
mod journal;
mod map;
mod spill;
mod state;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod write;
mod writes;

pub use iter::WriteSetIter;
pub(crate) use iter::{BaseWalk, IterEnd, OverlayIter, OverlayLayer, WriteSetLayer};
pub(crate) use state::KeyState;
pub use write::OwnWrite;

use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::keyspace::snapshot::Snapshot;
use crate::locking::ranges::{InlineKey, RangeSet};
use crate::read::value::Value;
use crate::write::batch::{WriteBatch, expiry_ms};
use alluvium_base::MessageKind;
use alluvium_dictionary::merge::{BadOperand, MergeOperator, OperandChain};
use journal::{UndoJournal, UndoRecord};
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use write::KeyWrite;
use writes::WriteBuffer;

/// Lower and upper bound of a range of user keys.
pub(crate) type UserKeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Uncommitted writes to one keyspace. Reads through the set see these writes overlaid on the
/// store. Other readers do not see them.
///
/// Transactions are built from write sets. A set on its own provides no isolation. A caller whose
/// writes depend on its reads must hold locks of a [`LockTable`](crate::LockTable) until the
/// commit, or must read from a [`Snapshot`].
///
/// Until the set is committed, reads through it see values put into it even after they have
/// expired.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// use alluvium::{WriteBatch, WriteSet};
/// let accounts = db.keyspace("accounts")?;
/// accounts.put("alice", "100")?;
/// accounts.put("carol", "5")?;
///
/// let mut writes = WriteSet::new(&accounts);
/// writes.put("alice", "90");
/// writes.put("bob", "10");
/// writes.delete("carol");
/// // The set sees its own writes, others do not.
/// assert_eq!(writes.get("alice")?.unwrap(), b"90");
/// assert_eq!(accounts.get("alice")?.unwrap(), b"100");
/// let names: Result<Vec<_>, _> = writes.iter().map(|pair| pair.map(|(name, _)| name)).collect();
/// assert_eq!(names?, [b"alice".to_vec(), b"bob".to_vec()]);
///
/// // All of it takes effect together.
/// let mut batch = WriteBatch::new();
/// writes.add_to(&mut batch)?;
/// db.write(&batch)?;
/// assert_eq!(accounts.get("bob")?.unwrap(), b"10");
/// assert!(accounts.get("carol")?.is_none());
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone)]
pub struct WriteSet {
    keyspace: Keyspace,
    writes: WriteBuffer,
    /// Deleted ranges. They take effect before `writes`, so they do not delete keys in `writes`
    /// (A5).
    deleted: Arc<RangeSet>,
    /// Memory of `writes` and `deleted`, in bytes.
    memory: usize,
    /// Undo journal, which records changes for as long as there is a mark.
    journal: UndoJournal,
    /// The time as of which readers read the set, in milliseconds since 1970. To them, a value of
    /// the set that expires at or before this time is absent.
    now_ms: u64,
}

impl fmt::Debug for WriteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteSet")
            .field("keyspace", &self.keyspace)
            .field("writes", &self.writes.by_key().len())
            .field("deleted", &self.deleted.len())
            .finish_non_exhaustive()
    }
}

impl WriteSet {
    /// Returns an empty set for a keyspace.
    #[must_use]
    pub fn new(keyspace: &Keyspace) -> WriteSet {
        WriteSet {
            keyspace: keyspace.clone(),
            writes: WriteBuffer::new(keyspace.definition().prefix.len()),
            deleted: Arc::default(),
            memory: 0,
            journal: UndoJournal::default(),
            now_ms: 0,
        }
    }

    /// Sets the time as of which readers read the set, in milliseconds since 1970. It determines
    /// which of the set's values have expired.
    pub(crate) fn at_time(mut self, now_ms: u64) -> WriteSet {
        self.now_ms = now_ms;
        self
    }

    /// Returns a set with the same writes and without marks, which shares memory with this one.
    /// Later changes of one do not affect the other.
    pub(crate) fn view(&self) -> WriteSet {
        WriteSet {
            keyspace: self.keyspace.clone(),
            writes: self.writes.view(),
            deleted: Arc::clone(&self.deleted),
            memory: self.memory,
            journal: UndoJournal::default(),
            now_ms: self.now_ms,
        }
    }

    /// Returns the keyspace that the set writes to.
    #[must_use]
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Returns whether the set has no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deleted.len() == 0
    }

    /// Returns the number of written keys and deleted ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.by_key().len() + self.deleted.len()
    }

    /// Returns the approximate memory of the set, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory + self.journal.memory()
    }

    /// Removes all writes from the set, so that it can be reused.
    pub fn clear(&mut self) {
        self.writes = WriteBuffer::new(self.keyspace.definition().prefix.len());
        self.deleted = Arc::default();
        self.memory = 0;
        self.journal = UndoJournal::default();
    }

    /// Sets the value of a key. [`WriteSet::add_to`] checks the lengths of the key and the value.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) {
        let value = value.into();
        self.insert(key.as_ref(), KeyWrite::Put { value, expires_ms: 0 });
    }

    /// Sets the value of a key until the time `expires`; see [`Keyspace::put_until`].
    pub fn put_until(&mut self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>, expires: SystemTime) {
        let (value, expires_ms) = (value.into(), expiry_ms(expires));
        self.insert(key.as_ref(), KeyWrite::Put { value, expires_ms });
    }

    /// Deletes a key, whether or not it has a value.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.insert(key.as_ref(), KeyWrite::Delete);
    }

    /// Deletes the value that a key has after the set's writes so far, but not before `time`; see
    /// [`Keyspace::delete_at`].
    pub fn delete_at(&mut self, key: impl AsRef<[u8]>, time: SystemTime) {
        let (key, time_ms) = (key.as_ref(), expiry_ms(time));
        let write = match self.writes.by_key().get(key) {
            Some(before) => before.deleted_at(time_ms, self.keyspace.operator()),
            None if self.hides(key) => return,
            None => KeyWrite::Merge {
                chain: OperandChain::deleted_at(time_ms),
            },
        };
        self.insert(key, write);
    }

    /// Deletes all keys from `start` (inclusive) to `end` (exclusive), or all keys from `start` on
    /// if `end` is `None`. Writes added later are not affected.
    pub fn delete_range(&mut self, start: impl AsRef<[u8]>, end: Option<&[u8]>) {
        let start = start.as_ref();
        if end.is_some_and(|end| start >= end) {
            return;
        }
        let within = (
            Bound::Included(start),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let writes = self.writes.by_key_mut(&mut self.memory);
        for key in writes.keys(within) {
            if let Some(write) = writes.remove(&key) {
                self.memory -= write.taken(&key);
                if self.journal.is_on() {
                    self.journal.note(UndoRecord::Write(key, Some(write)));
                }
            }
        }
        self.memory -= self.deleted.memory();
        let joined = Arc::make_mut(&mut self.deleted).insert(start, end);
        self.memory += self.deleted.memory();
        if self.journal.is_on() {
            self.journal.note(UndoRecord::Range(joined));
        }
    }

    /// Merges an operand into the value of a key; see [`Keyspace::merge`].
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{KeyspaceOptions, WriteBatch, WriteSet};
    /// let log = db.keyspace_with("log", &KeyspaceOptions::new().merge_operator("append"))?;
    /// log.put("today", "rain")?;
    /// let mut writes = WriteSet::new(&log);
    /// writes.merge("today", ", sun")?;
    /// assert_eq!(writes.get("today")?.unwrap(), b"rain, sun");
    /// let mut batch = WriteBatch::new();
    /// writes.add_to(&mut batch)?;
    /// db.write(&batch)?;
    /// assert_eq!(log.get("today")?.unwrap(), b"rain, sun");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoOperator`], [`Error::BadOperand`]. After an error the set is unchanged.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.keyspace.check_operand(operand)?;
        let rules = &self.keyspace.definition().rules;
        let operator = rules.operator.as_deref().expect("it was asked about the operand");
        let write = match self.writes.by_key().get(key) {
            Some(before) => before.merged(operand, operator),
            None if self.hides(key) => KeyWrite::Delete.merged(operand, operator),
            None => KeyWrite::Merge {
                chain: OperandChain::operand(operand.to_vec()),
            },
        };
        self.insert(key, write);
        Ok(())
    }

    /// Puts a value, or deletes the key if `value` is `None`. Until the set is first read, the
    /// write is appended to a list, and no map by key is built.
    pub(crate) fn write(&mut self, key: &[u8], value: Option<&[u8]>, expires_ms: u64) {
        let prefix = &self.keyspace.definition().prefix;
        if !self.journal.is_on()
            && let Some(taken) = self.writes.list(prefix, key, value, expires_ms)
        {
            self.memory += taken;
            return;
        }
        self.insert(key, KeyWrite::of(value, expires_ms));
    }

    /// Frees the memory of writes that later writes to the same key have replaced.
    pub(crate) fn forget_overwritten(&mut self) {
        self.writes.by_key_mut(&mut self.memory);
    }

    fn insert(&mut self, key: &[u8], write: KeyWrite) {
        let writes = self.writes.by_key_mut(&mut self.memory);
        self.memory += write.taken(key);
        let before = writes.insert(InlineKey::from_slice(key), Arc::new(write));
        self.memory -= before.as_ref().map_or(0, |before| before.taken(key));
        if self.journal.is_on() {
            self.journal
                .note(UndoRecord::Write(InlineKey::from_slice(key), before));
        }
    }

    /// Returns the effect of the set's writes on a key, or `None` if they do not affect it.
    #[must_use]
    pub fn own(&self, key: impl AsRef<[u8]>) -> Option<OwnWrite<'_>> {
        let key = key.as_ref();
        match self.writes.by_key().get(key) {
            Some(write) => Some(write.own(self.now_ms)),
            None => self.hides(key).then_some(OwnWrite::Deleted),
        }
    }

    /// Returns whether a deleted range of the set contains the key, hiding its value in the store.
    #[must_use]
    pub fn hides(&self, key: impl AsRef<[u8]>) -> bool {
        self.deleted.contains(key.as_ref())
    }

    /// Returns a key's value as seen through the set, which is its current value in the store with
    /// the set's writes applied.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.own_or(key, || self.keyspace.get(key))
    }

    /// Returns a key's value as seen through the set, which is its value in a snapshot with the
    /// set's writes applied.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_in(&self, snapshot: &Snapshot, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.own_or(key, || snapshot.get(&self.keyspace, key))
    }

    /// Returns a key's value after the set's writes. Calls `read` for the value in the store only
    /// if the result depends on it.
    fn own_or(&self, key: &[u8], read: impl FnOnce() -> Result<Option<Value>>) -> Result<Option<Value>> {
        self.state(key).over((&self.keyspace, self.now_ms), key, read)
    }

    /// Returns an iterator over all keys and values, in key order, as seen through the set: the
    /// store as of the latest visible commit, overlaid with the set's writes.
    #[must_use]
    pub fn iter(&self) -> WriteSetIter<'_> {
        self.range::<&[u8]>(..)
    }

    /// Returns an iterator over the keys within bounds and their values, in key order, as seen
    /// through the set; see [`WriteSet::iter`].
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::WriteSet;
    /// let rivers = db.keyspace("rivers")?;
    /// rivers.put("Elbe", "1094 km")?;
    /// rivers.put("Rhine", "1233 km")?;
    /// let mut writes = WriteSet::new(&rivers);
    /// writes.delete_range("A", Some(b"F"));
    /// writes.put("Oder", "840 km");
    /// let last = writes.range(.."R").next_back().unwrap()?;
    /// assert_eq!(last.0, b"Oder");
    /// assert!(writes.range(.."F").next().is_none());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> WriteSetIter<'_> {
        let bounds = slices(&range);
        WriteSetIter::new(self, bounds, self.keyspace.range::<&[u8]>(bounds))
    }

    /// Returns an iterator over the keys within bounds and their values, in key order, from a
    /// snapshot overlaid with the set's writes.
    ///
    /// # Panics
    /// If the snapshot belongs to another store.
    #[must_use]
    pub fn range_in<K: AsRef<[u8]>>(
        &self,
        snapshot: &Snapshot,
        range: impl RangeBounds<K>,
    ) -> WriteSetIter<'_> {
        let bounds = slices(&range);
        let base = snapshot.range::<&[u8]>(&self.keyspace, bounds);
        WriteSetIter::new(self, bounds, base)
    }

    /// Adds all writes of the set to a batch. When the batch commits, they take effect atomically
    /// with its other writes.
    ///
    /// # Errors
    /// As [`WriteBatch::put`]. After an error, the batch may contain some of the set's writes, and
    /// must not be committed.
    pub fn add_to(&self, batch: &mut WriteBatch) -> Result<()> {
        for (start, end) in self.deleted.iter() {
            batch.delete_range(&self.keyspace, start, end)?;
        }
        if let Some(listed) = self.writes.listed() {
            return batch.append(&self.keyspace, listed);
        }
        for (key, write) in self.writes.by_key().iter() {
            match write {
                KeyWrite::Put { value, expires_ms } => self.add_put(batch, key, value, *expires_ms)?,
                KeyWrite::Delete => {
                    batch.delete(&self.keyspace, key)?;
                }
                KeyWrite::Merge { chain } => self.add_chain(batch, key, chain)?,
                KeyWrite::MergeUpon {
                    chain,
                    value,
                    expires_ms,
                } => {
                    self.add_put(batch, key, value, *expires_ms)?;
                    self.add_chain(batch, key, chain)?;
                }
            }
        }
        Ok(())
    }

    fn add_put(&self, batch: &mut WriteBatch, key: &[u8], value: &[u8], expires_ms: u64) -> Result<()> {
        let until = (expires_ms != 0).then(|| Duration::from_millis(expires_ms));
        match until.and_then(|until| UNIX_EPOCH.checked_add(until)) {
            Some(until) => batch.put_until(&self.keyspace, key, value, until)?,
            // `SystemTime` cannot represent an expiry time this late, so the value never expires.
            None => batch.put(&self.keyspace, key, value)?,
        };
        Ok(())
    }

    fn add_chain(&self, batch: &mut WriteBatch, key: &[u8], chain: &OperandChain) -> Result<()> {
        chain.as_message(|message| {
            if let MessageKind::Merge = message.kind {
                self.keyspace.check_operand(message.operand)?;
            }
            let (kind, time_ms) = (message.kind, message.expires_ms);
            batch.add(&self.keyspace, key, kind, time_ms, message.operand)?;
            Ok(())
        })
    }

    /// Calls `visit` with each written key, possibly more than once.
    pub(crate) fn visit_keys(&self, visit: impl FnMut(&[u8])) {
        self.writes.visit_keys(visit);
    }

    /// Calls `visit` with each written key, and with whether the set only merges into the key's
    /// value in the store. May call it more than once for a key.
    pub(crate) fn visit_writes(&self, visit: impl FnMut(&[u8], bool)) {
        self.writes.visit_writes(visit);
    }

    /// Returns the start and end of each deleted range, in key order.
    pub(crate) fn deleted_ranges(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.deleted.iter()
    }
}

/// Converts a range of keys to bounds that are byte slices.
pub(crate) fn slices<'r, K: AsRef<[u8]> + 'r>(range: &'r impl RangeBounds<K>) -> UserKeyBounds<'r> {
    let slice = |bound: Bound<&'r K>| bound.map(AsRef::as_ref);
    (slice(range.start_bound()), slice(range.end_bound()))
}

/// Merges an operand into `base`, the key's value in the store, and returns the result.
pub(crate) fn merged_over(
    keyspace: &Keyspace,
    key: &[u8],
    operand: Vec<u8>,
    base: Option<Value>,
) -> Result<Option<Value>> {
    // The result of a merge does not depend on the time, so pass any time.
    let chain = OperandChain::operand(operand);
    let read = KeyWrite::Merge { chain }.over(base, 0, keyspace.operator());
    read.map_err(|bad| bad_base(keyspace, key, bad))
}

/// Returns the error for a merge operator that cannot merge operands into a key's value.
#[cold]
pub(crate) fn bad_base(keyspace: &Keyspace, key: &[u8], bad: BadOperand) -> Error {
    Error::BadBase {
        keyspace: keyspace.name(),
        key: key.to_vec(),
        operator: keyspace.operator().map_or("", MergeOperator::name).to_owned(),
        why: bad.why,
    }
}
