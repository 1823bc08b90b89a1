//! What can go wrong with SILT's layouts.

use alluvium_filters::Error as FilterError;
use thiserror::Error;

/// The result of whatever can meet bad bytes or bad arguments.
pub type Result<T> = std::result::Result<T, Error>;

/// Why bytes could not be made or read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The bytes are not what they should be.
    #[error("{structure} at byte {at}: {what} should be {expected}, found {found}; restore it from a copy")]
    Corrupt {
        /// Which structure.
        structure: &'static str,
        /// Where it begins in its file.
        at: u64,
        /// The field.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// An entry is too long.
    #[error(
        "an entry with {key_bytes} + {value_bytes} bytes does not fit {what} of {most} bytes: choose longer ones"
    )]
    TooLong {
        /// The bytes of its key.
        key_bytes: usize,
        /// The bytes of its value.
        value_bytes: usize,
        /// What it does not fit.
        what: &'static str,
        /// How long that is.
        most: u64,
    },
    /// An index refused.
    #[error(transparent)]
    Index(#[from] FilterError),
}
