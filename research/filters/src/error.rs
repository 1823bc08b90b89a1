//! The errors of filters.

use thiserror::Error;

/// The result of operations that may meet invalid bytes or arguments.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a filter could not be built, read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The requested shape is not supported.
    #[error("no filter has this shape: {what}; choose {instead}")]
    Shape {
        what: String,
        /// The shapes that are supported instead.
        instead: String,
    },
    /// The bytes of a structure without pages are damaged.
    #[error(
        "{structure}, byte {at}: {what} should be {expected}, found {found}; build it again from its store"
    )]
    Damaged {
        /// The name of the structure.
        structure: &'static str,
        /// The byte offset of the damage.
        at: u64,
        /// The damaged field or the violated rule.
        what: &'static str,
        expected: String,
        found: String,
    },
    /// No free slot was found for an entry of a cuckoo table. The table is unchanged.
    #[error(
        "no place for another of {entries} entries in {slots} slots: freeze this table and fill a new one"
    )]
    Full {
        /// The number of entries in the table.
        entries: u32,
        /// The number of slots in the table.
        slots: u32,
    },
    /// An entry was added out of order, or after the last page of the filter was written.
    #[error("entry {entry:016x} came after {last:016x}: sort the entries before building")]
    Order {
        /// The bits of the entry that was out of order.
        entry: u64,
        /// The bits of the greatest earlier entry.
        last: u64,
    },
}

impl Error {
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

    pub(crate) fn shape(what: impl Into<String>, instead: impl Into<String>) -> Error {
        Error::Shape {
            what: what.into(),
            instead: instead.into(),
        }
    }
}
