//! Transactions: reads and writes across keyspaces that take effect together, or not at all.
//!
//! ```text
//!                reads                        writes          commit
//!   optimistic   as of the begin; tracked     kept aside      locks stripes, asks whether what it
//!                                                             depends on was written to meanwhile
//!   locking      newest, under locks          locked, kept    has its locks already, and releases
//!                                             aside           them when it is visible
//! ```
//!
//! A serializable transaction takes its place in the serial order when it commits. An optimistic
//! transaction would read the same data at that place; the commit validates this. A locking
//! transaction did read the data of that place, because no other commit could change it before this
//! commit was visible. A read-only transaction takes its place at the sequence number that it reads
//! at.
//!
//! *Scope*: the reads and writes of a transaction, and the keys and ranges that it depends on.
//!
//! *Must not depend on*: how commits are validated and locks are granted, which is the engine's
//! task.
//!
//! Invariants:
//!
//! - **T1** Everything that an operation returns from the store is tracked or locked before it is
//!   read.
//! - **T2** A transaction depends on all keys between a bound of an iterator and the last key that
//!   this end has returned; once the iterator has ended, on all keys of its range.
//! - **T3** Locks are held until the transaction ends.
//! - **T4** A transaction that has ended retains no versions and holds no locks.

mod commit;
mod locked_walk;
mod read;
mod retry;
mod savepoint;
mod spill;
mod spilled_writes;
mod tracker;
mod unordered;
mod walk;
mod write;
pub(crate) mod write_set;

#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub use savepoint::Savepoint;
pub use unordered::TransactionUnorderedScan;
pub use walk::TransactionIter;

use crate::db::Db;
use crate::engine::{Engine, OpenTransaction, OperationGuard, TransactionEnd, TransactionInfo};
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::locking::lock_manager::RangeLockMode;
use crate::options::{Concurrency, Isolation, TransactionOptions};
use crate::schema::catalog::KeyspaceDefinition;
use crate::schema::format::{self, KeyspaceId, TreeKey};
use crate::shared::SharedStore;
use crate::transaction::write_set::WriteSet;
use alluvium_dictionary::range::KeyRange;
use parking_lot::Mutex;
use savepoint::SavepointStack;
use spilled_writes::SpilledWrites;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tracker::ReadTracker;

/// An atomic unit of reads and writes in any keyspaces of a store. Reads see the transaction's own
/// writes; other readers see none of them before the commit.
///
/// Dropping a transaction rolls it back. [`Db::transaction`] retries a transaction after a
/// conflict.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// let accounts = db.keyspace("accounts")?;
/// accounts.put("alice", "100")?;
/// let mut transfer = db.begin();
/// assert_eq!(transfer.get(&accounts, "alice")?.unwrap(), b"100");
/// transfer.put(&accounts, "alice", "90")?;
/// transfer.put(&accounts, "bob", "10")?;
/// assert!(accounts.get("bob")?.is_none(), "nothing is committed yet");
/// transfer.commit()?;
/// assert_eq!(accounts.get("bob")?.unwrap(), b"10");
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct Transaction {
    // Declared first: the transaction ends before the reference to the store is released.
    handle: TransactionHandle,
    shared: Arc<SharedStore>,
    options: TransactionOptions,
    /// The newest writes, by keyspace.
    writes: BTreeMap<KeyspaceId, WriteSet>,
    /// Older writes, which exceeded the memory.
    spilled: SpilledWrites,
    tracker: Mutex<ReadTracker>,
    savepoints: SavepointStack,
    /// Bytes of memory used by `writes`.
    in_memory: usize,
}

/// Keeps the transaction open in the engine. Dropping it rolls the transaction back.
struct TransactionHandle {
    engine: Arc<Engine>,
    open: Arc<OpenTransaction>,
}

impl TransactionHandle {
    fn end(&self, how: TransactionEnd) {
        self.engine.end_transaction(&self.open, how);
    }
}

