//! What can go wrong with a device, and what to do about it.

use alluvium_base::ErrorKind;
use std::io;
use thiserror::Error;

/// The result of a device operation.
pub type Result<T> = std::result::Result<T, Error>;

/// What was being done when an [`enum@Error`] arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reading blocks.
    Read,
    /// Writing blocks.
    Write,
    /// Making a file's contents durable.
    Sync,
    /// Reserving space or extending a file.
    Grow,
    /// Shortening a file.
    Truncate,
    /// Giving a range back to the file system.
    PunchHole,
    /// Mapping a range into memory.
    Map,
    /// Creating a file or directory.
    Create,
    /// Opening a file or directory.
    Open,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Listing a directory.
    List,
    /// Making a directory's names durable.
    SyncDirectory,
    /// Locking a directory.
    Lock,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Operation::Read => "reading",
            Operation::Write => "writing",
            Operation::Sync => "syncing",
            Operation::Grow => "growing",
            Operation::Truncate => "truncating",
            Operation::PunchHole => "punching a hole in",
            Operation::Map => "mapping",
            Operation::Create => "creating",
            Operation::Open => "opening",
            Operation::Rename => "renaming",
            Operation::Remove => "removing",
            Operation::List => "listing",
            Operation::SyncDirectory => "syncing the directory",
            Operation::Lock => "locking",
        })
    }
}

/// A device operation failed. Every variant names the file, and its text says what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file or directory does not exist.
    #[error("{file} does not exist")]
    NotFound {
        /// The file's name.
        file: String,
    },
    /// The file exists already.
    #[error("{file} exists already")]
    AlreadyExists {
        /// The file's name.
        file: String,
    },
    /// The operating system denied access.
    #[error(
        "no permission for {operation} {file}: check its owner and mode, or run as the user who owns the store"
    )]
    PermissionDenied {
        /// What was tried.
        operation: Operation,
        /// The file's name.
        file: String,
    },
    /// Another process, or another handle of this one, holds the lock.
    #[error("{file} is locked: the store is open elsewhere{}; close it there first", holder.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Locked {
        /// The lock file's name.
        file: String,
        /// The process that holds it, where it could be told.
        holder: Option<u32>,
    },
    /// The file system is full. Nothing was changed; free space and try again.
    #[error("the disk is full: {operation} {file} wanted {wanted} more bytes; free some space and try again")]
    DiskFull {
        /// What was tried.
        operation: Operation,
        /// The file's name.
        file: String,
        /// How many bytes were asked for.
        wanted: u64,
    },
    /// The process or the machine has run out of a resource other than space on the file system.
    /// Nothing was changed.
    #[error("{operation} {file}: {source}; {remedy}, and try again")]
    Exhausted {
        /// What was tried.
        operation: Operation,
        /// The file's name.
        file: String,
        /// What the operating system said.
        source: io::Error,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The request reaches past the end of the file.
    #[error(
        "{operation} {file} at {offset}, {len} bytes, reaches past its end at {end}: the file was truncated"
    )]
    PastEnd {
        /// What was tried.
        operation: Operation,
        /// The file's name.
        file: String,
        /// The first byte of the request.
        offset: u64,
        /// The request's length in bytes.
        len: u64,
        /// The file's length in bytes.
        end: u64,
    },
    /// The file was opened for reading only.
    #[error("{operation} {file}: it was opened for reading only")]
    ReadOnly {
        /// What was tried.
        operation: Operation,
        /// The file's name.
        file: String,
    },
    /// The file system is mounted for reading only.
    #[error("{operation} {file}: its file system is mounted for reading only; mount it for writing")]
    ReadOnlyFileSystem {
        /// What was tried.
        operation: Operation,
        /// The file's name.
        file: String,
    },
    /// An earlier sync failed, so what the file holds is unknown until it is opened again
    /// (invariant D4).
    #[error(
        "{operation} {file}: an earlier sync of it failed, so nothing more is accepted; close the store and open it again"
    )]
    Poisoned {
        /// What was tried.
        operation: Operation,
        /// The file's name.
        file: String,
    },
    /// This implementation cannot do it (mapping on a file system that refuses, for one). The
    /// caller has another way.
    #[error("{operation} {file} is not supported here: {why}")]
    Unsupported {
        /// What was tried.
        operation: Operation,
        /// The file's name.
        file: String,
        /// The reason.
        why: String,
    },
    /// The device or the operating system failed.
    #[error(
        "{operation} {file} at {offset}, {len} bytes: {source}; {}",
        advice_for(source)
    )]
    Io {
        /// What was tried.
        operation: Operation,
        /// The file's name.
        file: String,
        /// The first byte of the request, 0 where none applies.
        offset: u64,
        /// The request's length in bytes, 0 where none applies.
        len: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file or the directory was removed while it was open: whatever is written to it is gone
    /// once it is closed.
    #[error(
        "{file} was removed while the store was open, so that what is written now would be lost: stop the program that removes it, close the store, and restore a backup"
    )]
    Removed {
        /// The name of the file, or the path of the directory.
        file: String,
    },
    /// The machine has crashed (simulated): nothing reaches the device any more.
    #[error("{operation} {file}: the simulated machine has crashed")]
    Crashed {
        /// What was tried.
        operation: Operation,
        /// The file's name.
        file: String,
    },
}

