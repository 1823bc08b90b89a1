//! Transactions that several parties of a program take part in.

use super::Transaction;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::options::Durability;
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, OnceLock};

/// A transaction that several parties take part in, of which one ends it. Clones are the same
/// transaction.
///
/// The party that begins the transaction publishes it under a name that cannot be guessed, and
/// hands the name to the others. A file system and a server on the same store can so change files
/// and keys in one commit.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// use alluvium::{Durability, JointTransaction};
/// let rivers = db.keyspace("rivers")?;
/// let joint = JointTransaction::new(db.begin());
/// let name = joint.publish(&db);
///
/// let other = db.joint_transaction(&name).expect("it is open");
/// other.with(|transaction| transaction.put(&rivers, "Elbe", "1094 km"))??;
/// assert!(rivers.get("Elbe")?.is_none());
/// joint.commit(Some(Durability::Process))?;
/// assert!(rivers.get("Elbe")?.is_some());
/// assert!(other.with(|_| ()).is_err(), "it has ended");
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct JointTransaction {
    inner: Arc<JointState>,
}

struct JointState {
    /// The transaction, until it ends.
    transaction: Mutex<Option<Transaction>>,
    participant: OnceLock<Arc<dyn TransactionParticipant>>,
}

impl fmt::Debug for JointState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JointState").finish_non_exhaustive()
    }
}

/// A party that keeps state outside of the store, which must change together with the commit.
pub trait TransactionParticipant: Any + Send + Sync {
    /// Calls `commit`, which commits the transaction, between what the party has to do before and
    /// after it. Is called at most once.
    ///
    /// # Errors
    /// The error of `commit`, or an error of the party. If `commit` was not called, nothing is
    /// committed.
    fn commit(&self, commit: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

impl JointTransaction {
    /// Makes a transaction a joint one.
    #[must_use]
    pub fn new(transaction: Transaction) -> JointTransaction {
        JointTransaction {
            inner: Arc::new(JointState {
                transaction: Mutex::new(Some(transaction)),
                participant: OnceLock::new(),
            }),
        }
    }

    /// Returns a name by which [`Db::joint_transaction`] finds the transaction until it ends. The
    /// name has 128 random bits.
    ///
    /// # Panics
    /// If the transaction belongs to another store.
    #[must_use]
    pub fn publish(&self, db: &Db) -> String {
        let is_of_store = |transaction: &Transaction| Arc::ptr_eq(&transaction.shared, db.shared());
        assert!(
            self.inner.transaction.lock().as_ref().is_none_or(is_of_store),
            "a transaction of another store"
        );
        let half = || RandomState::new().hash_one(std::ptr::from_ref(self).addr());
        let name = format!("{:016x}{:016x}", half(), half());
        let state: Arc<dyn Any + Send + Sync> = self.inner.clone();
        let mut published = db.shared().published.lock();
        published.retain(|_, other| other.strong_count() > 0);
        published.insert(name.clone(), Arc::downgrade(&state));
        name
    }

    /// Calls `body` with the transaction. Other parties wait meanwhile.
    ///
    /// # Errors
    /// [`Error::TransactionEnded`] if the transaction has been committed or rolled back.
    pub fn with<T>(&self, body: impl FnOnce(&mut Transaction) -> T) -> Result<T> {
        match self.inner.transaction.lock().as_mut() {
            Some(transaction) => Ok(body(transaction)),
            None => Err(ended()),
        }
    }

    /// Returns whether the transaction has neither been committed nor rolled back.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner.transaction.lock().is_some()
    }

    /// Returns the participant, which `make` creates if there is none yet. A transaction has at
    /// most one participant.
    pub fn participant(
        &self,
        make: impl FnOnce() -> Arc<dyn TransactionParticipant>,
    ) -> &Arc<dyn TransactionParticipant> {
        self.inner.participant.get_or_init(make)
    }

    /// Commits the transaction. `None` stands for the durability of its options.
    ///
    /// # Errors
    /// As [`Transaction::commit`]; errors of the participant; [`Error::TransactionEnded`].
    pub fn commit(&self, durability: Option<Durability>) -> Result<()> {
        let transaction = self.inner.transaction.lock().take().ok_or_else(ended)?;
        let mut transaction = Some(transaction);
        let mut commit = || {
            let transaction = transaction.take().ok_or_else(ended)?;
            match durability {
                Some(durability) => transaction.commit_with(durability),
                None => transaction.commit(),
            }
        };
        match self.inner.participant.get() {
            Some(participant) => participant.commit(&mut commit),
            None => commit(),
        }
    }

    /// Rolls the transaction back. Nothing happens if it has ended.
    pub fn rollback(&self) {
        if let Some(transaction) = self.inner.transaction.lock().take() {
            transaction.rollback();
        }
    }
}

fn ended() -> Error {
    Error::TransactionEnded {
        why: "it was committed or rolled back by another party",
    }
}

impl Db {
    /// Returns the joint transaction with a name that [`JointTransaction::publish`] has returned,
    /// or `None` if it has ended.
    #[must_use]
    pub fn joint_transaction(&self, name: &str) -> Option<JointTransaction> {
        let state = self.shared().published.lock().get(name)?.upgrade()?;
        let inner = state.downcast().ok()?;
        Some(JointTransaction { inner }).filter(JointTransaction::is_open)
    }
}
