//! Transactions: reads and writes across keyspaces that take effect together or not at all.
//!
//! ```text
//!                reads                        writes          commit
//!   optimistic   as of the begin; tracked     kept aside      locks stripes, asks whether what it
//!                                                             depends on was written to meanwhile
//!   locking      newest, under locks          locked, kept    has its locks already, and releases
//!                                             aside           them when it is visible
//! ```
//!
//! A serializable transaction takes its position in the serial order when it commits. At that
//! position, an optimistic transaction would read the same data as before, which the commit
//! validates. A locking transaction has read the data as of that position, because its locks
//! prevent other commits from changing the data before its own commit is visible. The position of a
//! read-only transaction is the sequence number at which it reads.
//!
//! *Scope*: a transaction's reads and writes, and the keys and ranges that it depends on.
//!
//! *Must not depend on*: how commits are validated and locks are granted, which is the engine's
//! task.
//!
//! Invariants:
//!
//! - **T1** All data that an operation returns from the store is tracked or locked before it is
//!   read, except by `get_untracked`.
//! - **T2** While an iterator is in use, its transaction depends, for each end of the iterator, on
//!   all keys between the bound at that end and the last key returned from that end. Once the
//!   iterator has ended, the transaction depends on all keys of the iterator's range.
//! - **T3** Locks are held until the transaction ends.
//! - **T4** A transaction that has ended retains no versions and holds no locks.
//! - **T5** Threads that share a transaction see its writes change one call at a time. No thread
//!   waits for a lock or reads the store while it holds the mutex of the writes.

mod claim;
mod commit;
mod depend;
pub(crate) mod joint;
mod lock;
mod locked_walk;
mod own_writes;
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
use crate::options::{Concurrency, Isolation, TransactionOptions};
use crate::schema::format::{self, TreeKey};
use crate::shared::SharedStore;
use own_writes::OwnWrites;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracker::ReadTracker;

/// An atomic unit of reads and writes in any keyspaces of a store. A transaction sees its own
/// writes. Other readers see none of them before the commit.
///
/// Nothing in an open transaction is durable before [`Transaction::commit`]. A crash loses all of
/// its writes, even if [`Db::sync`] was called while it was open.
///
/// Dropping a transaction rolls it back. [`Db::transaction`] retries a transaction after a
/// conflict.
///
/// Several threads may use a transaction at the same time. Each call then takes effect at one
/// moment between its start and its end, so a read sees the writes of all calls that returned
/// before it began. An iterator sees the writes of the moment in which it was created, and no later
/// ones. A savepoint contains the writes of all calls that returned before it was created. All
/// threads are one owner of the transaction's locks. The transaction is committed by the thread
/// that owns it.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// let accounts = db.keyspace("accounts")?;
/// accounts.put("alice", "100")?;
/// let transfer = db.begin();
/// assert_eq!(transfer.get(&accounts, "alice")?.unwrap(), b"100");
/// transfer.put(&accounts, "alice", "90")?;
/// transfer.put(&accounts, "bob", "10")?;
/// assert!(accounts.get("bob")?.is_none(), "nothing is committed yet");
/// transfer.commit()?;
/// assert_eq!(accounts.get("bob")?.unwrap(), b"10");
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct Transaction {
    // Declared first, and therefore dropped first, because the transaction must end before the
    // reference to the store is released.
    handle: TransactionHandle,
    shared: Arc<SharedStore>,
    options: TransactionOptions,
    /// The mutex of the writes. It is acquired before that of the tracker, and never inside an
    /// operation (see [`Transaction::enter`]).
    own: Mutex<OwnWrites>,
    /// Number of times that spilled writes were added or removed. Changed only under the mutex of
    /// the writes.
    moves: AtomicU64,
    tracker: Mutex<ReadTracker>,
}

/// An open transaction's registration with the engine. Dropping it rolls the transaction back.
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
    /// Begins a serializable transaction with optimistic concurrency control; see [`Transaction`].
    #[must_use]
    pub fn begin(&self) -> Transaction {
        self.begin_with(&TransactionOptions::default())
    }

    /// Begins a transaction with the given options.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use alluvium::{Concurrency, TransactionOptions};
    /// let stock = db.keyspace("stock")?;
    /// let locking = TransactionOptions::new().concurrency(Concurrency::Locking);
    /// let order = db.begin_with(&locking);
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
            own: Mutex::default(),
            moves: AtomicU64::new(0),
            tracker: Mutex::default(),
        }
    }

    /// Returns the open transactions, oldest first, with their ages and the resources that they
    /// use.
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
    /// Returns the number that identifies the transaction. It is unique for as long as the store is
    /// open.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.handle.open.number
    }

    /// Returns the sequence number of the snapshot that the transaction reads. Returns `None` for a
    /// transaction that is both serializable and locking, because it reads the latest versions
    /// under its locks.
    #[must_use]
    pub fn sequence(&self) -> Option<u64> {
        self.handle.open.place()
    }

    /// Rolls the transaction back, as dropping it does, so that none of its writes takes effect.
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

    /// Begins an operation of the transaction on a keyspace. While the returned guard exists,
    /// neither closing the store nor the transaction's timeout can end the transaction.
    fn enter(&self, keyspace: &Keyspace) -> Result<OperationGuard<'_>> {
        if keyspace.store_number() != self.shared.number() {
            return Err(Error::OtherStore);
        }
        let entered = self.enter_open()?;
        keyspace.definition().alive()?;
        Ok(entered)
    }

    /// Like [`Transaction::enter`], but for an operation that concerns no keyspace.
    fn enter_open(&self) -> Result<OperationGuard<'_>> {
        self.engine().is_open()?;
        let open = &self.handle.open;
        if open.is_too_old() {
            self.handle.end(TransactionEnd::TooOld);
        }
        open.enter()
    }

    /// Converts a user key to the corresponding key of the tree.
    fn tree_key(keyspace: &Keyspace, key: &[u8]) -> TreeKey {
        format::tree_key(&keyspace.definition().prefix, key)
    }

    /// Publishes the number of tracked keys and ranges for the list of open transactions.
    fn tell_reads(&self, tracked: usize) {
        self.handle.open.reads.store(tracked, Ordering::Relaxed);
    }
}
