//! The writes of a commit, as they stand in the log.

use crate::Error;
use crate::format::Writes;

/// Writes that take effect together, as they stand in the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commit<'a> {
    /// The record of the log.
    pub(crate) record: Vec<u8>,
    /// The end of the record, where that is a long operand: the caller's own bytes.
    pub(crate) tail: &'a [u8],
    /// How many writes.
    pub(crate) count: u32,
    /// How many of them are of each kind; the others are range deletes.
    pub(crate) kinds: [u32; 3],
    /// Whether there is a write that takes more than it frees.
    pub(crate) grows: bool,
}

impl Commit<'_> {
    /// Returns how many bytes the record has in the log.
    pub(crate) fn len(&self) -> u64 {
        (self.record.len() + self.tail.len()) as u64
    }

    /// Its writes.
    pub(crate) fn writes(&self) -> Writes<'_> {
        Writes::new(&self.record).before(self.tail)
    }
}

/// Returns the error for a commit that may have no more than `most` bytes.
pub(super) fn too_long(commit: &Commit, most: u64) -> Error {
    Error::TooLong {
        what: "batch",
        bytes: commit.len() as usize,
        most: most as usize,
    }
}
