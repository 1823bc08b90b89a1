//! What can go wrong: for who starts a server, and for who sends it commands.

use crate::model::format::Damaged;
use alluvium::ErrorKind;
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// The result of starting or stopping a server.
pub type Result<T> = std::result::Result<T, Error>;

/// A server could not be started or stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The store says so.
    #[error(transparent)]
    Store(#[from] alluvium::Error),
    /// A later version of the server has written to the store.
    #[error(
        "the store has keys of Redis in format {version}, and this program knows formats up to {known}: use a newer \
         version of alluvium for it"
    )]
    Newer {
        /// The version of the bytes.
        version: u64,
        /// The latest version that is known here.
        known: u64,
    },
    /// Keys are to be hashed, and the store keeps them in order.
    #[error(
        "the store keeps the keys of the keyspace {keyspace:?} in order, and they cannot be hashed afterwards: serve it \
         without asking for hashed keys, or serve an empty store and copy the keys into it"
    )]
    InOrder {
        /// Where the keys are.
        keyspace: &'static str,
    },
    /// Keys are to be hashed, and a named snapshot may hold keys in order.
    #[error(
        "the store has the named snapshot {name:?}, whose keys are in order and could not be read any more: \
         remove it, or serve the store without asking for hashed keys"
    )]
    SnapshotInOrder {
        /// The snapshot.
        name: String,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A socket of the file system cannot be listened at.
    #[error("cannot listen at the socket {}: {cause}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What is in the way.
        cause: std::io::Error,
    },
    /// Others than this machine could connect, and nothing would keep them from reading everything.
    #[error(
        "{address} can be reached from other machines, and nothing keeps them out: set a password, or TLS with a \
         certificate authority for clients (TLS alone encrypts, and lets every client in), or allow it as unprotected"
    )]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// The file of users is of no use.
    #[error("the users: {why}")]
    Users {
        /// What is wrong with it, and where.
        why: String,
    },
    /// Backups cannot go into the directory for them.
    #[error("the directory for backups: {why}")]
    BackupDirectory {
        /// What is in the way.
        why: String,
    },
    /// A cache cannot be had.
    #[error("the cache: {why}")]
    Cache {
        /// What is in the way.
        why: String,
    },
    /// The certificate or its key is of no use.
    #[error("TLS: {why}")]
    Tls {
        /// What is wrong with it.
        why: String,
    },
    /// The system has no threads or file descriptors left.
    #[error("the system refuses what a server needs: {0}")]
    System(#[from] std::io::Error),
}

/// A command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client is told so; nothing was changed.
    Refused(Cow<'static, str>),
    /// It needs more memory than all clients together have left; nothing was changed.
    NoRoom {
        /// What it needs.
        bytes: usize,
    },
    /// The store failed; nothing of the batch was changed.
    Store(alluvium::Error),
}

impl Failure {
    pub(crate) const WRONG_TYPE: Failure =
        Failure::say("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const SYNTAX: Failure = Failure::say("ERR syntax error");
    pub(crate) const NOT_INTEGER: Failure = Failure::say("ERR value is not an integer or out of range");
    pub(crate) const OUT_OF_RANGE: Failure = Failure::say("ERR value is out of range");
    pub(crate) const NOT_FLOAT: Failure = Failure::say("ERR value is not a valid float");
    pub(crate) const NO_SUCH_KEY: Failure = Failure::say("ERR no such key");

    /// Whether it may concern some keys and not others: what was read of them is damaged, or lies
    /// on a device that fails.
    pub(crate) fn may_spare_others(&self) -> bool {
        let Failure::Store(error) = self else {
            return false;
        };
        matches!(error.kind(), ErrorKind::Io | ErrorKind::Corrupt)
    }

    /// An error that is always the same.
    pub(crate) const fn say(text: &'static str) -> Failure {
        Failure::Refused(Cow::Borrowed(text))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(text) => f.write_str(text),
            Failure::NoRoom { bytes } => write!(
                f,
                "OOM the command needs {bytes} bytes, and the memory of clients does not have them: ask for less at a time, or \
                 raise --client-memory (CONFIG SET maxmemory-clients)"
            ),
            Failure::Store(error) if error.is_full() => write!(f, "OOM the disk is full: {error}"),
            Failure::Store(error) => write!(f, "ERR {error}"),
        }
    }
}

impl From<alluvium::Error> for Failure {
    fn from(error: alluvium::Error) -> Failure {
        Failure::Store(error)
    }
}

impl From<Damaged> for Failure {
    fn from(damaged: Damaged) -> Failure {
        Failure::Refused(Cow::Owned(format!("ERR {damaged}")))
    }
}
