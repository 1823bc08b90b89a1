//! What is measured: an engine with transactions, as every adapter offers it.

use crate::engine::Setup;
use anyhow::Result;

/// How many keyspaces an engine has: the trees of the thesis's tests.
pub const KEYSPACES: usize = 4;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When it survives the loss of power.
    Disk,
    /// Earlier: when it survives the death of the process, where the engine can do that.
    Later,
}

/// Why a run of a transaction has ended without a commit.
#[derive(Debug)]
pub enum Stop {
    /// Others were in its way: another run may succeed.
    Conflict,
    /// The engine has failed.
    Failed(anyhow::Error),
}

impl Stop {
    /// Returns the stop of an error that is no conflict.
    pub fn failed(error: impl Into<anyhow::Error>) -> Stop {
        Stop::Failed(error.into())
    }
}

/// What came of a part of a transaction, or of all of it.
pub type Tried<T> = Result<T, Stop>;

/// An engine that is open. All threads share it; each has a [`Client`].
pub trait TransactionalEngine: Send + Sync {
    /// Returns what one thread runs its transactions through.
    ///
    /// # Errors
    /// As the engine says.
    fn client(&self, durability: Durability) -> Result<Box<dyn Client + '_>>;

    /// Returns how it was set up, each setting with its value.
    fn settings(&self) -> Vec<(String, String)>;

    /// What the engine itself has to say at the end of a phase, for people; empty if nothing.
    fn remarks(&self) -> String {
        String::new()
    }

    /// Closes it in order.
    ///
    /// # Errors
    /// As the engine says.
    fn close(self: Box<Self>) -> Result<()>;
}

/// What a transaction does; it may be run more than once.
pub type Body<'a> = &'a mut dyn FnMut(&mut dyn Transaction) -> Tried<()>;

/// What one thread runs its transactions through.
pub trait Client: Send {
    /// Runs a transaction once: begins it, lets `body` read and write, and commits it. Where `body`
    /// ends with a stop the transaction is rolled back, and that is the result.
    ///
    /// # Errors
    /// [`Stop::Conflict`] where another run may succeed; nothing has taken effect then.
    fn attempt(&mut self, body: Body<'_>) -> Tried<()>;
}

/// A transaction that is under way. Keyspaces are numbers below [`KEYSPACES`].
pub trait Transaction {
    /// Hands out the key's value, if it has one, and makes the transaction depend on it: between
    /// this and the commit nothing else changes it. Returns whether the key has a value.
    ///
    /// # Errors
    /// As [`Client::attempt`].
    fn get_for_update(&mut self, keyspace: usize, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Tried<bool>;

    /// The key has this value if the transaction is committed.
    ///
    /// # Errors
    /// As [`Client::attempt`].
    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> Tried<()>;
}

/// How an engine keeps transactions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A commit looks for conflicts.
    Optimistic,
    /// Keys are locked.
    Locking,
    /// One transaction that writes at a time.
    OneWriter,
}

/// An engine that can be opened by its name.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// How it keeps transactions apart.
    pub mechanism: Mechanism,
    /// Opens it, or creates it.
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

/// Returns the engine of a name.
#[must_use]
pub fn find(entries: &[Entry], name: &str) -> Option<Entry> {
    entries.iter().find(|entry| entry.name == name).copied()
}
