//! What a transaction is begun with.

use crate::Durability;
use std::time::Duration;

/// What a transaction may see of others that run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Transactions take effect as if they had run one after the other, in the order of their
    /// commits. Ranges are included: a key that appears in a range which a transaction has walked
    /// is a conflict.
    #[default]
    Serializable,
    /// A transaction reads as of the moment at which it began. Of two that write to the same key at
    /// the same time, the second fails. Reads are not tracked, so that write skew is possible:
    /// [`Transaction::get_for_update`](crate::Transaction::get_for_update) prevents it for a key.
    Snapshot,
}

/// How transactions that run at the same time are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// Nothing waits. A commit fails with a conflict if another has changed what the transaction
    /// depends on.
    #[default]
    Optimistic,
    /// Keys and ranges are locked when they are read or written, until the transaction ends. Others
    /// wait.
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
    /// What the transaction may see of others.
    pub isolation: Isolation,
    /// How it is kept apart from others.
    pub concurrency: Concurrency,
    /// When a commit is acknowledged; the store's default if `None`.
    pub durability: Option<Durability>,
    /// How long a lock is waited for at most.
    pub lock_timeout: Duration,
    /// How old the transaction may become. The store ends it then.
    pub timeout: Option<Duration>,
    /// How many keys and ranges may be remembered as read, and locked. Beyond that neighbouring
    /// keys become ranges first.
    pub max_tracked: usize,
    /// How many bytes of memory its writes may take before they go to runs on disk; if `None`, what
    /// a memtable may take, which open transactions share.
    pub memory: Option<usize>,
    /// How many bytes of writes there may be, in memory and on disk; as many as the disk has space
    /// for if `None`.
    pub max_write_bytes: Option<usize>,
    /// How often [`Db::transaction`](crate::Db::transaction) runs a transaction at most.
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

    /// Sets what the transaction may see of others.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> TransactionOptions {
        self.isolation = isolation;
        self
    }

    /// Sets how the transaction is kept apart from others.
    #[must_use]
    pub fn concurrency(mut self, concurrency: Concurrency) -> TransactionOptions {
        self.concurrency = concurrency;
        self
    }

    /// Sets when the commit is acknowledged.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TransactionOptions {
        self.durability = Some(durability);
        self
    }

    /// Sets how long a lock is waited for at most.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> TransactionOptions {
        self.lock_timeout = timeout;
        self
    }

    /// Sets how old the transaction may become.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> TransactionOptions {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many keys and ranges are remembered as read, and locked.
    #[must_use]
    pub fn max_tracked(mut self, most: usize) -> TransactionOptions {
        self.max_tracked = most;
        self
    }

    /// Sets how many bytes of memory the transaction's writes may take before they go to disk.
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

    /// Sets how many bytes of writes the transaction may have, in memory and on disk.
    #[must_use]
    pub fn max_write_bytes(mut self, most: usize) -> TransactionOptions {
        self.max_write_bytes = Some(most);
        self
    }

    /// Sets how often [`Db::transaction`](crate::Db::transaction) runs the transaction at most.
    #[must_use]
    pub fn max_tries(mut self, most: u32) -> TransactionOptions {
        self.max_tries = most;
        self
    }
}
