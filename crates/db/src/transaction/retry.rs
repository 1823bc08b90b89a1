//! Retries transactions after conflicts.

use super::Transaction;
use crate::db::Db;
use crate::error::{Error, ErrorKind, Result};
use crate::options::TransactionOptions;
use std::time::Duration;

/// Maximum length of the pause before the second attempt. It doubles with each further attempt.
const FIRST_PAUSE: Duration = Duration::from_micros(50);

/// The maximum pause stops doubling at this length.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Db {
    /// Calls `body` with a new transaction, and commits the transaction if `body` succeeds. After a
    /// conflict or a deadlock, retries the whole transaction after a random pause, so `body` must
    /// be safe to call more than once.
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

    /// Like [`Db::transaction`], but with the given options.
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

/// Returns a random pause to make after `tries` failed attempts.
fn pause(tries: u32) -> Duration {
    let most = FIRST_PAUSE.saturating_mul(1 << tries.min(16)).min(LONGEST_PAUSE);
    most.mul_f64(fastrand::f64())
}
