//! Options of a transaction.

use crate::options::Durability;
use std::time::Duration;

/// Which effects of concurrent transactions a transaction may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Transactions take effect as if they had run one after the other, in commit order. This
    /// covers ranges: inserting a key into a range that another transaction has scanned is a
    /// conflict.
    #[default]
    Serializable,
    /// A transaction reads a snapshot taken at its beginning. If two concurrent transactions write
    /// to the same key, the second to commit fails. Reads are not tracked, so write skew is
    /// possible. [`Transaction::get_for_update`](crate::Transaction::get_for_update) prevents write
    /// skew on a key.
    Snapshot,
}

/// Whether conflicts between transactions are detected at commit or prevented by locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// Transactions never wait for one another. A commit fails with a conflict if another commit
    /// has changed data that the transaction depends on.
    #[default]
    Optimistic,
    /// Keys and ranges are locked when they are read or written, and stay locked until the
    /// transaction ends. Conflicting transactions wait for the locks.
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
    /// Which effects of concurrent transactions the transaction may see.
    pub isolation: Isolation,
    /// Whether conflicts with concurrent transactions are detected at commit or prevented by locks.
    pub concurrency: Concurrency,
    /// Durability of the commit. `None` means the store's default.
    pub durability: Option<Durability>,
    /// Maximum time for which an operation waits for a lock.
    pub lock_timeout: Duration,
    /// Maximum age of the transaction, or `None` for no limit. The store aborts a transaction that
    /// exceeds it.
    pub timeout: Option<Duration>,
    /// Maximum number of keys and ranges that the transaction tracks as read, and maximum number of
    /// its locks. At the limit, neighbouring reads of a keyspace are joined to ranges, and
    /// neighbouring locks to range locks, starting with the keys that have the longest common
    /// prefix. The transaction fails only if that is not enough.
    pub max_tracked: usize,
    /// Maximum memory for the transaction's writes, in bytes. Writes beyond it spill to runs on
    /// disk. The commit may need twice as much to log spilled writes. If `None`, all open
    /// transactions share as much memory as one memtable.
    pub memory: Option<usize>,
    /// Maximum total size of the transaction's writes in bytes, in memory and on disk. If `None`,
    /// only disk space limits it.
    pub max_write_bytes: Option<usize>,
    /// Maximum number of attempts of [`Db::transaction`](crate::Db::transaction).
    pub max_tries: u32,
    /// Whether the commit may use the space reserved for deletes. See
    /// [`TransactionOptions::frees_space`].
    pub frees_space: bool,
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
            frees_space: false,
        }
    }
}

impl TransactionOptions {
    /// Returns the default options: a serializable transaction with optimistic concurrency control.
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

    /// Sets the durability of the commit. Default: that of the store.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TransactionOptions {
        self.durability = Some(durability);
        self
    }

    /// Sets the maximum time for which an operation waits for a lock.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> TransactionOptions {
        self.lock_timeout = timeout;
        self
    }

    /// Sets the maximum age of the transaction. The store aborts a transaction that exceeds it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> TransactionOptions {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of tracked reads and of locks, each on a key or a range.
    #[must_use]
    pub fn max_tracked(mut self, most: usize) -> TransactionOptions {
        self.max_tracked = most;
        self
    }

    /// Sets the maximum memory in bytes for the transaction's writes. Writes beyond it spill to
    /// runs on disk. If there are at most twice as many, the commit reads the spilled ones back and
    /// logs all of them. Otherwise it makes two checkpoints.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::TransactionOptions;
    /// let numbers = db.keyspace("numbers")?;
    /// let load = db.begin_with(&TransactionOptions::new().memory(64 << 10));
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

    /// Sets the maximum total size of the transaction's writes in bytes, in memory and on disk.
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

    /// Declares that the transaction frees more space than its writes need, so that its commit
    /// succeeds on a full disk, as a delete does. Use it for transactions that delete data and
    /// update a few small records with it, such as counters. It has no effect on a transaction with
    /// more than 128 KiB of writes.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::TransactionOptions;
    /// let (pictures, totals) = (db.keyspace("pictures")?, db.keyspace("totals")?);
    /// pictures.put("elbe", vec![7; 10_000])?;
    /// let mut removal = db.begin_with(&TransactionOptions::new().frees_space());
    /// removal.delete(&pictures, "elbe")?;
    /// removal.put(&totals, "pictures", "0")?;
    /// removal.commit()?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn frees_space(mut self) -> TransactionOptions {
        self.frees_space = true;
        self
    }
}
