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
//! The place of a serializable transaction among others is that of its commit. An optimistic one
//! would read the same there, which the commit has validated; a locking one has read it there, for
//! nothing that it has read was written to until its commit was visible. One that writes nothing
//! has the place at which it reads.
//!
//! *Knows*: what a transaction has read and written, and what it depends on.
//!
//! *Does not know*: how a commit is validated, and how locks are granted; that is the engine's.
//!
//! *Read in this order*: this file, `tracker.rs` (what was read), `read.rs`, `write.rs`, `walk.rs`
//! (iterators) with `locked.rs` (walks under locks), `unordered.rs` (walks without order),
//! `spilled.rs` and `spill.rs` (writes beyond memory), `savepoint.rs`, `commit.rs`, `retry.rs`.
//!
//! Invariants:
//!
//! - **T1** Whatever an operation hands out of the store is tracked, or locked, before it is read.
//! - **T2** A walk depends on all keys between its bound and the last that it has handed out, on
//!   each side; and on all keys of its range once it has ended.
//! - **T3** Locks are held until the transaction has ended.
//! - **T4** A transaction that has ended holds nothing back.

mod commit;
mod locked;
mod read;
mod retry;
mod savepoint;
mod spill;
mod spilled;
mod tracker;
mod unordered;
mod walk;
mod write;

#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub use savepoint::Savepoint;
pub use unordered::TransactionUnordered;
pub use walk::TransactionIter;

use crate::catalog::Definition;
use crate::db::Db;
use crate::engine::{Ended, Engine, Entered, OpenTransaction, TransactionInfo};
use crate::format::{self, KeyspaceId, TreeKey};
use crate::lock_manager::Mode;
use crate::shared::Shared;
use crate::transaction_options::{Concurrency, Isolation, TransactionOptions};
use crate::write_set::WriteSet;
use crate::{Error, Keyspace, Result};
use alluvium_dictionary::range::KeyRange;
use parking_lot::Mutex;
use savepoint::Savepoints;
use spilled::Spilled;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tracker::Tracker;

/// Reads and writes of any keyspaces of a store that take effect together, or not at all. Reads see
/// the transaction's own writes; other readers see nothing of them before the commit.
///
/// Dropping a transaction rolls it back. [`Db::transaction`] runs one again where it meets a
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
    // Ends before the store is let go.
    handle: Handle,
    shared: Arc<Shared>,
    options: TransactionOptions,
    /// By keyspace: the newest writes.
    writes: BTreeMap<KeyspaceId, WriteSet>,
    /// Older ones, for which there was not enough memory.
    spilled: Spilled,
    tracker: Mutex<Tracker>,
    savepoints: Savepoints,
    /// Bytes of memory that `writes` takes.
    in_memory: usize,
}

/// The hold of a transaction on what it keeps back. Dropping it rolls the transaction back.
struct Handle {
    engine: Arc<Engine>,
    open: Arc<OpenTransaction>,
}

impl Handle {
    fn end(&self, how: Ended) {
        self.engine.end_transaction(&self.open, how);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end(Ended::RolledBack);
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
    /// Begins a transaction that is serializable and optimistic: see [`Transaction`].
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
            handle: Handle { engine, open },
            shared: Arc::clone(shared),
            options: options.clone(),
            writes: BTreeMap::new(),
            spilled: Spilled::default(),
            tracker: Mutex::new(Tracker::default()),
            savepoints: Savepoints::default(),
            in_memory: 0,
        }
    }

    /// Lists the open transactions, the oldest first: how old they are, and what they hold back.
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
    /// Returns the number of the transaction, which no other of the store has had since it was
    /// opened.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.handle.open.number
    }

    /// Returns the sequence number of the last commit that the transaction sees; `None` if it is
    /// serializable and locking, for then it sees the newest under its locks.
    #[must_use]
    pub fn sequence(&self) -> Option<u64> {
        self.handle.open.place()
    }

    /// Rolls the transaction back, as dropping it does: nothing of it is written.
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

    /// Begins an operation on a keyspace. Neither the store nor the clock ends the transaction
    /// meanwhile.
    fn enter(&self, keyspace: &Keyspace) -> Result<Entered<'_>> {
        if keyspace.store_number() != self.shared.number() {
            return Err(Error::OtherStore);
        }
        let entered = self.enter_open()?;
        keyspace.definition().alive()?;
        Ok(entered)
    }

    /// As [`Transaction::enter`], whatever the keyspace.
    fn enter_open(&self) -> Result<Entered<'_>> {
        self.engine().is_open()?;
        let open = &self.handle.open;
        if open.is_too_old() {
            self.handle.end(Ended::TooOld);
        }
        open.enter()
    }

    /// Locks a range until the transaction ends (T3). A transaction that is chosen to end a
    /// deadlock has ended then. The caller is in no operation.
    fn lock(&self, definition: &Definition, range: &KeyRange, mode: Mode) -> Result<()> {
        self.limit_locks(definition)?;
        self.acquire(range, mode)
    }

    fn acquire(&self, range: &KeyRange, mode: Mode) -> Result<()> {
        let (most, open) = (self.options.lock_timeout, &self.handle.open);
        let timeout = open.time_left().map_or(most, |left| left.min(most));
        let locked = self.engine().lock(open.number, range, mode, timeout);
        if let Err(Error::Deadlock { .. }) = locked {
            self.handle.end(Ended::Deadlock);
        }
        locked
    }

    /// Has the transaction hold fewer locks if it holds as many as it may: one range of a keyspace
    /// for all of them that lie in it.
    fn limit_locks(&self, definition: &Definition) -> Result<()> {
        let (engine, number) = (self.engine(), self.number());
        let most = self.options.max_tracked;
        if engine.locks.held(number) < most {
            return Ok(());
        }
        let whole = KeyRange::new(&definition.prefix, Some(&definition.end));
        self.acquire(&whole, Mode::Exclusive)?;
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

    /// Returns a key as dictionaries have it.
    fn tree_key(keyspace: &Keyspace, key: &[u8]) -> TreeKey {
        format::tree_key(&keyspace.definition().prefix, key)
    }

    /// Tells those who list transactions how many keys and ranges are tracked.
    fn tell_reads(&self, tracked: usize) {
        self.handle.open.reads.store(tracked, Ordering::Relaxed);
    }
}
