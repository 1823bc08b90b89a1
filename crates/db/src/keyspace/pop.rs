//! Taking the first or last key of a keyspace, as consumers of a queue do.

use super::Keyspace;
use crate::error::{ErrorKind, Result};
use crate::read::value::Value;
use crate::schema::format;
use alluvium_dictionary::merge::MergeDirection;

impl Keyspace {
    /// Atomically deletes the first key, and returns it with the value that it had. Returns `None`
    /// if the keyspace has no key that can be taken.
    ///
    /// Any number of threads and clients may call this at the same time; each key goes to one of
    /// them. A key that a locking transaction has locked is skipped, so a queue can be shared with
    /// workers that use [`Transaction::claim_first`](crate::Transaction::claim_first). The cost
    /// does not depend on how many keys were taken before.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let jobs = db.keyspace("jobs")?;
    /// for number in [2u64, 1, 3] {
    ///     jobs.put(number.to_be_bytes(), format!("job {number}"))?;
    /// }
    /// assert_eq!(jobs.pop_first()?.unwrap().1, b"job 1");
    /// assert_eq!(jobs.pop_last()?.unwrap().1, b"job 3");
    /// assert_eq!(jobs.pop_first()?.unwrap().1, b"job 2");
    /// assert!(jobs.pop_first()?.is_none());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Keyspace::take`]; [`Error::NotOrdered`](crate::Error::NotOrdered).
    pub fn pop_first(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.pop(MergeDirection::Forward)
    }

    /// Atomically deletes the last key, and returns it with the value that it had; see
    /// [`Keyspace::pop_first`].
    ///
    /// # Errors
    /// The errors of [`Keyspace::pop_first`].
    pub fn pop_last(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.pop(MergeDirection::Backward)
    }

    fn pop(&self, direction: MergeDirection) -> Result<Option<(Vec<u8>, Value)>> {
        loop {
            let mut candidates = self.iter().without_long_values();
            let mut has_lost = false;
            loop {
                let candidate = match direction {
                    MergeDirection::Forward => candidates.next(),
                    MergeDirection::Backward => candidates.next_back(),
                };
                let Some(candidate) = candidate else { break };
                let (key, _) = candidate?;
                let name = format::tree_key(&self.definition().prefix, &key);
                if self.shared().engine.is_locked(&name) {
                    continue;
                }
                match self.take(&key) {
                    Ok(Some(value)) => return Ok(Some((key, value))),
                    Ok(None) => has_lost = true,
                    // A transaction has locked the key in the meantime.
                    Err(error) if error.kind() == ErrorKind::TimedOut => {}
                    Err(error) => return Err(error),
                }
            }
            // Keys that were put after the iterator began may be there although others have taken
            // all that it has found.
            if !has_lost {
                return Ok(None);
            }
        }
    }
}
