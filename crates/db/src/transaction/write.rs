//! Writes of a transaction.

use super::Transaction;
use super::read::ReadIntent;
use crate::engine::single_key_range;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::lock_manager::RangeLockMode;
use crate::read::iter;
use crate::read::value::Value;
use crate::transaction::write_set::WriteSet;
use crate::write::batch::{checked_key, checked_key_of, checked_value, expiry_ms};
use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::range::KeyRange;
use std::ops::Bound;
use std::time::SystemTime;

impl Transaction {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::KeyspaceDropped`], [`Error::OtherStore`],
    /// [`Error::TransactionEnded`], [`Error::TransactionTooOld`], [`Error::TransactionLimit`]. In a
    /// locking transaction also [`Error::Deadlock`] and [`Error::LockTimedOut`], and under snapshot
    /// isolation [`Error::Conflict`]. A deadlock ends the transaction. After any other error the
    /// transaction is unchanged.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), checked_value(value.as_ref())?);
        self.write(keyspace, key, value.len(), |set| {
            set.write(key, Some(value), 0);
            Ok(())
        })
    }

    /// Sets a key to a value that expires at `expires`: see [`Keyspace::put_until`]. For reads by
    /// the transaction itself, the value has expired only if it had already expired when the
    /// transaction began.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), checked_value(value.as_ref())?);
        self.write(keyspace, key, value.len(), |set| {
            set.write(key, Some(value), expiry_ms(expires));
            Ok(())
        })
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.write(keyspace, key, 0, |set| {
            set.write(key, None, 0);
            Ok(())
        })
    }

    /// Merges an operand into the value of a key: see [`Keyspace::merge`]. If several serializable
    /// optimistic transactions merge into the same key, they do not conflict.
    ///
    /// # Errors
    /// As [`Transaction::put`], [`Error::NoOperator`], [`Error::BadOperand`].
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), checked_value(operand.as_ref())?);
        keyspace.check_operand(operand)?;
        self.write(keyspace, key, operand.len(), |set| set.merge(key, operand))
    }

    /// Deletes all keys from `start` (inclusive) to `end` (exclusive). If `end` is `None`, deletes
    /// all keys from `start` on. A locking transaction locks the range.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_range(
        &mut self,
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
        self.admit(keyspace, bytes)?;
        if self.is_locking() {
            self.lock_write(keyspace, &range)?;
            self.fail_if_range_changed(keyspace, &range)?;
        }
        self.change(keyspace, |set| {
            set.delete_range(start, end);
            Ok(())
        })
    }

    /// Replaces the value of a key with `new` if the current value equals `expected`. In both
    /// arguments, `None` stands for the absence of a value. Returns whether the value was replaced.
    /// The transaction depends on the key in either case.
    ///
    /// # Errors
    /// As [`Transaction::put`] and [`Transaction::get`].
    pub fn compare_and_set(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = checked_key(key.as_ref())?;
        let found = match is_planted(IsolationFault::CompareAndSetIsUntracked) {
            true => self.get_untracked(keyspace, key)?,
            false => self.get_for(keyspace, key, ReadIntent::Update, LongValues::Read)?,
        };
        if found.as_deref() != expected {
            return Ok(false);
        }
        match new {
            Some(value) => self.put(keyspace, key, value)?,
            None => self.delete(keyspace, key)?,
        }
        Ok(true)
    }

    /// Reads a key without tracking the read. Only an injected fault uses this.
    fn get_untracked(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Value>> {
        let now_ms = self.handle.open.now_ms;
        let read = || keyspace.get_at(key, self.at());
        let read = || self.spilled.over((keyspace, LongValues::Read), key, now_ms, read);
        match self.writes.get(&keyspace.number()) {
            Some(own) => own.own_or(key, read),
            None => read(),
        }
    }

    fn write(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        bytes: usize,
        change: impl FnOnce(&mut WriteSet) -> Result<()>,
    ) -> Result<()> {
        let key = checked_key_of(keyspace.definition(), key)?;
        self.admit(keyspace, key.len() + bytes)?;
        if self.is_locking() {
            let key = Transaction::tree_key(keyspace, key);
            self.lock_write(keyspace, &single_key_range(&key))?;
            self.fail_if_changed(keyspace, &key)?;
        }
        self.change(keyspace, change)
    }

    fn lock_write(&self, keyspace: &Keyspace, range: &KeyRange) -> Result<()> {
        let mode = match is_planted(IsolationFault::WritesLockShared) {
            true => RangeLockMode::Shared,
            false => RangeLockMode::Exclusive,
        };
        self.lock(keyspace.definition(), range, mode)
    }

    /// Applies a change to the write set of a keyspace, which is created if it does not exist yet.
    fn change(
        &mut self,
        keyspace: &Keyspace,
        change: impl FnOnce(&mut WriteSet) -> Result<()>,
    ) -> Result<()> {
        let (has_savepoint, now_ms) = (self.savepoints.lead_here(), self.handle.open.now_ms);
        let set = self.writes.entry(keyspace.number()).or_insert_with(|| {
            let mut set = WriteSet::new(keyspace).at_time(now_ms);
            if has_savepoint {
                set.mark();
            }
            set
        });
        let before = set.memory();
        let changed = change(set);
        let more = set.memory() as isize - before as isize;
        self.tell_writes(self.in_memory.wrapping_add_signed(more));
        changed
    }

    /// Returns [`Error::Conflict`] if a key in a range that the transaction has locked was changed
    /// after the snapshot that the transaction reads. Does nothing if the transaction reads no
    /// snapshot.
    fn fail_if_range_changed(&self, keyspace: &Keyspace, range: &KeyRange) -> Result<()> {
        let Some(place) = self.handle.open.place() else {
            return Ok(());
        };
        let entered = self.enter(keyspace)?;
        let structure = keyspace.definition().structure;
        let changed = self.engine().is_range_written_above(place, range, structure)?;
        drop(entered);
        if !changed {
            return Ok(());
        }
        let (keyspace, key) = self.engine().users_key(&range.low);
        Err(Error::Conflict { keyspace, key })
    }
}
