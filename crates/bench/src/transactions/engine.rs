//! The interface of a measured engine with transactions, implemented by every adapter.

use crate::engine::Setup;
use anyhow::Result;

/// Number of keyspaces per engine: the trees of the thesis's tests.
pub const KEYSPACES: usize = 4;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When it survives a power loss.
    Disk,
    /// Earlier: when it survives a crash of the process, if the engine supports that.
    Later,
}

/// Why an attempt of a transaction ended without a commit.
#[derive(Debug)]
pub enum Stop {
    /// It conflicted with other transactions: another attempt may succeed.
    Conflict,
    /// The engine failed.
    Failed(anyhow::Error),
}

impl Stop {
    /// Wraps an error that is not a conflict.
    pub fn failed(error: impl Into<anyhow::Error>) -> Stop {
        Stop::Failed(error.into())
    }
}

/// The result of a part of a transaction, or of all of it.
pub type Tried<T> = Result<T, Stop>;

/// An open engine. All threads share it; each has a [`Client`].
pub trait TransactionalEngine: Send + Sync {
    /// Creates a client for one thread.
    ///
    /// # Errors
    /// Errors of the engine.
    fn client(&self, durability: Durability) -> Result<Box<dyn Client + '_>>;

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
pub type Body<'a> = &'a mut dyn FnMut(&mut dyn Transaction) -> Tried<()>;

/// A thread's access to an engine's transactions.
pub trait Client: Send {
    /// Attempts a transaction once: begins it, calls `body` to read and write, and commits it. If
    /// `body` returns a stop, the transaction is rolled back and the stop is returned.
    ///
    /// # Errors
    /// [`Stop::Conflict`] if another attempt may succeed; the transaction then had no effect.
    fn attempt(&mut self, body: Body<'_>) -> Tried<()>;
}

/// A transaction in progress. Keyspaces are numbers below [`KEYSPACES`].
pub trait Transaction {
    /// Passes the key's value to `found`, if there is one, and makes the transaction depend on it:
    /// no other transaction may change it before the commit. Returns whether there is a value.
    ///
    /// # Errors
    /// As [`Client::attempt`].
    fn get_for_update(&mut self, keyspace: usize, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Tried<bool>;

    /// Sets the value of a key, effective when the transaction commits.
    ///
    /// # Errors
    /// As [`Client::attempt`].
    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> Tried<()>;
}

/// How an engine isolates transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A commit checks for conflicts.
    Optimistic,
    /// Keys are locked.
    Locking,
    /// Only one writing transaction at a time.
    OneWriter,
}

/// An engine that can be opened by name.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Name of the engine.
    pub name: &'static str,
    /// Isolation mechanism.
    pub mechanism: Mechanism,
    /// Opens or creates the engine.
    pub open: fn(&Setup) -> Result<Box<dyn TransactionalEngine>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

/// Returns the engine with this name.
#[must_use]
pub fn find(entries: &[Entry], name: &str) -> Option<Entry> {
    entries.iter().find(|entry| entry.name == name).copied()
}
