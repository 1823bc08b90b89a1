//! Errors of the storage layer. Each states the cause, the location on disk and the remedy.

use alluvium_base::ErrorKind;
use std::fmt;
use thiserror::Error;

/// The result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of on-disk structure that a [`DiskLocation`] refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OnDiskObject {
    /// One copy of a superblock.
    Superblock,
    ExtentMap,
    /// A node, which occupies one to sixteen pages.
    Node,
    /// The header of a segment of the log.
    LogSegment,
    /// A record of the log.
    LogRecord,
    /// The marker file of a tier's directory.
    TierMark,
    /// The list of all of a store's tiers but the first.
    TierList,
}

impl fmt::Display for OnDiskObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnDiskObject::Superblock => "superblock",
            OnDiskObject::ExtentMap => "extent map",
            OnDiskObject::Node => "node",
            OnDiskObject::LogSegment => "log segment header",
            OnDiskObject::LogRecord => "log record",
            OnDiskObject::TierMark => "mark of a tier",
            OnDiskObject::TierList => "list of tiers",
        })
    }
}

/// The location of an on-disk structure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DiskLocation {
    pub object: OnDiskObject,
    /// Name of the file within the store's directory.
    pub file: String,
    /// Offset in bytes of the structure's first byte in the file.
    pub offset: u64,
}

impl DiskLocation {
    /// Creates a location from a structure, a file name and a byte offset.
    #[must_use]
    pub fn new(structure: OnDiskObject, file: impl Into<String>, offset: u64) -> DiskLocation {
        DiskLocation {
            object: structure,
            file: file.into(),
            offset,
        }
    }
}

impl fmt::Display for DiskLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} at offset {}", self.object, self.file, self.offset)
    }
}

/// The advice that ends every error message about damaged data.
pub const DAMAGE_ADVICE: &str = "; restore the store from a backup, or run `alluvium repair`";

/// An error of a storage operation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An I/O error of the device.
    #[error(transparent)]
    Device(#[from] alluvium_device::Error),
    /// The data read is not the data that was written. It was not used.
    #[error("damaged {place}: expected {expected}, found {found}{}", DAMAGE_ADVICE)]
    Corrupt {
        place: DiskLocation,
        /// What the content should have been.
        expected: String,
        /// What was read instead.
        found: String,
    },
    /// The directory does not contain a store.
    #[error("{directory} is not a store: {why}")]
    NotAStore {
        directory: String,
        /// Why the directory is not accepted.
        why: String,
    },
    /// A tier's data file is missing from the tier's directory.
    #[error(
        "{file} is missing in {directory}, and with it all data of this tier: restore the store from a backup"
    )]
    NoDataFile {
        /// Name of the missing file.
        file: String,
        directory: String,
    },
    /// The directory given for a tier does not contain that tier of this store.
    #[error("{directory} is not tier {tier} of the store in {store}: {why}")]
    WrongTier {
        directory: String,
        tier: u8,
        /// Description of the store's first directory.
        store: String,
        /// The mismatch and its remedy.
        why: String,
    },
    /// The directory already contains a store.
    #[error("{directory} already contains a store: open it instead of creating it")]
    StoreExists {
        /// The directory as returned by
        /// [`Directory::describe`](alluvium_device::Directory::describe).
        directory: String,
    },
    /// The device of a tier other than the first has failed. The store goes on without this tier:
    /// data on the other tiers can still be read, and new data is written to them.
    #[error(
        "tier {tier} in {directory} fails at {access}: {cause}; the other tiers still work and receive all \
        new data: once the device works again, run `alluvium tiers use` (`Db::use_tier`), or open the \
        store again"
    )]
    TierFails {
        tier: u8,
        directory: String,
        access: crate::tiers::FailedAccess,
        /// The device's error, including the name of the file.
        cause: String,
    },
    /// A newer version of Alluvium wrote the store in a format that this version cannot read.
    #[error(
        "{place} has format version {found}, but this version of Alluvium reads versions up to {supported}: upgrade Alluvium"
    )]
    NewerFormat {
        /// The structure that contains the format version.
        place: DiskLocation,
        found: u32,
        /// The newest format version that can be read.
        supported: u32,
    },
    /// An older version of Alluvium wrote the store in a format that is no longer supported.
    #[error(
        "{place} has format version {found}, but this version of Alluvium reads version {supported}: \
        export the store with the version that wrote it (`alluvium export`), and import it with this one \
        (`alluvium import`)"
    )]
    OlderFormat {
        /// The structure that contains the format version.
        place: DiskLocation,
        found: u32,
        /// The only format version that can be read.
        supported: u32,
    },
    /// The newest superblock cannot be read, and the newest readable one is older than the
    /// generation named in the log. Opening the older generation would silently lose commits.
    #[error(
        "the newest readable superblock has generation {opened}, but the log names generation {named}: the \
        newer superblock is damaged or stale; restore the store from a backup, or run `alluvium repair` to \
        accept the older state"
    )]
    OlderGeneration {
        /// The newest generation whose superblock can be read.
        opened: u64,
        /// The newest generation named in the log.
        named: u64,
    },
    /// A merge operator rejects a key's value, so it cannot apply the operands to it. The value and
    /// the operands are unchanged.
    #[error(
        "the value of the key \"{}\" cannot be merged, because the merge operator {operator} rejects it ({why}): put another value, or delete the key",
        key.escape_ascii()
    )]
    BadBase {
        /// The key, prefixed with its keyspace.
        key: Vec<u8>,
        /// The name of the merge operator.
        operator: String,
        /// Why the operator rejects the value.
        why: String,
    },
    /// The store does not have enough space for the request. Nothing was changed.
    #[error("the store is full: {wanted} bytes are needed, but only {free} are free{}; delete data or free disk space", if *reserve { " (the rest is reserved for deletes and checkpoints)" } else { "" })]
    Full {
        wanted: u64,
        /// Number of bytes available to requests of this allocation class.
        free: u64,
        /// Whether there is a reserve left that requests of this allocation class must not use.
        reserve: bool,
    },
    /// The log has reached its size limit, and nothing was written. The record's sequence numbers
    /// are still unused: append the record again once the log has space, or void the numbers with
    /// `WriteAheadLog::void`.
    #[error(
        "the log is full: {live} of {limit} bytes hold records that no checkpoint covers{}, and {wanted} \
        more are needed; checkpoint the store and release the log",
        if *reserve { " (the rest is reserved for deletes and checkpoints)" } else { "" }
    )]
    LogFull {
        /// Size in bytes of the record to be appended.
        wanted: u64,
        /// Size in bytes of the unreleased segments.
        live: u64,
        /// Maximum size of the log in bytes.
        limit: u64,
        /// Whether there is a reserve left that appends of this priority must not use.
        reserve: bool,
    },
    /// An earlier write or sync failed, so the store refuses changes until it is reopened
    /// (invariant S6).
    #[error("the store refuses changes because of an earlier failure ({cause}): close it and reopen it")]
    Poisoned {
        /// The error message of the first failure.
        cause: String,
    },
    /// The value of an option is invalid.
    #[error("option {option}: {why}")]
    BadOption {
        option: &'static str,
        /// The problem, and a valid alternative.
        why: String,
    },
}

