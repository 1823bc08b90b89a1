//! Options of a transaction.

use crate::options::Durability;
use std::time::Duration;

/// Visibility of the effects of concurrent transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Transactions take effect as if they had run one after the other, in commit order. Ranges are
    /// included: a key inserted into a range that a transaction has scanned is a conflict.
    #[default]
    Serializable,
    /// A transaction reads a snapshot taken at its beginning. Of two concurrent transactions that
    /// write to the same key, the second fails. Reads are not tracked, so write skew is possible;
    /// [`Transaction::get_for_update`](crate::Transaction::get_for_update) prevents it for a key.
    Snapshot,
}

/// Whether conflicts between transactions are detected at commit or prevented by locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// Transactions never wait. A commit fails with a conflict if another commit has changed data
    /// that the transaction depends on.
    #[default]
    Optimistic,
    /// Keys and ranges are locked when they are read or written, until the transaction ends.
    /// Conflicting transactions wait.
    Locking,
}

/// Options of a transaction.
///
/// ```
/// use alluvium::{Concurrency, Isolation, TransactionOptions};
/// use std::time::Duration;
/// let options = TransactionOptions::new()
///     .isolation(Isolation::Snapshot)
///     .concurrency(Concurrency::Locking)
///     .lock_timeout(Duration::from_millis(500));
/// assert_eq!(options.isolation, Isolation::Snapshot);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// Visibility of the effects of concurrent transactions.
    pub isolation: Isolation,
    /// How conflicts with concurrent transactions are handled.
    pub concurrency: Concurrency,
    /// Durability of the commit; the store's default if `None`.
    pub durability: Option<Durability>,
    /// Maximum time to wait for a lock.
    pub lock_timeout: Duration,
    /// Maximum age of the transaction; the store aborts it when this is exceeded. Unlimited if
    /// `None`.
    pub timeout: Option<Duration>,
    /// Maximum number of tracked reads and locks, each of a key or a range. Beyond it, neighbouring
    /// keys are first combined into ranges.
    pub max_tracked: usize,
    /// Bytes of memory for the transaction's writes before they spill to runs on disk; if `None`,
    /// the open transactions share the size of a memtable.
    pub memory: Option<usize>,
    /// Maximum number of bytes of writes, in memory and on disk; limited by disk space only if
    /// `None`.
    pub max_write_bytes: Option<usize>,
    /// Maximum number of attempts of [`Db::transaction`](crate::Db::transaction).
    pub max_tries: u32,
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            isolation: Isolation::default(),
            concurrency: Concurrency::default(),
            durability: None,
            lock_timeout: Duration::from_secs(10),
            timeout: None,
            max_tracked: 1 << 16,
            memory: None,
            max_write_bytes: None,
            max_tries: 64,
        }
    }
}

impl TransactionOptions {
    /// Returns the defaults: serializable, optimistic.
    #[must_use]
    pub fn new() -> TransactionOptions {
        TransactionOptions::default()
    }

    /// Sets the isolation level. Default: [`Isolation::Serializable`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> TransactionOptions {
        self.isolation = isolation;
        self
    }

    /// Sets the concurrency control. Default: [`Concurrency::Optimistic`].
    #[must_use]
    pub fn concurrency(mut self, concurrency: Concurrency) -> TransactionOptions {
        self.concurrency = concurrency;
        self
    }

    /// Sets the durability of the commit.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TransactionOptions {
        self.durability = Some(durability);
        self
    }

    /// Sets the maximum time to wait for a lock.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> TransactionOptions {
        self.lock_timeout = timeout;
        self
    }

    /// Sets the maximum age of the transaction.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> TransactionOptions {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of tracked reads and locks.
    #[must_use]
    pub fn max_tracked(mut self, most: usize) -> TransactionOptions {
        self.max_tracked = most;
        self
    }

    /// Sets the bytes of memory for the transaction's writes before they spill to disk.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::TransactionOptions;
    /// let numbers = db.keyspace("numbers")?;
    /// let mut load = db.begin_with(&TransactionOptions::new().memory(64 << 10));
    /// for number in 0..10_000u32 {
    ///     load.put(&numbers, number.to_be_bytes(), number.to_string())?;
    /// }
    /// assert!(db.transactions()[0].spilled_bytes > 0);
    /// assert_eq!(load.get(&numbers, 7u32.to_be_bytes())?.unwrap(), b"7");
    /// load.commit()?;
    /// assert_eq!(numbers.get(7u32.to_be_bytes())?.unwrap(), b"7");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> TransactionOptions {
        self.memory = Some(bytes);
        self
    }

    /// Sets the maximum number of bytes of writes, in memory and on disk.
    #[must_use]
    pub fn max_write_bytes(mut self, most: usize) -> TransactionOptions {
        self.max_write_bytes = Some(most);
        self
    }

    /// Sets the maximum number of attempts of [`Db::transaction`](crate::Db::transaction).
    #[must_use]
    pub fn max_tries(mut self, most: u32) -> TransactionOptions {
        self.max_tries = most;
        self
    }
}
