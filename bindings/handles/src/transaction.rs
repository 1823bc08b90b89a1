//! Handles to transactions.

use crate::error::Result;
use crate::registry::{LiveHandleKind, LiveTicket};
use crate::store::{KeyspaceHandle, StoreState};
use crate::walk::{WalkCell, WalkHandle, WalkRange, ended};
use alluvium::{Durability, Savepoint, Transaction, Value};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};

/// How a transaction depends on a key that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionRead {
    /// As its isolation says.
    Tracked,
    /// Not at all.
    Untracked,
    /// With a shared lock, or a conflict if the key changes.
    Shared,
    /// With an exclusive lock, or a conflict if the key changes.
    ForUpdate,
}

#[derive(Default)]
struct SavepointList {
    next: u64,
    open: BTreeMap<u64, Savepoint>,
}

/// A handle to a transaction. Any number of threads may use it at once.
pub struct TransactionHandle {
    transaction: RwLock<Option<OpenTransaction>>,
    walks: Mutex<Vec<Weak<WalkCell>>>,
    savepoints: Mutex<SavepointList>,
    store: Arc<StoreState>,
}

struct OpenTransaction {
    inner: Arc<Transaction>,
    _live: LiveTicket,
}

impl TransactionHandle {
    pub(crate) fn new(store: &Arc<StoreState>, transaction: Transaction) -> TransactionHandle {
        let live = store
            .live
            .enter(LiveHandleKind::Transaction(transaction.number()));
        TransactionHandle {
            transaction: RwLock::new(Some(OpenTransaction {
                inner: Arc::new(transaction),
                _live: live,
            })),
            walks: Mutex::default(),
            savepoints: Mutex::default(),
            store: Arc::clone(store),
        }
    }

    /// Calls `body` with the transaction.
    ///
    /// # Errors
    /// [`alluvium::Error::Closed`]; [`alluvium::Error::TransactionEnded`]; the error of `body`.
    pub fn with<T>(&self, body: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        self.store.db()?;
        let transaction = self.transaction.read();
        body(&transaction.as_ref().ok_or_else(ended)?.inner)
    }

    /// Returns the value of a key as the transaction sees it.
    ///
    /// # Errors
    /// The errors of [`Transaction::get`] and of [`TransactionHandle::with`].
    pub fn get(&self, keyspace: &KeyspaceHandle, key: &[u8], read: TransactionRead) -> Result<Option<Value>> {
        let keyspace = keyspace.inner()?;
        self.with(|transaction| {
            Ok(match read {
                TransactionRead::Tracked => transaction.get(keyspace, key)?,
                TransactionRead::Untracked => transaction.get_untracked(keyspace, key)?,
                TransactionRead::Shared => transaction.get_shared(keyspace, key)?,
                TransactionRead::ForUpdate => transaction.get_for_update(keyspace, key)?,
            })
        })
    }

    /// Makes the transaction depend on all keys of a range.
    ///
    /// # Errors
    /// The errors of [`Transaction::depend_on_range`] and of [`TransactionHandle::with`].
    pub fn depend_on_range(&self, keyspace: &KeyspaceHandle, range: &WalkRange<'_>) -> Result<()> {
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (range.start, range.end);
        let keyspace = keyspace.inner()?;
        self.with(|transaction| Ok(transaction.depend_on_range::<&[u8]>(keyspace, bounds)?))
    }

    /// Returns an iterator over a range as the transaction sees it. It ends with the transaction.
    ///
    /// # Errors
    /// The errors of [`TransactionHandle::with`].
    pub fn walk(&self, keyspace: &KeyspaceHandle, range: &WalkRange<'_>) -> Result<WalkHandle> {
        let keyspace = keyspace.inner()?;
        self.store.db()?;
        let transaction = self.transaction.read();
        let inner = Arc::clone(&transaction.as_ref().ok_or_else(ended)?.inner);
        let live = self.store.live.enter(LiveHandleKind::Walk(keyspace.clone()));
        let walk = WalkHandle::in_transaction(&self.store, live, keyspace, inner, range);
        let mut walks = self.walks.lock();
        if walks.len() == walks.capacity() {
            walks.retain(|walk| walk.strong_count() > 0);
        }
        walks.push(Arc::downgrade(walk.cell()));
        Ok(walk)
    }

    /// Marks a place to which [`TransactionHandle::rollback_to`] returns. Returns its number.
    ///
    /// # Errors
    /// The errors of [`TransactionHandle::with`].
    pub fn savepoint(&self) -> Result<u64> {
        self.with(|transaction| {
            let mut list = self.savepoints.lock();
            list.next += 1;
            let number = list.next;
            list.open.insert(number, transaction.savepoint());
            Ok(number)
        })
    }

    fn savepoint_of(&self, number: u64) -> Result<Savepoint> {
        let list = self.savepoints.lock();
        list.open
            .get(&number)
            .cloned()
            .ok_or_else(|| alluvium::Error::NoSuchSavepoint.into())
    }

    /// Takes back all writes after a savepoint. The savepoint remains, later ones do not.
    ///
    /// # Errors
    /// The errors of [`Transaction::rollback_to`] and of [`TransactionHandle::with`].
    pub fn rollback_to(&self, number: u64) -> Result<()> {
        self.with(|transaction| {
            transaction.rollback_to(&self.savepoint_of(number)?)?;
            self.savepoints.lock().open.retain(|other, _| *other <= number);
            Ok(())
        })
    }

    /// Removes a savepoint and those after it. Their writes remain.
    ///
    /// # Errors
    /// The errors of [`Transaction::release`] and of [`TransactionHandle::with`].
    pub fn release(&self, number: u64) -> Result<()> {
        self.with(|transaction| {
            transaction.release(&self.savepoint_of(number)?)?;
            self.savepoints.lock().open.retain(|other, _| *other < number);
            Ok(())
        })
    }

    /// Ends the transaction and its iterators, and returns it (H3).
    fn take(&self) -> Result<Transaction> {
        let open = self.transaction.write().take().ok_or_else(ended)?;
        for walk in self.walks.lock().drain(..) {
            if let Some(walk) = walk.upgrade() {
                walk.end();
            }
        }
        // Calls hold the lock that was taken above, and iterators were ended. Only an iterator that
        // another thread is freeing may still hold the transaction.
        let mut inner = open.inner;
        loop {
            match Arc::try_unwrap(inner) {
                Ok(transaction) => return Ok(transaction),
                Err(shared) => inner = shared,
            }
            std::thread::yield_now();
        }
    }

    /// Commits the transaction, with this durability or with the one that it was begun with.
    ///
    /// # Errors
    /// The errors of [`Transaction::commit`]; those of [`TransactionHandle::with`]. The transaction
    /// has ended in any case, unless the store was closed before.
    pub fn commit(&self, durability: Option<Durability>) -> Result<()> {
        self.store.db()?;
        let transaction = self.take()?;
        match durability {
            None => Ok(transaction.commit()?),
            Some(durability) => Ok(transaction.commit_with(durability)?),
        }
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// [`alluvium::Error::TransactionEnded`].
    pub fn rollback(&self) -> Result<()> {
        self.take()?.rollback();
        Ok(())
    }

    /// Returns whether the transaction has neither been committed nor rolled back.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.transaction.read().is_some()
    }
}

impl Drop for TransactionHandle {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.rollback();
    }
}
