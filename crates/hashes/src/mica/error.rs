//! Errors of an in-memory table.

use alluvium_base::ErrorKind;

/// The result of an operation on a table.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of an operation on a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key or an item is longer than the table accepts.
    #[error(
        "{what} of {bytes} bytes is too long: the table accepts at most {most} bytes; store it elsewhere, or make the log larger"
    )]
    TooLarge {
        /// The object: a key, a value or an item.
        what: &'static str,
        bytes: usize,
        most: usize,
    },
    /// A lossless table has no memory left for an item.
    #[error(
        "no space for an item of {bytes} bytes in a store of {capacity}: delete items, or make the store larger"
    )]
    OutOfSpace {
        /// Bytes needed for the item.
        bytes: usize,
        /// Capacity of the store in bytes.
        capacity: usize,
    },
    /// A lossless table has no bucket left.
    #[error("all {spare} spare buckets are in use: delete items, or give the index more buckets")]
    OutOfBuckets {
        /// Number of spare buckets, all of which are in use.
        spare: usize,
    },
    #[error("option {option}: {why}")]
    BadOption {
        option: &'static str,
        /// What is wrong, and which values are valid.
        why: String,
    },
    /// The system does not provide the memory.
    #[error("the system provides no memory for a table: {why}; make the table smaller")]
    Memory {
        /// The error that the system returned.
        why: String,
    },
}

impl Error {
    /// Returns the kind of error, for matching by programs.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::TooLarge { .. } | Error::BadOption { .. } => ErrorKind::Refused,
            Error::OutOfSpace { .. } | Error::OutOfBuckets { .. } | Error::Memory { .. } => ErrorKind::Full,
        }
    }
}
