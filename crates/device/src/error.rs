//! The errors of devices, with advice for the user.

use alluvium_base::ErrorKind;
use std::io;
use thiserror::Error;

/// The result of a device operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The operation that failed with an [`enum@Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceOperation {
    Read,
    Write,
    /// Makes the contents of a file durable.
    Sync,
    /// Allocates space in a file or extends a file.
    Grow,
    Truncate,
    /// Returns the space of a file's range to the file system.
    PunchHole,
    /// Maps a range of a file into memory.
    Map,
    /// Creates a file or a directory.
    Create,
    /// Opens a file or a directory.
    Open,
    Rename,
    Remove,
    List,
    /// Makes changes to the names in a directory durable.
    SyncDirectory,
    Lock,
}

impl std::fmt::Display for DeviceOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DeviceOperation::Read => "reading",
            DeviceOperation::Write => "writing",
            DeviceOperation::Sync => "syncing",
            DeviceOperation::Grow => "growing",
            DeviceOperation::Truncate => "truncating",
            DeviceOperation::PunchHole => "punching a hole in",
            DeviceOperation::Map => "mapping",
            DeviceOperation::Create => "creating",
            DeviceOperation::Open => "opening",
            DeviceOperation::Rename => "renaming",
            DeviceOperation::Remove => "removing",
            DeviceOperation::List => "listing",
            DeviceOperation::SyncDirectory => "syncing the directory",
            DeviceOperation::Lock => "locking",
        })
    }
}

/// The error of a failed device operation. Every variant names the file, and its message says what
/// the user can do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file or directory does not exist.
    #[error("{file} does not exist")]
    NotFound {
        /// Name of the file or directory.
        file: String,
    },
    #[error("{file} exists already")]
    AlreadyExists {
        /// Name of the existing file.
        file: String,
    },
    /// The operating system denied access.
    #[error(
        "no permission for {operation} {file}: check its owner and mode, or run as the user who owns the store"
    )]
    PermissionDenied {
        operation: DeviceOperation,
        file: String,
    },
    /// Another process, or another handle in this process, holds the lock.
    #[error("{file} is locked: the store is open elsewhere{}; close it there first", holder.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Locked {
        /// Name of the lock file.
        file: String,
        /// Number of the process that holds the lock, if it is known.
        holder: Option<u32>,
    },
    /// The file system is full. Nothing was changed; the operation can be retried once space has
    /// been freed.
    #[error("the disk is full: {operation} {file} needs {wanted} more bytes; free some space and try again")]
    DiskFull {
        operation: DeviceOperation,
        file: String,
        wanted: u64,
    },
    /// The process or the machine has run out of a resource other than disk space. Nothing was
    /// changed.
    #[error("{operation} {file}: {source}; {remedy}, and try again")]
    Exhausted {
        operation: DeviceOperation,
        file: String,
        /// The operating system's error.
        source: io::Error,
        /// What the user can do about it, phrased as a clause of the error message.
        remedy: &'static str,
    },
    /// The request reaches beyond the end of the file.
    #[error(
        "{operation} {file} at {offset}, {len} bytes, reaches past its end at {end}: the file was truncated"
    )]
    PastEnd {
        operation: DeviceOperation,
        file: String,
        /// Offset of the request in bytes.
        offset: u64,
        /// Length of the request in bytes.
        len: u64,
        /// Length of the file in bytes.
        end: u64,
    },
    /// The file was opened read-only.
    #[error("{operation} {file} failed: it was opened for reading only")]
    ReadOnly {
        operation: DeviceOperation,
        file: String,
    },
    /// The file system is mounted read-only.
    #[error("{operation} {file} failed: its file system is mounted for reading only; mount it for writing")]
    ReadOnlyFileSystem {
        operation: DeviceOperation,
        file: String,
    },
    /// An earlier sync of the file failed, so its contents are unknown until it is reopened
    /// (invariant D4).
    #[error(
        "{operation} {file} failed: an earlier sync of the file failed, so it accepts no more changes; close the store and open it again"
    )]
    Poisoned {
        operation: DeviceOperation,
        file: String,
    },
    /// The operation is not supported here, such as mapping on a file system that refuses it. The
    /// caller has an alternative.
    #[error("{operation} {file} is not supported here: {why}")]
    Unsupported {
        operation: DeviceOperation,
        file: String,
        why: String,
    },
    /// The device or the operating system has failed.
    #[error(
        "{operation} {file} at {offset}, {len} bytes: {source}; {}",
        advice_for(source)
    )]
    Io {
        operation: DeviceOperation,
        file: String,
        /// Offset of the request in bytes, or 0 if the operation has no offset.
        offset: u64,
        /// Length of the request in bytes, or 0 if the operation has no length.
        len: u64,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file or directory was removed while it was open. Everything written to it is lost when
    /// it is closed.
    #[error(
        "{file} was removed while the store was open, so new writes would be lost: stop the program that removes it, close the store, and restore a backup"
    )]
    Removed {
        /// Name of the file, or path of the directory.
        file: String,
    },
    /// The simulated machine has crashed, so requests no longer reach the device.
    #[error("{operation} {file}: the simulated machine has crashed")]
    Crashed {
        operation: DeviceOperation,
        file: String,
    },
}

