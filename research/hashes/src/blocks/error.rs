//! The errors of hash tables in external memory.

use alluvium_filters as filters;
use thiserror::Error as ThisError;

/// The result of an operation on a table or its space.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The table is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum Error {
    /// The requested shape is not supported.
    #[error("no table has {what}; choose {instead}")]
    Shape {
        what: String,
        /// The shapes that are supported instead.
        instead: String,
    },
    /// The space has too few free bytes.
    #[error("{wanted} bytes were wanted, {left} are free: delete, or give the space more")]
    Full {
        /// The number of requested bytes.
        wanted: u64,
        /// The number of free bytes.
        left: u64,
    },
    /// The space failed to read or write.
    #[error("{what} of {bytes} bytes at {at} failed: look at the device, then open the table again")]
    Device {
        /// "reading" or "writing".
        what: &'static str,
        /// The offset in the space.
        at: u64,
        bytes: u64,
    },
    /// The bytes read are damaged.
    #[error("byte {at}: {what} should be {expected}, found {found}; restore the table from a copy")]
    Damaged {
        /// The offset in the space.
        at: u64,
        /// The damaged field or structure.
        what: &'static str,
        expected: String,
        found: String,
    },
    /// A filter or list is damaged.
    #[error(transparent)]
    Filter(#[from] filters::Error),
}

impl Error {
    /// Says what was found where; numbers and texts are handed over as they are.
    #[allow(clippy::needless_pass_by_value)]
    pub(crate) fn damaged(
        at: u64,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Error {
        Error::Damaged {
            at,
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    pub(crate) fn shape(what: impl Into<String>, instead: impl Into<String>) -> Error {
        Error::Shape {
            what: what.into(),
            instead: instead.into(),
        }
    }

    /// Adds `from` to the offset of damage that was found within bytes read from there.
    #[must_use]
    pub(crate) fn within(self, at: u64) -> Error {
        match self {
            Error::Damaged {
                at: offset,
                what,
                expected,
                found,
            } => Error::Damaged {
                at: at.saturating_add(offset),
                what,
                expected,
                found,
            },
            other => other,
        }
    }
}

impl From<alluvium_base::bytes::TruncatedInput> for Error {
    fn from(truncated: alluvium_base::bytes::TruncatedInput) -> Error {
        Error::damaged(
            truncated.at as u64,
            "length",
            format!("{} bytes", truncated.wanted),
            truncated.left,
        )
    }
}
