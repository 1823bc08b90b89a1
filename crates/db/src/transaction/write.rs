//! Writes of a transaction.

use super::Transaction;
use super::own_writes::OwnWrites;
use super::read::ReadIntent;
use crate::engine::single_key_range;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::lock_manager::RangeLockMode;
use crate::read::iter;
use crate::transaction::write_set::WriteSet;
use crate::write::batch::{checked_key, checked_key_of, checked_value, expiry_ms};
use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::range::KeyRange;
use parking_lot::MutexGuard;
use std::ops::Bound;
use std::time::SystemTime;

/// The kind of a write to a single key, which determines the lock that the write acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyWriteKind {
    /// The write replaces the key's value or deletes the key.
    Replace,
    Merge,
}

impl Transaction {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::KeyspaceDropped`], [`Error::OtherStore`],
    /// [`Error::TransactionEnded`], [`Error::TransactionTooOld`], [`Error::TransactionLimit`]. In a
    /// locking transaction also [`Error::Deadlock`] and [`Error::LockTimedOut`], and under snapshot
    /// isolation [`Error::Conflict`]. A deadlock ends the transaction. After any other error the
    /// transaction is unchanged.
    pub fn put(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), checked_value(value.as_ref())?);
        self.write(keyspace, key, value.len(), KeyWriteKind::Replace, |set| {
            set.write(key, Some(value), keyspace.put_expiry_ms());
            Ok(())
        })
    }

    /// Sets a key to a value that expires at `expires`; see [`Keyspace::put_until`]. To reads by
    /// the transaction itself, the value has expired only if it had already expired when the
    /// transaction began.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_until(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), checked_value(value.as_ref())?);
        self.write(keyspace, key, value.len(), KeyWriteKind::Replace, |set| {
            set.write(key, Some(value), expiry_ms(expires));
            Ok(())
        })
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.write(keyspace, key, 0, KeyWriteKind::Replace, |set| {
            set.write(key, None, 0);
            Ok(())
        })
    }

    /// Deletes the value that a key has after the transaction's writes so far, but not before
    /// `time`; see [`Keyspace::delete_at`]. To reads by the transaction itself, `time` has come
    /// only if it had come when the transaction began.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_at(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>, time: SystemTime) -> Result<()> {
        let key = key.as_ref();
        self.write(keyspace, key, 0, KeyWriteKind::Replace, |set| {
            set.delete_at(key, time);
            Ok(())
        })
    }

    /// Merges an operand into the value of a key; see [`Keyspace::merge`].
    ///
    /// If the merge operator is commutative, as the built-in `add`, `minimum` and `maximum` are,
    /// transactions that only merge into the same key without reading it never conflict, whatever
    /// their isolation level and concurrency control. Other operators are commutative if they were
    /// [registered](crate::Options::register_commutative_merge_operator) as such. If the operator
    /// is not commutative, the same holds only for serializable optimistic transactions. Merges
    /// that were spilled to disk may conflict under snapshot isolation, unless the commit is small
    /// enough to be logged.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{Isolation, KeyspaceOptions, TransactionOptions};
    /// let visits = db.keyspace_with("visits", &KeyspaceOptions::new().merge_operator("add"))?;
    /// let snapshot = TransactionOptions::new().isolation(Isolation::Snapshot);
    /// let (one, two) = (db.begin_with(&snapshot), db.begin_with(&snapshot));
    /// one.merge(&visits, "home", 1i64.to_le_bytes())?;
    /// two.merge(&visits, "home", 2i64.to_le_bytes())?;
    /// one.commit()?;
    /// two.commit()?;
    /// assert_eq!(visits.get("home")?.unwrap(), &3i64.to_le_bytes()[..]);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`], [`Error::NoOperator`], [`Error::BadOperand`].
    pub fn merge(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), checked_value(operand.as_ref())?);
        keyspace.check_operand(operand)?;
        let kind = KeyWriteKind::Merge;
        self.write(keyspace, key, operand.len(), kind, |set| set.merge(key, operand))
    }

    /// Deletes all keys from `start` (inclusive) to `end` (exclusive), or all keys from `start` on
    /// if `end` is `None`. A locking transaction locks the range.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_range(
        &self,
        keyspace: &Keyspace,
        start: impl AsRef<[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let start = checked_key(start.as_ref())?;
        let bounds = (
            Bound::Included(start),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let range = iter::bounds::<&[u8]>(keyspace.definition(), &bounds);
        if let Some(end) = end {
            checked_key(end)?;
        }
        if range.is_empty() {
            return self.enter(keyspace).map(drop);
        }
        let high = range.high.as_deref().unwrap_or_default();
        keyspace.definition().require_range(&range.low, high)?;
        let bytes = start.len() + end.map_or(0, <[u8]>::len);
        if self.is_locking() {
            // Without space for the write, its range need not be locked.
            self.admit(&mut self.own.lock(), keyspace, bytes)?;
            self.lock_write(&range)?;
            self.fail_if_range_changed(keyspace, &range)?;
        }
        let mut own = self.own.lock();
        self.admit(&mut own, keyspace, bytes)?;
        self.change(&mut own, keyspace, |set| {
            set.delete_range(start, end);
            Ok(())
        })
    }

    /// Replaces the value of a key with `new` if the current value equals `expected`. In both
    /// arguments, `None` stands for no value. Returns whether the value was replaced. The
    /// transaction depends on the key in either case. No other thread of the transaction writes to
    /// the key between the comparison and the replacement.
    ///
    /// # Errors
    /// As [`Transaction::put`] and [`Transaction::get`].
    pub fn compare_and_set(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = checked_key_of(keyspace.definition(), key.as_ref())?;
        let new = new.map(checked_value).transpose()?;
        let intent = match is_planted(IsolationFault::CompareAndSetIsUntracked) {
            true => ReadIntent::Untracked,
            false => ReadIntent::Update,
        };
        loop {
            drop(self.enter(keyspace)?);
            let effect = self.own_effect(keyspace, key, LongValues::Read)?;
            let moment = effect.moment();
            let found = self.read_over(keyspace, key, effect, (intent, LongValues::Read))?;
            if found.as_deref() != expected {
                return Ok(false);
            }
            let bytes = new.map_or(0, <[u8]>::len);
            let mut own = self.admit_write(keyspace, key, bytes, KeyWriteKind::Replace)?;
            if self.is_current(&own, &moment, keyspace, key)
                || is_planted(IsolationFault::CompareAndSetIsNotAtomic)
            {
                let expires_ms = new.map_or(0, |_| keyspace.put_expiry_ms());
                self.change(&mut own, keyspace, |set| {
                    set.write(key, new, expires_ms);
                    Ok(())
                })?;
                return Ok(true);
            }
        }
    }

    fn write(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        bytes: usize,
        kind: KeyWriteKind,
        change: impl FnOnce(&mut WriteSet) -> Result<()>,
    ) -> Result<()> {
        let key = checked_key_of(keyspace.definition(), key)?;
        let mut own = self.admit_write(keyspace, key, bytes, kind)?;
        self.change(&mut own, keyspace, change)
    }

    /// Acquires the lock that a write needs, makes sure that the write fits in memory, and returns
    /// the mutex of the writes. `bytes` is the length of the value.
    fn admit_write(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        bytes: usize,
        kind: KeyWriteKind,
    ) -> Result<MutexGuard<'_, OwnWrites>> {
        if self.is_locking() {
            // Without space for the write, its key need not be locked.
            self.admit(&mut self.own.lock(), keyspace, key.len() + bytes)?;
            self.lock_key(keyspace, &Transaction::tree_key(keyspace, key), kind)?;
        }
        let mut own = self.own.lock();
        self.admit(&mut own, keyspace, key.len() + bytes)?;
        Ok(own)
    }

    fn lock_key(&self, keyspace: &Keyspace, key: &[u8], kind: KeyWriteKind) -> Result<()> {
        let range = single_key_range(key);
        if kind == KeyWriteKind::Merge && self.merges_freely(keyspace, key) {
            self.lock(&range, RangeLockMode::Merge)?;
            self.fail_if_replaced(keyspace, key)?;
            // Another thread of the transaction may have read the key meanwhile. If it did so
            // before the lock was granted, it has not upgraded the lock.
            if self.merges_freely(keyspace, key) {
                return Ok(());
            }
        }
        self.lock_write(&range)?;
        self.fail_if_changed(keyspace, key)
    }

    fn lock_write(&self, range: &KeyRange) -> Result<()> {
        let mode = match is_planted(IsolationFault::WritesLockShared) {
            true => RangeLockMode::Shared,
            false => RangeLockMode::Exclusive,
        };
        self.lock(range, mode)
    }

    /// Applies a change to a keyspace's write set, creating the set if it does not exist yet.
    fn change(
        &self,
        own: &mut OwnWrites,
        keyspace: &Keyspace,
        change: impl FnOnce(&mut WriteSet) -> Result<()>,
    ) -> Result<()> {
        let (has_savepoint, now_ms) = (own.savepoints.lead_here(), self.handle.open.now_ms);
        let set = own.sets.entry(keyspace.number()).or_insert_with(|| {
            let mut set = WriteSet::new(keyspace).at_time(now_ms);
            if has_savepoint {
                set.mark();
            }
            set
        });
        let before = set.memory();
        let changed = change(set);
        let more = set.memory() as isize - before as isize;
        let in_memory = own.in_memory.wrapping_add_signed(more);
        self.tell_writes(own, in_memory);
        changed
    }

    /// Returns [`Error::Conflict`] if a key that the transaction has locked was put or deleted
    /// after the snapshot that the transaction reads. Does nothing if the transaction does not read
    /// a snapshot.
    fn fail_if_replaced(&self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        let Some(place) = self.handle.open.place() else {
            return Ok(());
        };
        let entered = self.enter(keyspace)?;
        let replaced = self
            .engine()
            .is_replaced_above(place, key, keyspace.definition())?;
        drop(entered);
        if !replaced || is_planted(IsolationFault::MergesIgnoreReplacements) {
            return Ok(());
        }
        let (keyspace, key) = self.engine().users_key(key);
        Err(Error::Conflict { keyspace, key })
    }

    /// Returns [`Error::Conflict`] if a key in a range that the transaction has locked was changed
    /// after the snapshot that the transaction reads. Does nothing if the transaction does not read
    /// a snapshot.
    pub(super) fn fail_if_range_changed(&self, keyspace: &Keyspace, range: &KeyRange) -> Result<()> {
        let Some(place) = self.handle.open.place() else {
            return Ok(());
        };
        let entered = self.enter(keyspace)?;
        let dictionary = keyspace.definition().dictionary();
        let changed = self.engine().is_range_written_above(place, range, dictionary)?;
        drop(entered);
        if !changed {
            return Ok(());
        }
        let (keyspace, key) = self.engine().users_key(&range.low);
        Err(Error::Conflict { keyspace, key })
    }
}
