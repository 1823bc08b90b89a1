//! Errors of an external sort.

use thiserror::Error;

/// The result of a sort operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error that ends a sort. Dropping the sort removes its temporary files.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An I/O error of the device.
    #[error("the external sort failed in a temporary file: {0}")]
    Device(#[from] alluvium_device::Error),
    /// The data read from a run is not the data that was written.
    #[error(
        "damaged run {run} of a sort, frame {frame} at offset {offset} of the temporary file {file}: expected \
         {expected}, found {found}; sort again, with temporary files on another disk if it happens again"
    )]
    Damaged {
        /// Number of the run, which is that of its first chunk.
        run: u64,
        /// Number of the frame in the run.
        frame: u64,
        /// Offset in bytes of the frame in the file.
        offset: u64,
        file: String,
        /// What the content should have been.
        expected: String,
        /// What was read instead.
        found: String,
    },
    /// A record is too long for the sort's memory.
    #[error(
        "a record of {bytes} bytes is longer than {most}, an eighth of the memory: give the sort more memory"
    )]
    TooLong {
        /// Size of the record in bytes.
        bytes: usize,
        /// Maximum size of a record in bytes, which is an eighth of the memory.
        most: usize,
    },
    #[error("option {option} of a sort: {why}")]
    BadOption {
        option: &'static str,
        /// The problem, and a valid alternative.
        why: String,
    },
}

impl Error {
    /// Returns whether a resource is exhausted: disk space, file descriptors, or memory.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Device(error) if error.kind() == alluvium_base::ErrorKind::Full)
    }
}
