//! The interface of a measured engine with transactions, implemented by every adapter.

use crate::engine::EngineSetup;
use anyhow::Result;

/// Number of keyspaces per engine: the trees of the thesis's tests.
pub const KEYSPACES: usize = 4;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AckDurability {
    /// When it survives a power loss.
    Disk,
    /// Earlier: when it survives a crash of the process, if the engine supports that.
    Later,
}

/// Why an attempt of a transaction ended without a commit.
#[derive(Debug)]
pub enum AttemptError {
    /// It conflicted with other transactions: another attempt may succeed.
    Conflict,
    Failed(anyhow::Error),
}

impl AttemptError {
    /// Wraps an error that is not a conflict.
    pub fn failed(error: impl Into<anyhow::Error>) -> AttemptError {
        AttemptError::Failed(error.into())
    }
}

/// The result of a part of a transaction, or of all of it.
pub type AttemptResult<T> = Result<T, AttemptError>;

/// An open engine. All threads share it; each has a [`TransactionClient`].
pub trait TransactionalEngine: Send + Sync {
    /// Creates a client for one thread.
    ///
    /// # Errors
    /// Errors of the engine.
    fn client(&self, durability: AckDurability) -> Result<Box<dyn TransactionClient + '_>>;

    /// Returns the engine's settings with their values.
    fn settings(&self) -> Vec<(String, String)>;

    /// Returns a human-readable report at the end of a phase; may be empty.
    fn remarks(&self) -> String {
        String::new()
    }

    /// Closes the engine in an orderly way.
    ///
    /// # Errors
    /// Errors of the engine.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The operations of a transaction; they may be executed more than once.
pub type TransactionBody<'a> = &'a mut dyn FnMut(&mut dyn EngineTransaction) -> AttemptResult<()>;

/// A thread's access to an engine's transactions.
pub trait TransactionClient: Send {
    /// Attempts a transaction once: begins it, calls `body` to read and write, and commits it. If
    /// `body` returns a stop, the transaction is rolled back and the stop is returned.
    ///
    /// # Errors
    /// [`AttemptError::Conflict`] if another attempt may succeed; the transaction then had no
    /// effect.
    fn attempt(&mut self, body: TransactionBody<'_>) -> AttemptResult<()>;
}

/// A transaction in progress. Keyspaces are numbers below [`KEYSPACES`].
pub trait EngineTransaction {
    /// Passes the key's value to `found`, if there is one, and makes the transaction depend on it:
    /// no other transaction may change it before the commit. Returns whether there is a value.
    ///
    /// # Errors
    /// As [`TransactionClient::attempt`].
    fn get_for_update(
        &mut self,
        keyspace: usize,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> AttemptResult<bool>;

    /// Sets the value of a key, effective when the transaction commits.
    ///
    /// # Errors
    /// As [`TransactionClient::attempt`].
    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> AttemptResult<()>;
}

/// How an engine isolates transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationMechanism {
    /// A commit checks for conflicts.
    Optimistic,
    /// Operations lock keys until the transaction ends.
    Locking,
    /// Only one writing transaction at a time.
    OneWriter,
}

/// An engine that can be opened by name.
#[derive(Clone, Copy)]
pub struct TransactionalEntry {
    pub name: &'static str,
    pub mechanism: IsolationMechanism,
    /// Opens or creates the engine.
    pub open: fn(&EngineSetup) -> Result<Box<dyn TransactionalEngine>>,
}

impl std::fmt::Debug for TransactionalEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

/// Returns the engine with this name.
#[must_use]
pub fn find(entries: &[TransactionalEntry], name: &str) -> Option<TransactionalEntry> {
    entries.iter().find(|entry| entry.name == name).copied()
}
