//! The errors of an affine dictionary, with their location and remedy.

use alluvium_base::ErrorKind;
use alluvium_base::bytes::TruncatedInput;
use std::fmt::Display;
use thiserror::Error as ThisError;

/// The result of an operation on an affine dictionary or its space.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on an affine dictionary or its space failed.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The device returned an error.
    #[error(transparent)]
    Device(#[from] alluvium_device::Error),
    /// The bytes read differ from the bytes written. None of them were used.
    #[error(
        "damage at byte {at}: expected {what} to be {expected}, found {found}; restore the file from a backup"
    )]
    Damaged {
        /// The offset of the first byte read, or of the damage within it.
        at: u64,
        /// The damaged field or structure.
        what: &'static str,
        expected: String,
        found: String,
    },
    /// The file does not contain a dictionary.
    #[error("{place} holds no affine dictionary: {why}; create one first")]
    NotADictionary {
        /// Name of the file that was opened.
        place: String,
        /// Which part of a dictionary is missing.
        why: String,
    },
    /// The space has reached its size limit.
    #[error("no space for {bytes} bytes: {used} of {capacity} are in use; give the dictionary more")]
    Full {
        /// The number of requested bytes.
        bytes: u64,
        /// The number of bytes in use or waiting for a commit to be freed.
        used: u64,
        /// Maximum size of the space in bytes.
        capacity: u64,
    },
    /// A pair exceeds the maximum size of a pair.
    #[error(
        "a pair of {len} bytes exceeds the {limit} that a segment of a node takes: choose larger nodes or a smaller fanout"
    )]
    TooLong {
        /// The encoded size of the key and the value, in bytes.
        len: usize,
        /// Maximum encoded size, in bytes.
        limit: usize,
    },
    #[error("option {option}: {why}")]
    BadOption {
        option: &'static str,
        /// The problem, and the valid range.
        why: String,
    },
    /// An injected fault of an in-memory space.
    #[error("an injected fault: a {what} of {bytes} bytes at {at} failed; mend the space")]
    Injected {
        /// Name of the operation that failed.
        what: &'static str,
        at: u64,
        bytes: u64,
    },
    /// An earlier failure left an incomplete step in memory.
    #[error(
        "the dictionary refuses work since an earlier failure ({cause}): open it again from its last commit"
    )]
    Poisoned {
        /// The message of the earlier failure.
        cause: String,
    },
}

impl Error {
    pub(super) fn damaged(at: u64, what: &'static str, expected: impl Display, found: impl Display) -> Error {
        Error::Damaged {
            at,
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Device(error) => error.kind(),
            Error::Damaged { .. } => ErrorKind::Damaged,
            Error::NotADictionary { .. } => ErrorKind::NotAStore,
            Error::Full { .. } => ErrorKind::Full,
            Error::TooLong { .. } | Error::BadOption { .. } => ErrorKind::Refused,
            Error::Injected { .. } | Error::Poisoned { .. } => ErrorKind::Poisoned,
        }
    }
}

impl From<TruncatedInput> for Error {
    fn from(truncated: TruncatedInput) -> Error {
        Error::damaged(
            truncated.at as u64,
            "the length of what is read",
            format!("{} bytes more", truncated.wanted),
            format!("{} bytes", truncated.left),
        )
    }
}
