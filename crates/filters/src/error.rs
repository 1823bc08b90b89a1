//! Errors of building, reading and writing filters.

use alluvium_base::bytes::TruncatedInput;
use thiserror::Error;

/// The result of a function that may encounter invalid bytes or arguments.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a filter could not be built, read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The requested shape is not supported.
    #[error("a filter cannot have this shape: {what}; choose {instead}")]
    Shape {
        what: String,
        /// The supported alternatives, as the object of "choose".
        instead: String,
    },
    /// The content of a page contradicts its format.
    #[error("page {page}: {what} should be {expected}, found {found}; rebuild the filter from its run")]
    Corrupt {
        /// Number of the page within its filter.
        page: u32,
        /// The wrong field or structure.
        what: &'static str,
        expected: String,
        found: String,
    },
    /// A structure without pages is corrupt.
    #[error("{structure}, byte {at}: {what} should be {expected}, found {found}; rebuild it from its store")]
    Damaged {
        structure: &'static str,
        /// Byte offset in the structure.
        at: u64,
        /// The wrong field or violated rule.
        what: &'static str,
        expected: String,
        found: String,
    },
    /// A list or a routing filter is corrupt.
    #[error("bit {bit}: {what} should be {expected}, found {found}; rebuild the filter from its runs")]
    DamagedBits {
        /// Bit offset in the bytes that were read.
        bit: u64,
        /// The wrong field or structure.
        what: &'static str,
        expected: String,
        found: String,
    },
    /// An entry was added out of order, or after the filter's last page was written.
    #[error("entry {entry:016x} came after {last:016x}: sort the entries before building")]
    Order {
        /// Bits of the entry that came too late.
        entry: u64,
        /// Bits of the greatest earlier entry.
        last: u64,
    },
    /// A value has more bits than the filter's geometry allows.
    #[error("value {value} does not fit {bits} bits: give the geometry more value bits")]
    Value {
        value: u16,
        /// Number of value bits of the filter.
        bits: u32,
    },
    /// Filters with different fingerprint lengths cannot be merged, compared, or resized into one
    /// another.
    #[error("fingerprints have {found} bits instead of {expected}: the length is fixed for a store")]
    FingerprintBits {
        /// Length in bits that the operation requires.
        expected: u32,
        found: u32,
    },
    /// A (fingerprint, value) pair occurs more often than its counter can represent.
    #[error("entry {entry:016x} would occur more than {max} times", max = u32::MAX)]
    Count {
        /// Fingerprint and value of the entry, as one word.
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