impl Error {
    pub fn corrupt(place: DiskLocation, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::Corrupt {
            place,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Returns the kind of the error, regardless of which structure it concerns.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Device(error) => error.kind(),
            Error::Full { .. } | Error::LogFull { .. } => ErrorKind::Full,
            Error::Poisoned { .. } => ErrorKind::Poisoned,
            Error::TierFails { .. } => ErrorKind::Device,
            Error::NotAStore { .. } => ErrorKind::NotAStore,
            Error::Corrupt { .. }
            | Error::NoDataFile { .. }
            | Error::OlderGeneration { .. }
            | Error::NewerFormat { .. } => ErrorKind::Damaged,
            Error::StoreExists { .. }
            | Error::WrongTier { .. }
            | Error::OlderFormat { .. }
            | Error::BadBase { .. }
            | Error::BadOption { .. } => ErrorKind::Refused,
        }
    }

    /// Returns the failed tier and the kind of access that failed if this is an
    /// [`Error::TierFails`], and `None` otherwise. Such an error does not affect other tiers.
    #[must_use]
    pub fn failing_tier(&self) -> Option<(u8, crate::tiers::FailedAccess)> {
        match self {
            Error::TierFails { tier, access, .. } => Some((*tier, *access)),
            _ => None,
        }
    }

    /// Returns whether a sentence from a check reports an unreadable tier other than the first.
    /// Such a sentence ends with the message of [`Error::TierFails`].
    #[must_use]
    pub fn reports_unreadable_tier(sentence: &str) -> bool {
        let marker = format!(" fails at {}: ", crate::tiers::FailedAccess::Reading);
        let before = sentence.split_once(&marker).map(|(before, _)| before);
        before.is_some_and(|before| before.contains("tier "))
    }

    /// Returns whether a resource is exhausted: disk space, space in the store, file descriptors,
    /// or memory. Nothing has changed, and the same request may succeed later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind() == ErrorKind::Full
    }
}
