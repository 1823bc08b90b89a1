//! What can go wrong with trees in pages, where, and what to do about it.

use alluvium_base::ErrorKind;
use thiserror::Error as ThisError;

/// The result of an operation on pages or on a tree in pages.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on pages, or on a tree in pages, failed.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The device said so.
    #[error(transparent)]
    Device(#[from] alluvium_device::Error),
    /// What was read is not what was written. Nothing of it was used.
    #[error(
        "damaged page {page} in {file} at offset {offset}: expected {expected}, found {found}; restore the store \
         from a backup"
    )]
    Corrupt {
        /// The file's name.
        file: String,
        /// The number of the page.
        page: u64,
        /// The page's first byte in the file.
        offset: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A page with a valid checksum belongs to another store.
    #[error(
        "page {page} in {file} belongs to another store ({found:032x}, not {expected:032x}): the file was mixed up \
         with that of another store; put the right one back"
    )]
    Foreign {
        /// The file's name.
        file: String,
        /// The number of the page.
        page: u64,
        /// The identity of this store.
        expected: u128,
        /// The identity that the page carries.
        found: u128,
    },
    /// The file holds no store of pages.
    #[error("{file} holds no store of pages: {why}; create it first")]
    NotAStore {
        /// The file's name.
        file: String,
        /// What is missing or wrong.
        why: String,
    },
    /// The file was written by a newer version.
    #[error(
        "{file} has format version {found}, this version of Alluvium reads up to {supported}: upgrade Alluvium"
    )]
    NewerFormat {
        /// The file's name.
        file: String,
        /// The version found.
        found: u32,
        /// The newest version that can be read.
        supported: u32,
    },
    /// All frames of the buffer are pinned, and none was given back while the caller waited.
    #[error("all {frames} frames of the page buffer are pinned; give it more memory, or use fewer threads")]
    AllPinned {
        /// How many frames there are.
        frames: usize,
    },
    /// No further page can be numbered.
    #[error("the file of pages has its greatest size, {pages} pages; move keys to another store")]
    TooManyPages {
        /// How many pages there are.
        pages: u64,
    },
    /// A key is longer than the tree was created for.
    #[error(
        "a key of {len} bytes exceeds the limit of {limit}: shorten it, or create the tree with a greater limit"
    )]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The greatest length that the tree takes.
        limit: usize,
    },
    /// A value is longer than the tree was created for.
    #[error(
        "a value of {len} bytes exceeds the limit of {limit}: shorten it, or create the tree with a greater limit"
    )]
    ValueTooLong {
        /// Its length in bytes.
        len: usize,
        /// The greatest length that the tree takes.
        limit: usize,
    },
    /// An option does not fit.
    #[error("option {option}: {why}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong and what would be right.
        why: String,
    },
    /// An earlier failure left messages in memory only, or a write or sync failed.
    #[error("the pages refuse changes since an earlier failure ({cause}): close them and open them again")]
    Poisoned {
        /// The earlier failure.
        cause: String,
    },
}

impl Error {
    /// Returns what kind of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Device(error) => error.kind(),
            Error::Corrupt { .. } | Error::Foreign { .. } | Error::NewerFormat { .. } => ErrorKind::Damaged,
            Error::NotAStore { .. } => ErrorKind::NotAStore,
            Error::AllPinned { .. } | Error::TooManyPages { .. } => ErrorKind::Full,
            Error::KeyTooLong { .. } | Error::ValueTooLong { .. } | Error::BadOption { .. } => {
                ErrorKind::Refused
            }
            Error::Poisoned { .. } => ErrorKind::Poisoned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do_and_of_which_kind_they_are() {
        let pinned = Error::AllPinned { frames: 4 };
        assert!(pinned.to_string().contains("all 4 frames") && pinned.kind() == ErrorKind::Full);
        let long = Error::KeyTooLong { len: 9, limit: 8 };
        assert!(long.to_string().contains("limit of 8") && long.kind() == ErrorKind::Refused);
        let foreign = Error::Foreign {
            file: "pages".into(),
            page: 3,
            expected: 1,
            found: 2,
        };
        assert!(foreign.to_string().contains("another store") && foreign.kind() == ErrorKind::Damaged);
    }
}