impl Error {
    /// Converts an operating system error to the corresponding variant.
    #[must_use]
    pub fn from_io(
        operation: DeviceOperation,
        file: &str,
        offset: u64,
        len: u64,
        source: io::Error,
    ) -> Error {
        let file = file.to_owned();
        // A write or sync that fails in this way may have been executed in part, so report it as a
        // failure rather than a shortage.
        let has_failed = matches!(
            operation,
            DeviceOperation::Write | DeviceOperation::Sync | DeviceOperation::SyncDirectory
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

    /// Returns the kind of the error. A missing or truncated file counts as damage.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            error if error.is_shortage() => ErrorKind::Full,
            Error::Poisoned { .. } => ErrorKind::Poisoned,
            Error::PastEnd { .. } | Error::NotFound { .. } => ErrorKind::Damaged,
            _ => ErrorKind::Device,
        }
    }

    /// Returns whether the operation may succeed once space on the file system has been freed.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Error::DiskFull { .. })
    }

    /// Returns whether a resource of the disk, the process or the machine has run out. If so,
    /// nothing was changed, the device itself has not failed, and the same request may succeed
    /// later.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        matches!(self, Error::DiskFull { .. } | Error::Exhausted { .. })
    }
}

/// Returns advice for the user about a failure of the device or the operating system.
fn advice_for(source: &io::Error) -> &'static str {
    match source.kind() {
        // The file system had already accepted the data, so a layer below it has run out of space.
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "space has run out below the file system, after it had accepted the data: free some where its \
            image file, thin volume or quota lies, then close the store and open it again"
        }
        _ => {
            "see the kernel's messages (dmesg); check the device's health (smartctl) or, if the file \
            system lies on an image file, a thin volume or a network, that there is space below it and \
            that it can be reached"
        }
    }
}

/// Returns advice for the user if `errno` means that a resource has run out, and `None` otherwise.
fn remedy(errno: i32) -> Option<&'static str> {
    match errno {
        libc::EMFILE => Some("the process has reached its limit of open files: raise the limit (ulimit -n)"),
        libc::ENFILE => Some(
            "the machine has reached its limit of open files: close some, or raise the limit (sysctl fs.file-max)",
        ),
        libc::ENOMEM => Some("memory has run out: free some, or lower the memory of the store"),
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
            Error::from_io(DeviceOperation::Write, "f", 512, 1024, source)
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
            let error = Error::from_io(DeviceOperation::Create, "log-7", 0, 0, source);
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
                operation: DeviceOperation::Sync,
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
