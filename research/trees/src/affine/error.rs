//! What can go wrong with an affine dictionary, where, and what to do about it.

use alluvium_base::ErrorKind;
use alluvium_base::bytes::Truncated;
use std::fmt::Display;
use thiserror::Error as ThisError;

/// The result of an operation on an affine dictionary or its space.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on an affine dictionary, or on its space, failed.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The device said so.
    #[error(transparent)]
    Device(#[from] alluvium_device::Error),
    /// What was read is not what was written. Nothing of it was used.
    #[error(
        "damage at byte {at}: expected {what} to be {expected}, found {found}; restore the file from a backup"
    )]
    Damaged {
        /// The first byte of what was read, or an offset within it.
        at: u64,
        /// What is wrong.
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The file holds no dictionary.
    #[error("{place} holds no affine dictionary: {why}; create one first")]
    NotADictionary {
        /// The file's name.
        place: String,
        /// What is missing.
        why: String,
    },
    /// The space has a limit, and it is reached.
    #[error("no space for {bytes} bytes: {used} of {capacity} are in use; give the dictionary more")]
    Full {
        /// How many bytes were asked for.
        bytes: u64,
        /// How many are in use, or wait for a commit.
        used: u64,
        /// How many there are.
        capacity: u64,
    },
    /// A pair is longer than a segment of a node.
    #[error(
        "a pair of {len} bytes exceeds the {limit} that a segment of a node takes: choose larger nodes or a smaller fanout"
    )]
    TooLong {
        /// Bytes of the key and the value as they are stored.
        len: usize,
        /// The most.
        limit: usize,
    },
    /// An option does not fit.
    #[error("option {option}: {why}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A fault that was injected into a space in memory.
    #[error("an injected fault: a {what} of {bytes} bytes at {at} failed; mend the space")]
    Injected {
        /// What failed.
        what: &'static str,
        /// Where.
        at: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// An earlier failure left a step half done in memory.
    #[error(
        "the dictionary refuses work since an earlier failure ({cause}): open it again from its last commit"
    )]
    Poisoned {
        /// The earlier failure.
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

    /// Returns what kind of error it is.
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

impl From<Truncated> for Error {
    fn from(truncated: Truncated) -> Error {
        Error::damaged(
            truncated.at as u64,
            "the length of what is read",
            format!("{} bytes more", truncated.wanted),
            format!("{} bytes", truncated.left),
        )
    }
}
