//! What can go wrong with a filter.

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
    /// No place was found for an entry of a cuckoo table, which is as it was before.
    #[error(
        "no place for another of {entries} entries in {slots} slots: freeze this table and fill a new one"
    )]
    Full {
        /// The entries in the table.
        entries: u32,
        /// Its slots.
        slots: u32,
    },
    /// An entry came before one that sorts after it, or after the filter's last page was written.
    #[error("entry {entry:016x} came after {last:016x}: sort the entries before building")]
    Order {
        /// The bits of the entry that came too late.
        entry: u64,
        /// The bits of the greatest entry before it.
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