impl Error {
    /// Sorts an operating-system error into its variant.
    #[must_use]
    pub fn from_io(operation: Operation, file: &str, offset: u64, len: u64, source: io::Error) -> Error {
        let file = file.to_owned();
        // A write or a sync that fails so has failed: some of it may have been done.
        let has_failed = matches!(
            operation,
            Operation::Write | Operation::Sync | Operation::SyncDirectory
        );
        if let Some(remedy) = source.raw_os_error().and_then(remedy).filter(|_| !has_failed) {
            return Error::Exhausted {
                operation,
                file,
                source,
                remedy,
            };
        }
        match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound { file },
            io::ErrorKind::AlreadyExists => Error::AlreadyExists { file },
            io::ErrorKind::PermissionDenied => Error::PermissionDenied { operation, file },
            io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnlyFileSystem { operation, file },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::DiskFull {
                    operation,
                    file,
                    wanted: len,
                }
            }
            _ => Error::Io {
                operation,
                file,
                offset,
                len,
                source,
            },
        }
    }

    /// Returns what kind of error it is. A file that is missing or too short is damage.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            error if error.is_shortage() => ErrorKind::Full,
            Error::Poisoned { .. } => ErrorKind::Poisoned,
            Error::PastEnd { .. } | Error::NotFound { .. } => ErrorKind::Damaged,
            _ => ErrorKind::Device,
        }
    }

    /// Returns whether free space on the file system would have helped.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Error::DiskFull { .. })
    }

    /// Returns whether a resource ran short: space on the file system, or a resource of the process
    /// or the machine. Nothing was changed, and the same request may succeed later. It is no
    /// failure of the device.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        matches!(self, Error::DiskFull { .. } | Error::Exhausted { .. })
    }
}

/// What to do when the device or the operating system fails so.
fn advice_for(source: &io::Error) -> &'static str {
    match source.kind() {
        // The file system had taken it: the space is missing below.
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "space has run out below the file system, which had taken what was written: free some where its image \
             file, its thin volume or its quota lies, close the store and open it again"
        }
        _ => {
            "see what the kernel says (dmesg); check the device's health (smartctl) or, where the file system lies \
             on an image file, a thin volume or a network, that there is space below it and that it is reached"
        }
    }
}

/// What to do when this error of the operating system says that a resource has run out.
fn remedy(errno: i32) -> Option<&'static str> {
    match errno {
        libc::EMFILE => {
            Some("the process has as many files open as it may: raise the limit of open files (ulimit -n)")
        }
        libc::ENFILE => Some(
            "the machine has as many files open as it may: close some, or raise the limit (sysctl fs.file-max)",
        ),
        libc::ENOMEM => Some("memory is short: free some, or give the store less"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_operating_system_becomes_the_variant_that_says_what_to_do() {
        let sorted = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            Error::from_io(Operation::Write, "f", 512, 1024, source)
        };
        assert!(matches!(sorted(libc::ENOENT), Error::NotFound { .. }));
        assert!(matches!(sorted(libc::EEXIST), Error::AlreadyExists { .. }));
        for errno in [libc::EACCES, libc::EPERM] {
            assert!(matches!(sorted(errno), Error::PermissionDenied { .. }));
        }
        for errno in [libc::ENOSPC, libc::EDQUOT, libc::EFBIG] {
            assert!(matches!(sorted(errno), Error::DiskFull { wanted: 1024, .. }));
        }
        assert!(matches!(sorted(libc::EROFS), Error::ReadOnlyFileSystem { .. }));
        for (errno, word) in [
            (libc::EMFILE, "ulimit -n"),
            (libc::ENFILE, "fs.file-max"),
            (libc::ENOMEM, "memory"),
        ] {
            let source = io::Error::from_raw_os_error(errno);
            let error = Error::from_io(Operation::Create, "log-7", 0, 0, source);
            assert!(error.is_shortage() && !error.is_disk_full(), "{error}");
            let text = error.to_string();
            assert!(text.contains(word) && !text.contains("health"), "{text}");
            assert!(matches!(sorted(errno), Error::Io { .. }));
        }
        let io = sorted(libc::EIO);
        assert!(!io.is_shortage(), "{io}");
        assert!(
            matches!(
                io,
                Error::Io {
                    offset: 512,
                    len: 1024,
                    ..
                }
            ),
            "{io}"
        );
        assert!(io.to_string().contains("writing f at 512, 1024 bytes"), "{io}");
    }

    #[test]
    fn a_device_without_space_below_it_is_not_called_ill() {
        let failed = |errno| {
            let error = Error::Io {
                operation: Operation::Sync,
                file: "log-0".to_owned(),
                offset: 0,
                len: 0,
                source: io::Error::from_raw_os_error(errno),
            };
            error.to_string()
        };
        for errno in [libc::ENOSPC, libc::EDQUOT] {
            let text = failed(errno);
            assert!(text.contains("free some") && !text.contains("health"), "{text}");
        }
        let text = failed(libc::EIO);
        for word in ["dmesg", "health", "image file", "space below it"] {
            assert!(text.contains(word), "{text}");
        }
    }
}
