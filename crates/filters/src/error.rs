//! What can go wrong with a filter.

use alluvium_base::bytes::Truncated;
use thiserror::Error;

/// The result of whatever can meet bad bytes or bad arguments.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a filter could not be made, read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// No filter has this shape.
    #[error("no filter has this shape: {what}; choose {instead}")]
    Shape {
        /// What was asked for.
        what: String,
        /// What would be possible.
        instead: String,
    },
    /// The bytes are not what they should be.
    #[error("page {page}: {what} should be {expected}, found {found}; rebuild the filter from its run")]
    Corrupt {
        /// The page's number within its filter.
        page: u32,
        /// The field or structure.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The bytes of a structure without pages are not what they should be.
    #[error(
        "{structure}, byte {at}: {what} should be {expected}, found {found}; build it again from its store"
    )]
    Damaged {
        /// Which structure.
        structure: &'static str,
        /// Where in its bytes.
        at: u64,
        /// The field or rule.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The bits of a list or of a routing filter are not what they should be.
    #[error("bit {bit}: {what} should be {expected}, found {found}; rebuild the filter from its runs")]
    DamagedBits {
        /// The bit within the bytes that were read.
        bit: u64,
        /// The field or structure.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// An entry came before one that sorts after it, or after the filter's last page was written.
    #[error("entry {entry:016x} came after {last:016x}: sort the entries before building")]
    Order {
        /// The bits of the entry that came too late.
        entry: u64,
        /// The bits of the greatest entry before it.
        last: u64,
    },
    /// A value needs more bits than the filter has for it.
    #[error("value {value} does not fit {bits} bits: give the geometry more value bits")]
    Value {
        /// The value.
        value: u16,
        /// The filter's value bits.
        bits: u32,
    },
    /// Filters of different fingerprint lengths cannot be merged, compared or resized into one
    /// another.
    #[error("fingerprints of {found} bits where {expected} were expected: the length is fixed for a store")]
    FingerprintBits {
        /// The length wanted.
        expected: u32,
        /// The length met.
        found: u32,
    },
    /// One (fingerprint, value) pair occurs more often than can be counted.
    #[error("entry {entry:016x} would occur more than {max} times", max = u32::MAX)]
    Count {
        /// The bits of the entry.
        entry: u64,
    },
}

impl Error {
    pub(crate) fn corrupt(
        page: u32,
        what: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        Error::Corrupt {
            page,
            what,
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(crate) fn damaged(
        structure: &'static str,
        at: u64,
        what: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        Error::Damaged {
            structure,
            at,
            what,
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(crate) fn damaged_bits(
        bit: u64,
        what: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        Error::DamagedBits {
            bit,
            what,
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(crate) fn shape(what: impl Into<String>, instead: impl Into<String>) -> Error {
        Error::Shape {
            what: what.into(),
            instead: instead.into(),
        }
    }
}

impl From<Truncated> for Error {
    fn from(truncated: Truncated) -> Error {
        let (wanted, left) = (
            format!("{} bytes", truncated.wanted),
            format!("{}", truncated.left),
        );
        Error::damaged_bits(8 * truncated.at as u64, "length", wanted, left)
    }
}
