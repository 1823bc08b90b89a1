//! What can go wrong with a sort.

use thiserror::Error;

/// The result of a step of a sort.
pub type Result<T> = std::result::Result<T, Error>;

/// A sort cannot go on. Its temporary files go when it is dropped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The device said so.
    #[error("in a temporary file of a sort: {0}")]
    Device(#[from] alluvium_device::Error),
    /// What was read of a run is not what was written.
    #[error(
        "damaged run {run} of a sort, frame {frame} at offset {offset} of the temporary file {file}: expected \
         {expected}, found {found}; sort again, with temporary files on another disk if it happens again"
    )]
    Damaged {
        /// The run's number.
        run: u64,
        /// The frame's number in the run.
        frame: u64,
        /// Where the frame begins.
        offset: u64,
        /// The file's name.
        file: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A record is too long for the memory.
    #[error(
        "a record of {bytes} bytes is longer than {most}, an eighth of the memory: give the sort more memory"
    )]
    TooLong {
        /// Bytes of the record.
        bytes: usize,
        /// The most bytes.
        most: usize,
    },
    /// An option is impossible.
    #[error("option {option} of a sort: {why}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
}

impl Error {
    /// Returns whether a resource ran short: space on the disk, open files, or memory.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Device(error) if error.kind() == alluvium_base::ErrorKind::Full)
    }
}
