//! The writes of one commit, encoded as a log record.

use crate::error::Error;
use crate::schema::format::LogWriteIter;

/// The writes of one commit, which take effect atomically, encoded as a log record.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommitRecord<'a> {
    /// The log record, except for the bytes in `tail`.
    pub(crate) record: Vec<u8>,
    /// The last bytes of the log record, if it ends with a long value or operand. They are borrowed
    /// from the caller instead of copied.
    pub(crate) tail: &'a [u8],
    /// Number of writes. Each write uses one sequence number.
    pub(crate) count: u32,
    /// Number of point writes, indexed by `MessageKind`. All other writes are range deletes.
    pub(crate) kinds: [u32; 4],
    /// Whether any write of the commit adds more data than it frees.
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

/// Returns the error for a commit that is longer than `most` bytes.
pub(super) fn too_long(commit: &CommitRecord, most: u64) -> Error {
    Error::TooLong {
        what: "batch",
        bytes: commit.len() as usize,
        most: most as usize,
    }
}
