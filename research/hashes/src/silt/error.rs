//! The errors of SILT's layouts.

use alluvium_filters::Error as FilterError;
use thiserror::Error;

/// The result of operations that may meet invalid bytes or arguments.
pub type Result<T> = std::result::Result<T, Error>;

/// Why bytes could not be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    #[error("{structure} at byte {at}: {what} should be {expected}, found {found}; restore it from a copy")]
    Corrupt {
        /// The name of the structure.
        structure: &'static str,
        /// The offset of the structure in its file.
        at: u64,
        /// Name of the damaged field.
        what: &'static str,
        expected: String,
        found: String,
    },
    /// An entry is too long.
    #[error(
        "an entry with {key_bytes} + {value_bytes} bytes does not fit {what} of {most} bytes: choose longer ones"
    )]
    TooLong {
        /// The length of its key in bytes.
        key_bytes: usize,
        /// The length of its value in bytes.
        value_bytes: usize,
        /// The structure that is too small for the entry.
        what: &'static str,
        /// The size limit of the structure in bytes.
        most: u64,
    },
    /// An index returned an error.
    #[error(transparent)]
    Index(#[from] FilterError),
}
