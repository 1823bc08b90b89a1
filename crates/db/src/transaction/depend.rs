//! Ranges that a transaction declares as dependencies without reading them, and reads under
//! snapshot isolation that matter if the transaction merges into what it has read.
//!
//! Under snapshot isolation, transactions that only merge into the same key do not conflict if the
//! order of the operands does not matter. If one of them also reads the key, however, it would
//! decide without seeing another's merge. Reads are therefore recorded in keyspaces whose merges
//! commute, and a locking transaction then exclusively locks the keys that it merges into.

use super::Transaction;
use super::tracker::ReadConsequence;
use crate::engine::single_key_range;
use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::lock_manager::RangeLockMode;
use crate::read::iter;
use crate::schema::format::TreeKey;
use crate::transaction::write_set::slices;
use alluvium_dictionary::range::KeyRange;
use std::ops::RangeBounds;

impl Transaction {
    /// Makes the transaction depend on all keys in a range, present or absent, at every isolation
    /// level. The commit of an optimistic transaction fails with a conflict if other commits have
    /// changed a key in the range since the transaction began. A serializable transaction ignores
    /// changes that were undone, so that all keys and values in the range are the same as before.
    ///
    /// A locking transaction acquires a shared lock on the range, so that others may read the range
    /// but not write to it until the transaction commits.
    ///
    /// The range is not read. If the transaction writes nothing, its commit always succeeds.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{ErrorKind, Isolation, TransactionOptions};
    /// let (orders, totals) = (db.keyspace("orders")?, db.keyspace("totals")?);
    /// orders.put("monday/1", "3 lamps")?;
    /// let snapshot = TransactionOptions::new().isolation(Isolation::Snapshot);
    /// let total = db.begin_with(&snapshot);
    /// total.depend_on_range(&orders, "monday/".."monday0")?;
    /// let count = total.prefix(&orders, "monday/").count();
    /// total.put(&totals, "monday", count.to_string())?;
    /// orders.put("monday/2", "1 lamp")?;
    /// assert_eq!(total.commit().unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`]. [`Error::NotOrdered`] if the keyspace's structure does
    /// not order its keys and the range is not the whole keyspace.
    ///
    /// [`Error::NotOrdered`]: crate::Error::NotOrdered
    pub fn depend_on_range<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<()> {
        drop(self.enter(keyspace)?);
        let definition = keyspace.definition();
        let range = iter::bounds::<&[u8]>(definition, &slices(&range));
        if range.is_empty() || is_planted(IsolationFault::DeclaredRangesAreForgotten) {
            return Ok(());
        }
        let high = range.high.as_deref().unwrap_or_default();
        definition.require_range(&range.low, high)?;
        if self.is_locking() {
            self.lock(&range, RangeLockMode::Shared)?;
            return self.fail_if_range_changed(keyspace, &range);
        }
        let mut tracker = self.tracker.lock();
        tracker.declare_range(definition, &range, self.options.max_tracked)?;
        self.tell_reads(tracker.len());
        Ok(())
    }
    /// Returns the consequence of scanning a keyspace, or `None` if it has none. Iterators of
    /// serializable locking transactions have none, because they lock what they read.
    pub(super) fn scan_consequence(&self, keyspace: &Keyspace) -> Option<ReadConsequence> {
        match (self.is_serializable(), self.is_locking()) {
            (true, true) => None,
            (true, false) => Some(ReadConsequence::Dependence),
            (false, _) => self.observes(keyspace).then_some(ReadConsequence::Observation),
        }
    }

    fn observes(&self, keyspace: &Keyspace) -> bool {
        let commutes = keyspace.definition().merges_commute;
        commutes && !self.is_serializable() && !is_planted(IsolationFault::ObservedKeysAreForgotten)
    }

    /// Records keys that a transaction under snapshot isolation is about to read.
    pub(super) fn observe(&self, keyspace: &Keyspace, keys: &[TreeKey]) -> Result<()> {
        if !self.observes(keyspace) {
            return Ok(());
        }
        let names = keys.iter().map(|key| &key[..]);
        let (definition, most) = (keyspace.definition(), self.options.max_tracked);
        self.tracker.lock().observe(definition, names, most);
        let mut each = keys.iter();
        each.try_for_each(|key| self.upgrade_merge_locks(keyspace, &single_key_range(key)))
    }

    /// Exclusively locks the keys in a range that the transaction has merged into, because it is
    /// about to read them. Returns [`Error::Conflict`](crate::Error::Conflict) if others have
    /// changed one of them since the snapshot that the transaction reads.
    pub(super) fn upgrade_merge_locks(&self, keyspace: &Keyspace, range: &KeyRange) -> Result<()> {
        let is_needed = self.is_locking() && !range.is_empty();
        if !is_needed || is_planted(IsolationFault::MergeLocksAreNotUpgraded) {
            return Ok(());
        }
        for part in self.engine().locks.merge_locks(self.number(), range) {
            self.lock(&part, RangeLockMode::Exclusive)?;
            match part == single_key_range(&part.low) {
                true => self.fail_if_changed(keyspace, &part.low)?,
                false => self.fail_if_range_changed(keyspace, &part)?,
            }
        }
        Ok(())
    }

    /// Returns whether the transaction may merge into a key without excluding merges by others.
    pub(super) fn merges_freely(&self, keyspace: &Keyspace, key: &[u8]) -> bool {
        let definition = keyspace.definition();
        definition.merges_commute && !self.tracker.lock().has_observed(definition, key)
    }
}
