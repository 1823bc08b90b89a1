//! Claims lock the first or last key of a range that no other transaction has locked. Several
//! workers can therefore share a queue without waiting for each other.

use super::Transaction;
use super::walk::TransactionIter;
use crate::engine::single_key_range;
use crate::error::{Error, ErrorKind, Result};
use crate::keyspace::Keyspace;
use crate::locking::lock_manager::RangeLockMode;
use crate::read::value::Value;
use alluvium_dictionary::merge::MergeDirection;
use std::ops::RangeBounds;

impl Transaction {
    /// Locks the first key within bounds that no other transaction has locked, and returns it with
    /// its value. Returns `None` if there is no such key. The call never waits for a lock.
    ///
    /// A queue has one key for each job. Each worker claims a job in a transaction, works, deletes
    /// the key and commits. Other workers skip the key meanwhile. If the worker fails or its
    /// process dies, the transaction is rolled back, and another worker can claim the job.
    ///
    /// Until the transaction deletes the key, a further call returns the same key again. The
    /// transaction does not depend on the keys that were skipped or on keys that are absent, even
    /// if it is serializable. Under snapshot isolation, keys that were changed after the
    /// transaction began are skipped too.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{Concurrency, TransactionOptions};
    /// let jobs = db.keyspace("jobs")?;
    /// jobs.put("1", "send the mail")?;
    /// jobs.put("2", "print the report")?;
    /// let locking = TransactionOptions::new().concurrency(Concurrency::Locking);
    /// let (one, other) = (db.begin_with(&locking), db.begin_with(&locking));
    /// let (first, _) = one.claim_first::<&str>(&jobs, ..)?.unwrap();
    /// let (second, _) = other.claim_first::<&str>(&jobs, ..)?.unwrap();
    /// assert_eq!([first.as_slice(), second.as_slice()], [b"1", b"2"]);
    /// other.delete(&jobs, &second)?;
    /// other.commit()?;
    /// one.rollback();
    /// assert_eq!(jobs.pop_first()?.unwrap().0, b"1");
    /// assert!(jobs.pop_first()?.is_none());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`] if the transaction is not a locking one; otherwise as
    /// [`Transaction::get_for_update`], except [`Error::Conflict`] and those of waiting for a lock.
    pub fn claim_first<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Option<(Vec<u8>, Value)>> {
        self.claim(
            keyspace,
            self.untracked(keyspace, range)?,
            MergeDirection::Forward,
        )
    }

    /// Locks the last key within bounds that no other transaction has locked, and returns it with
    /// its value; see [`Transaction::claim_first`].
    ///
    /// # Errors
    /// As [`Transaction::claim_first`].
    pub fn claim_last<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Option<(Vec<u8>, Value)>> {
        self.claim(
            keyspace,
            self.untracked(keyspace, range)?,
            MergeDirection::Backward,
        )
    }

    fn untracked<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionIter<'_>> {
        if !self.is_locking() {
            return Err(Error::BadOption {
                option: "concurrency",
                why: "only a transaction with `Concurrency::Locking` can claim a key".to_owned(),
            });
        }
        Ok(self.untracked_range(keyspace, range).without_long_values())
    }

    fn claim(
        &self,
        keyspace: &Keyspace,
        mut candidates: TransactionIter<'_>,
        direction: MergeDirection,
    ) -> Result<Option<(Vec<u8>, Value)>> {
        loop {
            let candidate = match direction {
                MergeDirection::Forward => candidates.next(),
                MergeDirection::Backward => candidates.next_back(),
            };
            let Some(candidate) = candidate else {
                return Ok(None);
            };
            let (key, _) = candidate?;
            let range = single_key_range(&Transaction::tree_key(keyspace, &key));
            if !self.try_lock(&range, RangeLockMode::Exclusive)? {
                continue;
            }
            // Another worker may have deleted the key before it was locked.
            match self.get_for_update(keyspace, &key) {
                Ok(Some(value)) => return Ok(Some((key, value))),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
    }
}
