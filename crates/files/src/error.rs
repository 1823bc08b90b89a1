//! Errors of operations on files.

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// Result of an operation on files.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an [`enum@Error`], on which programs match. Each kind has one error number of POSIX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such name.
    NotFound,
    /// The name exists already.
    Exists,
    /// A directory is needed, and the inode is none.
    NotADirectory,
    /// The operation is not possible on a directory.
    IsADirectory,
    /// The directory has entries.
    NotEmpty,
    /// A name is longer than 255 bytes.
    NameTooLong,
    /// An argument is out of bounds.
    InvalidArgument,
    /// The operation is never permitted, for example a second name for a directory.
    NotPermitted,
    /// The file system cannot be written, for example a snapshot.
    ReadOnly,
    /// The disk is full, or the limit of the store is reached.
    NoSpace,
    /// A file would be larger than the file system allows.
    TooLarge,
    /// An inode would have too many names.
    TooManyLinks,
    /// There is no extended attribute of this name.
    NoAttribute,
    /// The value of an extended attribute is too long.
    AttributeTooLarge,
    /// The file system does not offer this operation.
    NotSupported,
    /// The inode does not exist any more, or the transaction that made it has ended.
    Stale,
    /// A path has too many symbolic links.
    Loop,
    /// There is no data, or nothing at all, from this offset on.
    NoSuchOffset,
    /// Another commit has changed the same files: run the transaction again.
    Conflict,
    /// The caller asked to stop.
    Interrupted,
    /// Records of the file system contradict each other or are damaged.
    Damaged,
    /// A newer version has written the file system.
    NewerVersion,
    /// The store or the operating system reported an error.
    Io,
    /// Others use what is to be changed.
    Busy,
}

/// The error of an operation on files.
#[derive(Debug, Error)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    errno: Option<i32>,
    paths: Vec<Vec<u8>>,
    #[source]
    source: Option<Box<alluvium::Error>>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error {
    /// Creates an error. `message` says what was wrong and where.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error {
            kind,
            message: message.into(),
            errno: None,
            paths: Vec::new(),
            source: None,
        }
    }

    /// Creates an error from one of the operating system, whose number it keeps.
    #[must_use]
    pub fn from_system(error: &std::io::Error, place: impl Into<String>) -> Error {
        Error {
            kind: ErrorKind::Io,
            message: format!("{}: {error}", place.into()),
            errno: error.raw_os_error(),
            paths: Vec::new(),
            source: None,
        }
    }

    /// Creates the error of a conflict about these paths.
    #[must_use]
    pub fn conflict(paths: Vec<Vec<u8>>) -> Error {
        let message = format!(
            "another commit has changed {} since the transaction began, and the transaction depends on it: run the transaction again",
            shown(&paths)
        );
        Error {
            paths,
            ..Error::new(ErrorKind::Conflict, message)
        }
    }

    /// Returns the paths of the files that a conflict is about, from the root of the file system.
    /// Empty if they are not known.
    #[must_use]
    pub fn paths(&self) -> &[Vec<u8>] {
        &self.paths
    }

    /// Returns the error of the store that caused this one, if there is one.
    #[must_use]
    pub fn store_error(&self) -> Option<&alluvium::Error> {
        self.source.as_deref()
    }

    /// Adds paths that a conflict or a lock is about.
    pub(crate) fn with_paths(mut self, paths: Vec<Vec<u8>>) -> Error {
        self.message = match self.store_error().map(alluvium::Error::kind) {
            Some(alluvium::ErrorKind::TimedOut) => format!(
                "{} is locked by another transaction: commit or roll back that transaction, or wait longer (`TransactionOptions::lock_timeout`)",
                shown(&paths)
            ),
            _ => Error::conflict(paths.clone()).message,
        };
        self.paths = paths;
        self
    }

    /// Adds the paths that a conflict is about, which the message names already.
    pub(crate) fn naming(self, paths: Vec<Vec<u8>>) -> Error {
        Error { paths, ..self }
    }

    /// Creates an error that another process has sent, with its number.
    #[must_use]
    pub fn told(kind: ErrorKind, errno: i32, message: impl Into<String>) -> Error {
        Error {
            errno: Some(errno),
            ..Error::new(kind, message)
        }
    }

    /// Adds the path where the error happened.
    pub(crate) fn at(mut self, path: &[u8]) -> Error {
        self.message = format!("{}: {}", path.escape_ascii(), self.message);
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the error number that POSIX gives to this kind.
    #[must_use]
    pub fn errno(&self) -> i32 {
        if let Some(errno) = self.errno {
            return errno;
        }
        match self.kind {
            ErrorKind::NotFound => libc::ENOENT,
            ErrorKind::Exists => libc::EEXIST,
            ErrorKind::NotADirectory => libc::ENOTDIR,
            ErrorKind::IsADirectory => libc::EISDIR,
            ErrorKind::NotEmpty => libc::ENOTEMPTY,
            ErrorKind::NameTooLong => libc::ENAMETOOLONG,
            ErrorKind::InvalidArgument => libc::EINVAL,
            ErrorKind::NotPermitted => libc::EPERM,
            ErrorKind::ReadOnly => libc::EROFS,
            ErrorKind::NoSpace => libc::ENOSPC,
            ErrorKind::TooLarge => libc::EFBIG,
            ErrorKind::TooManyLinks => libc::EMLINK,
            ErrorKind::NoAttribute => libc::ENODATA,
            ErrorKind::AttributeTooLarge => libc::E2BIG,
            ErrorKind::NotSupported => libc::EOPNOTSUPP,
            ErrorKind::Stale => libc::ESTALE,
            ErrorKind::Loop => libc::ELOOP,
            ErrorKind::NoSuchOffset => libc::ENXIO,
            ErrorKind::Conflict => libc::EAGAIN,
            ErrorKind::Interrupted => libc::EINTR,
            ErrorKind::Busy => libc::EBUSY,
            ErrorKind::Damaged | ErrorKind::NewerVersion | ErrorKind::Io => libc::EIO,
        }
    }
}

/// Returns paths as a message shows them.
pub(crate) fn shown(paths: &[Vec<u8>]) -> String {
    let shown: Vec<String> = paths
        .iter()
        .map(|path| format!("\"{}\"", path.escape_ascii()))
        .collect();
    shown.join(", ")
}

impl From<alluvium::Error> for Error {
    fn from(error: alluvium::Error) -> Error {
        use alluvium::ErrorKind as Store;
        let kind = match error.kind() {
            Store::Full | Store::LimitReached | Store::Exhausted => ErrorKind::NoSpace,
            Store::Conflict | Store::Deadlock | Store::TimedOut => ErrorKind::Conflict,
            Store::ReadOnly => ErrorKind::ReadOnly,
            Store::Corrupt => ErrorKind::Damaged,
            Store::NewerVersion => ErrorKind::NewerVersion,
            Store::InvalidArgument => ErrorKind::InvalidArgument,
            Store::Ended | Store::Closed | Store::Dropped => ErrorKind::Stale,
            _ => ErrorKind::Io,
        };
        Error {
            kind,
            message: error.to_string(),
            errno: None,
            paths: Vec::new(),
            source: Some(Box::new(error)),
        }
    }
}
