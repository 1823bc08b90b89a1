//! Errors of in-memory tables.

use alluvium_base::ErrorKind;

/// Result of an operation on an in-memory table.
pub type Result<T> = std::result::Result<T, Error>;

/// Error from an operation on an in-memory table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key, a value or an item is longer than the table accepts.
    #[error(
        "{what} of {bytes} bytes is too long: the table accepts at most {most} bytes; store it elsewhere, or make the log larger"
    )]
    TooLarge {
        /// What is too long: a key, a value or an item.
        what: &'static str,
        bytes: usize,
        most: usize,
    },
    /// A lossless table does not have enough free memory for an item.
    #[error(
        "no space for an item of {bytes} bytes in a store of {capacity}: delete items, or make the store larger"
    )]
    OutOfSpace {
        /// Number of bytes that the item needs.
        bytes: usize,
        /// Capacity of the table, in bytes.
        capacity: usize,
    },
    /// A lossless table has no free bucket to extend a chain.
    #[error("all {spare} spare buckets are in use: delete items, or give the index more buckets")]
    OutOfBuckets {
        /// Total number of spare buckets.
        spare: usize,
    },
    #[error("option {option}: {why}")]
    BadOption {
        option: &'static str,
        /// Why the value is invalid, and which values are valid.
        why: String,
    },
    /// The operating system cannot provide the memory.
    #[error("the operating system cannot provide the memory for a table: {why}; make the table smaller")]
    Memory {
        /// The operating system's error.
        why: String,
    },
}

impl Error {
    /// Returns the kind of error, which tells programs how to react.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::TooLarge { .. } | Error::BadOption { .. } => ErrorKind::Refused,
            Error::OutOfSpace { .. } | Error::OutOfBuckets { .. } | Error::Memory { .. } => ErrorKind::Full,
        }
    }
}
