//! Running a transaction again after a conflict.

use super::Transaction;
use crate::db::Db;
use crate::error::{Error, ErrorKind, Result};
use crate::options::TransactionOptions;
use std::time::Duration;

/// Maximum length of the pause before the second attempt. The maximum doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_micros(50);

/// Upper bound of the maximum pause, at which it no longer doubles.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Db {
    /// Calls `body` with a new transaction, and commits the transaction if `body` succeeds. After a
    /// conflict or a deadlock, the whole transaction is run again after a random pause. `body` must
    /// therefore be safe to call more than once.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let counters = db.keyspace("counters")?;
    /// let count = db.transaction(|tx| {
    ///     let before = tx.get(&counters, "visits")?.map_or(0, |value| value[0]);
    ///     tx.put(&counters, "visits", [before + 1])?;
    ///     Ok(before + 1)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `body`, after which the transaction is rolled back; [`Error::RetriesExhausted`]
    /// after [`TransactionOptions::max_tries`] attempts; the errors of [`Transaction::commit`].
    pub fn transaction<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.transaction_with(&TransactionOptions::default(), body)
    }

    /// Runs and commits a transaction as [`Db::transaction`] does, with the given options.
    ///
    /// # Errors
    /// As [`Db::transaction`].
    pub fn transaction_with<T>(
        &self,
        options: &TransactionOptions,
        mut body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut tries = 0;
        loop {
            let mut transaction = self.begin_with(options);
            let done = body(&mut transaction);
            let result = done.and_then(|value| transaction.commit().map(|()| value));
            let Err(error) = result else { return result };
            if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Deadlock) {
                return Err(error);
            }
            tries += 1;
            if tries >= options.max_tries {
                return Err(Error::RetriesExhausted {
                    tries,
                    cause: Box::new(error),
                });
            }
            std::thread::sleep(pause(tries));
        }
    }
}

/// Returns a random pause to be made after `tries` failed attempts.
fn pause(tries: u32) -> Duration {
    let most = FIRST_PAUSE.saturating_mul(1 << tries.min(16)).min(LONGEST_PAUSE);
    most.mul_f64(fastrand::f64())
}
