//! What can go wrong in a table in memory.

use alluvium_base::ErrorKind;

/// The result of an operation on a table.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a table refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key or an item is longer than the table takes.
    #[error(
        "{what} of {bytes} bytes: the table takes at most {most}; store it elsewhere, or make the log larger"
    )]
    TooLarge {
        /// Which: a key, a value or an item.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The most that is taken.
        most: usize,
    },
    /// A table that loses nothing has no memory left for an item.
    #[error(
        "no space for an item of {bytes} bytes in a store of {capacity}: delete items, or make the store larger"
    )]
    OutOfSpace {
        /// The bytes that the item takes.
        bytes: usize,
        /// The bytes of the store.
        capacity: usize,
    },
    /// A table that loses nothing has no bucket left.
    #[error("all {spare} spare buckets are in use: delete items, or give the index more buckets")]
    OutOfBuckets {
        /// How many spare buckets there are.
        spare: usize,
    },
    /// An option makes no sense.
    #[error("option {option}: {why}")]
    BadOption {
        /// Its name.
        option: &'static str,
        /// What is wrong, and what would do.
        why: String,
    },
    /// The system gives no memory.
    #[error("the system gives no memory for a table: {why}; ask for a smaller one")]
    Memory {
        /// What it says.
        why: String,
    },
}

impl Error {
    /// Returns the kind, which a program can match.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::TooLarge { .. } | Error::BadOption { .. } => ErrorKind::Refused,
            Error::OutOfSpace { .. } | Error::OutOfBuckets { .. } | Error::Memory { .. } => ErrorKind::Full,
        }
    }
}
