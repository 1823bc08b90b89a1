//! The interface through which engines with transactions are measured. Each engine has an adapter
//! that implements it.

use crate::engine::EngineSetup;
use anyhow::Result;

/// Number of keyspaces per engine: one for each tree in the tests of the GTSSL thesis.
pub const KEYSPACES: usize = 4;

/// The kind of failure that a commit survives once it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AckDurability {
    /// The commit survives a power failure.
    Disk,
    /// The commit survives a crash of the process, if the engine supports this, and is acknowledged
    /// earlier than with `Disk`.
    Later,
}

/// Why an attempt at a transaction ended without a commit.
#[derive(Debug)]
pub enum AttemptError {
    /// The transaction conflicted with others. Another attempt may succeed.
    Conflict,
    Failed(anyhow::Error),
}

impl AttemptError {
    /// Wraps an error that is not a conflict.
    pub fn failed(error: impl Into<anyhow::Error>) -> AttemptError {
        AttemptError::Failed(error.into())
    }
}

/// The result of a transaction, or of a part of it.
pub type AttemptResult<T> = Result<T, AttemptError>;

/// An open engine. All threads share it, and each one accesses it through its own
/// [`TransactionClient`].
pub trait TransactionalEngine: Send + Sync {
    /// Creates a client for a single thread.
    ///
    /// # Errors
    /// Errors of the engine.
    fn client(&self, durability: AckDurability) -> Result<Box<dyn TransactionClient + '_>>;

    /// Returns the names and values of the engine's settings.
    fn settings(&self) -> Vec<(String, String)>;

    /// Returns the engine's human-readable report at the end of a phase, which may be empty.
    fn remarks(&self) -> String {
        String::new()
    }

    /// Closes the engine cleanly, so that it can be reopened.
    ///
    /// # Errors
    /// Errors of the engine.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Runs the operations of a transaction. It may be called more than once.
pub type TransactionBody<'a> = &'a mut dyn FnMut(&mut dyn EngineTransaction) -> AttemptResult<()>;

/// One thread's access to an engine's transactions.
pub trait TransactionClient: Send {
    /// Attempts a transaction once: begins it, calls `body`, which reads and writes, and commits
    /// it. If `body` returns an error, rolls the transaction back and returns that error.
    ///
    /// # Errors
    /// [`AttemptError::Conflict`] if another attempt may succeed. The transaction then has no
    /// effect.
    fn attempt(&mut self, body: TransactionBody<'_>) -> AttemptResult<()>;
}

/// A transaction in progress. Its keyspaces are numbered below [`KEYSPACES`].
pub trait EngineTransaction {
    /// Looks up a key, and passes its value, if any, to `found`. The transaction then depends on
    /// the key: no other transaction may change it before this one commits. Returns whether the key
    /// exists.
    ///
    /// # Errors
    /// As [`TransactionClient::attempt`].
    fn get_for_update(
        &mut self,
        keyspace: usize,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> AttemptResult<bool>;

    /// Sets the value of a key when the transaction commits.
    ///
    /// # Errors
    /// As [`TransactionClient::attempt`].
    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> AttemptResult<()>;
}

/// How an engine isolates transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationMechanism {
    /// A commit detects conflicts.
    Optimistic,
    /// Operations lock the keys they access until the transaction ends.
    Locking,
    /// At most one writing transaction is active at a time.
    OneWriter,
}

/// An engine with transactions that can be opened by its name.
#[derive(Clone, Copy)]
pub struct TransactionalEntry {
    pub name: &'static str,
    pub mechanism: IsolationMechanism,
    /// Opens the engine, or creates it if there are no files.
    pub open: fn(&EngineSetup) -> Result<Box<dyn TransactionalEngine>>,
}

impl std::fmt::Debug for TransactionalEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionalEntry")
            .field("name", &self.name)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

/// Returns the engine with the given name, if there is one.
#[must_use]
pub fn find(entries: &[TransactionalEntry], name: &str) -> Option<TransactionalEntry> {
    entries.iter().find(|entry| entry.name == name).copied()
}
