//! Errors of static data indexes.

use thiserror::Error;

/// Result of building, updating or reading a static data index.
pub type Result<T> = std::result::Result<T, Error>;

/// Error from building, updating or reading a static data index.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Device(#[from] alluvium_device::Error),
    #[error(transparent)]
    Sort(#[from] alluvium_storage::sort::Error),
    /// The tries or the block index are damaged or invalid.
    #[error(transparent)]
    Filter(#[from] alluvium_filters::Error),
    /// The data that was read differs from what was written.
    #[error(
        "damaged {file} at offset {offset}: expected {expected}, found {found}; rebuild the index from its source"
    )]
    Damaged {
        file: String,
        /// Offset of the damaged data in the file, in bytes.
        offset: u64,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A newer version wrote the file, in a format that this version does not know.
    #[error(
        "{file} has format version {found}, but this version of Alluvium reads versions up to {supported}: upgrade Alluvium"
    )]
    NewerFormat {
        file: String,
        found: u32,
        supported: u32,
    },
    /// A key or a value does not have the index's fixed length.
    #[error("the {what} has {found} bytes, but the index needs {expected}")]
    Length {
        /// Either `key` or `value`.
        what: &'static str,
        expected: u32,
        found: usize,
    },
    /// Two keys have the same 128-bit hash.
    #[error("the keys {one} and {other} have the same hash: build the index with another seed")]
    SameHash {
        /// One of the two keys, in hexadecimal.
        one: String,
        other: String,
    },
    #[error("option {option}: {why}")]
    BadOption {
        option: &'static str,
        /// Why the value is invalid, and which values are valid.
        why: String,
    },
}

impl Error {
    /// Returns whether the operation failed because a resource ran out: disk space, open files or
    /// memory.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Error::Device(error) => error.kind() == alluvium_base::ErrorKind::Full,
            Error::Sort(error) => error.is_full(),
            _ => false,
        }
    }

    /// Returns whether the error reports damage to stored data.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Error::Damaged { .. } | Error::Sort(alluvium_storage::sort::Error::Damaged { .. })
        ) || matches!(self, Error::Filter(alluvium_filters::Error::Damaged { .. }))
    }
}
