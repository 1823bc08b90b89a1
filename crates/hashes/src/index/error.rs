//! What can go wrong with an index of data at rest.

use thiserror::Error;

/// The result of whatever builds, updates or reads an index.
pub type Result<T> = std::result::Result<T, Error>;

/// An index cannot be built, updated or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The device said so.
    #[error(transparent)]
    Device(#[from] alluvium_device::Error),
    /// Sorting failed.
    #[error(transparent)]
    Sort(#[from] alluvium_storage::sort::Error),
    /// The tries or the block index are damaged or impossible.
    #[error(transparent)]
    Filter(#[from] alluvium_filters::Error),
    /// What was read is not what was written.
    #[error(
        "damaged {file} at offset {offset}: expected {expected}, found {found}; build the index again from its source"
    )]
    Damaged {
        /// The file's name.
        file: String,
        /// The first byte of what is damaged.
        offset: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// An index of a newer version.
    #[error(
        "{file} has format version {found}, this version of Alluvium reads up to {supported}: upgrade Alluvium"
    )]
    NewerFormat {
        /// The file's name.
        file: String,
        /// Its version.
        found: u32,
        /// The newest version that can be read.
        supported: u32,
    },
    /// A key or a value has another length than the index has.
    #[error("a {what} of {found} bytes where the index has {expected}")]
    Length {
        /// `key` or `value`.
        what: &'static str,
        /// Bytes that it should have.
        expected: u32,
        /// Bytes that it has.
        found: usize,
    },
    /// Two keys have all 128 bits of their hashes in common.
    #[error("the keys {one} and {other} have the same hash: build the index with another seed")]
    SameHash {
        /// One of them, in hexadecimal digits.
        one: String,
        /// The other.
        other: String,
    },
    /// An option is impossible.
    #[error("option {option}: {why}")]
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
        match self {
            Error::Device(error) => error.kind() == alluvium_base::ErrorKind::Full,
            Error::Sort(error) => error.is_full(),
            _ => false,
        }
    }

    /// Returns whether something on the device is not what was written.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Error::Damaged { .. } | Error::Sort(alluvium_storage::sort::Error::Damaged { .. })
        ) || matches!(self, Error::Filter(alluvium_filters::Error::Damaged { .. }))
    }
}