impl Drop for TransactionHandle {
    fn drop(&mut self) {
        self.end(TransactionEnd::RolledBack);
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("number", &self.number())
            .field("isolation", &self.options.isolation)
            .field("concurrency", &self.options.concurrency)
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Begins a serializable, optimistic transaction: see [`Transaction`].
    #[must_use]
    pub fn begin(&self) -> Transaction {
        self.begin_with(&TransactionOptions::default())
    }

    /// Begins a transaction with options.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{Concurrency, TransactionOptions};
    /// let stock = db.keyspace("stock")?;
    /// let locking = TransactionOptions::new().concurrency(Concurrency::Locking);
    /// let mut order = db.begin_with(&locking);
    /// // No other transaction and no other write changes the key until the order is committed.
    /// assert!(order.get_for_update(&stock, "lamps")?.is_none());
    /// order.put(&stock, "lamps", "9")?;
    /// order.commit()?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn begin_with(&self, options: &TransactionOptions) -> Transaction {
        let shared = self.shared();
        let engine = Arc::clone(&shared.engine);
        let open = engine.begin_transaction(options);
        Transaction {
            handle: TransactionHandle { engine, open },
            shared: Arc::clone(shared),
            options: options.clone(),
            writes: BTreeMap::new(),
            spilled: SpilledWrites::default(),
            tracker: Mutex::new(ReadTracker::default()),
            savepoints: SavepointStack::default(),
            in_memory: 0,
        }
    }

    /// Lists the open transactions, oldest first, with their ages and the resources that they hold.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let open = db.begin();
    /// assert_eq!(db.transactions()[0].number, open.number());
    /// open.rollback();
    /// assert!(db.transactions().is_empty());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn transactions(&self) -> Vec<TransactionInfo> {
        self.shared().engine.open_transactions()
    }
}

impl Transaction {
    /// Returns the number of the transaction, which is unique since the store was opened.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.handle.open.number
    }

    /// Returns the sequence number of the snapshot that the transaction reads; `None` if it is
    /// serializable and locking, because it then reads the newest versions under its locks.
    #[must_use]
    pub fn sequence(&self) -> Option<u64> {
        self.handle.open.place()
    }

    /// Rolls the transaction back, as dropping it does. Nothing of it is written.
    pub fn rollback(self) {
        drop(self);
    }

    fn engine(&self) -> &Engine {
        &self.handle.engine
    }

    fn is_locking(&self) -> bool {
        self.options.concurrency == Concurrency::Locking
    }

    fn is_serializable(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }

    /// Begins an operation on a keyspace. Until it ends, neither the store nor the timeout can end
    /// the transaction.
    fn enter(&self, keyspace: &Keyspace) -> Result<OperationGuard<'_>> {
        if keyspace.store_number() != self.shared.number() {
            return Err(Error::OtherStore);
        }
        let entered = self.enter_open()?;
        keyspace.definition().alive()?;
        Ok(entered)
    }

    /// Like [`Transaction::enter`], without a keyspace.
    fn enter_open(&self) -> Result<OperationGuard<'_>> {
        self.engine().is_open()?;
        let open = &self.handle.open;
        if open.is_too_old() {
            self.handle.end(TransactionEnd::TooOld);
        }
        open.enter()
    }

    /// Locks a range until the transaction ends (T3). A transaction chosen as the victim of a
    /// deadlock has then ended. The caller must not be in an operation.
    fn lock(&self, definition: &KeyspaceDefinition, range: &KeyRange, mode: RangeLockMode) -> Result<()> {
        self.limit_locks(definition)?;
        self.acquire(range, mode)
    }

    fn acquire(&self, range: &KeyRange, mode: RangeLockMode) -> Result<()> {
        let (most, open) = (self.options.lock_timeout, &self.handle.open);
        let timeout = open.time_left().map_or(most, |left| left.min(most));
        let locked = self.engine().lock(open.number, range, mode, timeout);
        if let Err(Error::Deadlock { .. }) = locked {
            self.handle.end(TransactionEnd::Deadlock);
        }
        locked
    }

    /// If the transaction has reached the limit on its locks, replaces all its locks in the
    /// keyspace by a single lock of the whole keyspace.
    fn limit_locks(&self, definition: &KeyspaceDefinition) -> Result<()> {
        let (engine, number) = (self.engine(), self.number());
        let most = self.options.max_tracked;
        if engine.locks.held(number) < most {
            return Ok(());
        }
        let whole = KeyRange::new(&definition.prefix, Some(&definition.end));
        self.acquire(&whole, RangeLockMode::Exclusive)?;
        engine.locks.join(number, &whole);
        if engine.locks.held(number) < most {
            return Ok(());
        }
        Err(Error::TransactionLimit {
            what: "the locks",
            most,
            option: "TransactionOptions::max_tracked",
        })
    }

    /// Converts a user key to the corresponding key of the tree.
    fn tree_key(keyspace: &Keyspace, key: &[u8]) -> TreeKey {
        format::tree_key(&keyspace.definition().prefix, key)
    }

    /// Publishes the number of tracked keys and ranges, which the list of open transactions shows.
    fn tell_reads(&self, tracked: usize) {
        self.handle.open.reads.store(tracked, Ordering::Relaxed);
    }
}
