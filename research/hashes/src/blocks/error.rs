//! What can go wrong with a hash table in external memory.

use alluvium_filters as filters;
use thiserror::Error as ThisError;

/// The result of an operation on a table or its space.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The table is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum Error {
    /// No table has this shape.
    #[error("no table has {what}; choose {instead}")]
    Shape {
        /// What was asked for.
        what: String,
        /// What would be possible.
        instead: String,
    },
    /// The space has too little left.
    #[error("{wanted} bytes were wanted, {left} are free: delete, or give the space more")]
    Full {
        /// The bytes asked for.
        wanted: u64,
        /// The bytes that are free.
        left: u64,
    },
    /// The space could not read or write.
    #[error("{what} of {bytes} bytes at {at} failed: look at the device, then open the table again")]
    Device {
        /// "reading" or "writing".
        what: &'static str,
        /// Where.
        at: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Bytes are not what they should be.
    #[error("byte {at}: {what} should be {expected}, found {found}; restore the table from a copy")]
    Damaged {
        /// The place in the space.
        at: u64,
        /// The field or structure.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A filter or list is not what it should be.
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

    /// Moves the place of damage that was found within bytes read from `at`.
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

impl From<alluvium_base::bytes::Truncated> for Error {
    fn from(truncated: alluvium_base::bytes::Truncated) -> Error {
        Error::damaged(
            truncated.at as u64,
            "length",
            format!("{} bytes", truncated.wanted),
            truncated.left,
        )
    }
}
