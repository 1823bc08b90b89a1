//! The writes of one commit, in their log encoding.

use crate::error::Error;
use crate::schema::format::LogWriteIter;

/// Writes that take effect atomically, in their log encoding.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommitRecord<'a> {
    /// The log record, without `tail`.
    pub(crate) record: Vec<u8>,
    /// The end of the record if it is a long operand: a slice of the caller's buffer, not copied.
    pub(crate) tail: &'a [u8],
    /// Number of writes, and so of sequence numbers.
    pub(crate) count: u32,
    /// Number of point writes of each kind; the other writes are range deletes.
    pub(crate) kinds: [u32; 3],
    /// Whether any write adds more data than it frees.
    pub(crate) grows: bool,
}

impl CommitRecord<'_> {
    /// Returns the length of the log record in bytes.
    pub(crate) fn len(&self) -> u64 {
        (self.record.len() + self.tail.len()) as u64
    }

    /// Returns an iterator over the writes.
    pub(crate) fn writes(&self) -> LogWriteIter<'_> {
        LogWriteIter::new(&self.record).before(self.tail)
    }
}

/// Returns the error for a commit longer than `most` bytes.
pub(super) fn too_long(commit: &CommitRecord, most: u64) -> Error {
    Error::TooLong {
        what: "batch",
        bytes: commit.len() as usize,
        most: most as usize,
    }
}
