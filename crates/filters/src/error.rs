//! Errors from building, reading and writing filters.

use alluvium_base::bytes::TruncatedInput;
use thiserror::Error;

/// Result of a function that may receive invalid bytes or arguments.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a filter could not be built, read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The requested parameters are not supported.
    #[error("a filter cannot have this shape: {what}; choose {instead}")]
    Shape {
        what: String,
        /// The supported alternatives, as the object of the verb "choose".
        instead: String,
    },
    /// The contents of a page violate the format.
    #[error("page {page}: {what} should be {expected}, found {found}; rebuild the filter from its run")]
    Corrupt {
        /// Number of the page in its filter.
        page: u32,
        /// What is wrong: a field or a structure.
        what: &'static str,
        expected: String,
        found: String,
    },
    /// The contents of a structure without pages violate the format.
    #[error("{structure}, byte {at}: {what} should be {expected}, found {found}; rebuild it from its store")]
    Damaged {
        structure: &'static str,
        /// Byte offset of the error in the structure.
        at: u64,
        /// What is wrong: a field, or a violated rule.
        what: &'static str,
        expected: String,
        found: String,
    },
    /// A list or a routing filter violates the format.
    #[error("bit {bit}: {what} should be {expected}, found {found}; rebuild the filter from its runs")]
    DamagedBits {
        /// Bit offset of the error from the first byte that was read.
        bit: u64,
        /// What is wrong: a field or a structure.
        what: &'static str,
        expected: String,
        found: String,
    },
    /// An entry was added out of order, or after the filter's last page was written.
    #[error("entry {entry:016x} came after {last:016x}: sort the entries before building")]
    Order {
        /// The entry that came too late, as a word.
        entry: u64,
        /// The greatest entry before it, as a word.
        last: u64,
    },
    /// A value has more bits than the geometry of the filter allows.
    #[error("value {value} does not fit {bits} bits: give the geometry more value bits")]
    Value {
        value: u16,
        /// Number of bits that the filter stores for each value.
        bits: u32,
    },
    /// The filters have different fingerprint lengths, so they cannot be merged, compared, or
    /// converted into each other.
    #[error("fingerprints have {found} bits instead of {expected}: the length is fixed for a store")]
    FingerprintBits {
        /// Fingerprint length that the operation requires, in bits.
        expected: u32,
        found: u32,
    },
    /// An entry, which is a pair of a fingerprint and a value, occurs more often than its counter
    /// can represent.
    #[error("entry {entry:016x} would occur more than {max} times", max = u32::MAX)]
    Count {
        /// The entry, as a word.
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

impl From<TruncatedInput> for Error {
    fn from(truncated: TruncatedInput) -> Error {
        let (wanted, left) = (
            format!("{} bytes", truncated.wanted),
            format!("{}", truncated.left),
        );
        Error::damaged_bits(8 * truncated.at as u64, "length", wanted, left)
    }
}
