//! Errors from starting or stopping a server, and errors of commands.

use alluvium::ErrorKind;
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// The result of starting or stopping a server.
pub type Result<T> = std::result::Result<T, Error>;

/// An error that prevented the server from starting or stopping.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The store reported an error.
    #[error(transparent)]
    Store(#[from] alluvium::Error),
    /// A later server version wrote the keys in the store.
    #[error(
        "the Redis keys of the store have format {version}, and this program supports formats up to \
         {known}; use a newer version of alluvium"
    )]
    Newer {
        /// The format version of the store's keys.
        version: u64,
        /// The latest supported format version.
        known: u64,
    },
    /// Hashed keys were requested, but the existing keyspace has ordered keys.
    #[error(
        "the keyspace {keyspace:?} keeps its keys in order and cannot be changed to hashed keys; serve the \
         store without hashed keys, or copy the keys into an empty store"
    )]
    InOrder {
        /// The name of the keyspace with ordered keys.
        keyspace: &'static str,
    },
    /// Hashed keys were requested, but the store has a named snapshot, which may contain ordered
    /// keys.
    #[error(
        "the keys of the snapshot {name:?} are in order and would become unreadable with hashed keys; drop \
         the snapshot, or serve the store without hashed keys"
    )]
    SnapshotInOrder {
        /// The name of the snapshot.
        name: String,
    },
    /// The server cannot listen on a TCP address.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        address: SocketAddr,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// The server cannot listen on a Unix domain socket.
    #[error("cannot listen on the socket {}: {cause}", path.display())]
    Socket {
        /// The socket's path.
        path: PathBuf,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// Other machines can reach the address, and clients need not authenticate.
    #[error(
        "{address} is reachable from other machines without authentication; set a password, or TLS with a \
         certificate authority for clients (TLS alone admits every client), or allow unprotected access"
    )]
    Unprotected { address: SocketAddr },
    /// The user file has invalid content.
    #[error("cannot load the users: {why}")]
    Users {
        /// A description of the error and its position in the file.
        why: String,
    },
    /// The backup directory cannot be used.
    #[error("invalid backup directory: {why}")]
    BackupDirectory {
        /// The reason, phrased as the end of the error message.
        why: String,
    },
    /// The cache could not be created.
    #[error("invalid cache options: {why}")]
    Cache {
        /// The reason, phrased as the end of the error message.
        why: String,
    },
    /// The TLS certificate or its private key is invalid.
    #[error("invalid TLS configuration: {why}")]
    Tls {
        /// The reason, phrased as the end of the error message.
        why: String,
    },
    /// The operating system has no threads or file descriptors left.
    #[error("the operating system refused a resource that the server needs: {0}")]
    System(#[from] std::io::Error),
}

/// The result of a command, which writes its own reply.
pub(crate) type CommandResult = std::result::Result<(), CommandError>;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The command was rejected and changed nothing. The string is the error reply for the client.
    Refused(Cow<'static, str>),
    /// The command needs more memory than is left in the clients' budget. It changed nothing.
    NoRoom {
        /// Total memory that the command needs in bytes.
        bytes: usize,
    },
    /// The store reported an error. None of the batch's changes was applied.
    Store(alluvium::Error),
}

impl CommandError {
    pub(crate) const WRONG_TYPE: CommandError =
        CommandError::say("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const SYNTAX: CommandError = CommandError::say("ERR syntax error");
    pub(crate) const NOT_INTEGER: CommandError =
        CommandError::say("ERR value is not an integer or out of range");
    pub(crate) const OUT_OF_RANGE: CommandError = CommandError::say("ERR value is out of range");
    pub(crate) const NOT_FLOAT: CommandError = CommandError::say("ERR value is not a valid float");
    pub(crate) const NO_SUCH_KEY: CommandError = CommandError::say("ERR no such key");

    /// Returns whether commands on other keys may still succeed, because only some keys' records
    /// are damaged or the device that stores them fails.
    pub(crate) fn may_spare_others(&self) -> bool {
        let CommandError::Store(error) = self else {
            return false;
        };
        matches!(error.kind(), ErrorKind::Io | ErrorKind::Corrupt)
    }

    /// Returns the error for a rejected command. `text` is the client's error reply.
    pub(crate) const fn say(text: &'static str) -> CommandError {
        CommandError::Refused(Cow::Borrowed(text))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Refused(text) => f.write_str(text),
            CommandError::NoRoom { bytes } => write!(
                f,
                "OOM the command needs {bytes} bytes, but the client memory has less left; request less at \
                 a time, or raise --client-memory (CONFIG SET maxmemory-clients)"
            ),
            CommandError::Store(error) if error.is_full() => write!(f, "OOM the disk is full: {error}"),
            CommandError::Store(error) => write!(f, "ERR {error}"),
        }
    }
}

impl From<alluvium::Error> for CommandError {
    fn from(error: alluvium::Error) -> CommandError {
        CommandError::Store(error)
    }
}
