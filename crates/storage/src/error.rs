//! Errors of the storage layer: the cause, the place on disk and the remedy.

use alluvium_base::ErrorKind;
use std::fmt;
use thiserror::Error;

/// The result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The on-disk structure that a [`DiskLocation`] lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OnDiskObject {
    /// A copy of a superblock.
    Superblock,
    ExtentMap,
    /// A node: one to sixteen pages.
    Node,
    /// The header of a log segment.
    LogSegment,
    /// A record of the log.
    LogRecord,
    /// The mark of a tier's directory.
    TierMark,
    /// The list of a store's further tiers.
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
    /// The file's name within the store's directory.
    pub file: String,
    /// Offset of the structure's first byte in the file.
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

/// The advice that ends every message about damage.
pub const DAMAGE_ADVICE: &str = "; restore the store from a backup, or run `alluvium repair`";

/// An error of a storage operation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// I/O error of the device.
    #[error(transparent)]
    Device(#[from] alluvium_device::Error),
    /// The data read is not the data that was written. None of it was used.
    #[error("damaged {place}: expected {expected}, found {found}{}", DAMAGE_ADVICE)]
    Corrupt {
        place: DiskLocation,
        /// A description of the expected content.
        expected: String,
        /// A description of the content found.
        found: String,
    },
    /// The directory does not contain a store.
    #[error("{directory} is not a store: {why}")]
    NotAStore {
        directory: String,
        /// Why the directory is rejected.
        why: String,
    },
    /// The data file of a tier is missing from its directory.
    #[error(
        "{file} is missing in {directory}, and with it all data of this tier: restore the store from a backup"
    )]
    NoDataFile {
        /// Name of the missing file.
        file: String,
        directory: String,
    },
    /// The directory given for a tier does not contain that tier of the store.
    #[error("{directory} is not tier {tier} of the store in {store}: {why}")]
    WrongTier {
        directory: String,
        tier: u8,
        /// The first directory of the store.
        store: String,
        /// The mismatch and its remedy.
        why: String,
    },
    /// The directory already contains a store.
    #[error("{directory} holds a store already: open it instead of creating it")]
    StoreExists {
        /// The directory, as [`Directory::describe`](alluvium_device::Directory::describe) names
        /// it.
        directory: String,
    },
    /// The device of a further tier fails. The store continues without it: data on the other tiers
    /// remains readable, and new data is written there.
    #[error(
        "tier {tier} in {directory} fails at {access}: {cause}; the other tiers still work and receive all \
        new data: once the device works again, run `alluvium tiers use` (`Db::use_tier`), or open the \
        store again"
    )]
    TierFails {
        tier: u8,
        directory: String,
        access: crate::tiers::FailedAccess,
        /// The device's error, including the file.
        cause: String,
    },
    /// The store was written by a newer version.
    #[error(
        "{place} has format version {found}, but this version of Alluvium reads versions up to {supported}: upgrade Alluvium"
    )]
    NewerFormat {
        /// The structure that holds the version.
        place: DiskLocation,
        found: u32,
        /// The newest version that can be read.
        supported: u32,
    },
    /// The store was written by an older version, whose format is no longer supported.
    #[error(
        "{place} has format version {found}, but this version of Alluvium reads version {supported}: \
        export the store with the version that wrote it (`alluvium export`), and import it with this one \
        (`alluvium import`)"
    )]
    OlderFormat {
        /// The structure that holds the version.
        place: DiskLocation,
        found: u32,
        /// The version that can be read.
        supported: u32,
    },
    /// The newest superblock is lost: the newest readable one is older than the generation recorded
    /// in the log. Opening it would silently undo commits.
    #[error(
        "the newest readable superblock has generation {opened}, but the log names generation {named}: the \
        newer superblock is damaged or stale; restore the store from a backup, or run `alluvium repair` to \
        accept the older state"
    )]
    OlderGeneration {
        /// The newest generation that can be read.
        opened: u64,
        /// The newest generation recorded in the log.
        named: u64,
    },
    /// A merge operator rejects the value under the operands of a key. Value and operands are left
    /// unchanged.
    #[error(
        "the value of the key \"{}\" cannot be merged, because the merge operator {operator} rejects it ({why}): put another value, or delete the key",
        key.escape_ascii()
    )]
    BadBase {
        /// The key, including the prefix of its keyspace.
        key: Vec<u8>,
        /// The name of the merge operator.
        operator: &'static str,
        /// Why the operator rejects the value.
        why: String,
    },
    /// The store has no space for the request. Nothing was changed.
    #[error("the store is full: {wanted} bytes are needed, but only {free} are free{}; delete data or free disk space", if *reserve { " (the rest is reserved for deletes and checkpoints)" } else { "" })]
    Full {
        wanted: u64,
        /// Bytes available to requests of this class.
        free: u64,
        /// Whether a reserve remains that this request must not use.
        reserve: bool,
    },
    /// The log has reached its limit. Nothing was written. The record's sequence numbers remain
    /// open: append them again once the log has space, or void them with `WriteAheadLog::void`.
    #[error(
        "the log is full: {live} of {limit} bytes hold records that no checkpoint covers{}, and {wanted} \
        more are needed; checkpoint the store and release the log",
        if *reserve { " (the rest is reserved for deletes and checkpoints)" } else { "" }
    )]
    LogFull {
        /// Size of the record in bytes.
        wanted: u64,
        /// Bytes in segments that are not yet released.
        live: u64,
        /// Limit of the log in bytes.
        limit: u64,
        /// Whether a reserve remains that this append must not use.
        reserve: bool,
    },
    /// An earlier write or sync failed, so the store refuses changes (invariant S6).
    #[error("the store refuses changes since an earlier failure ({cause}): close it and open it again")]
    Poisoned {
        /// The message of the earlier failure.
        cause: String,
    },
    /// An option is invalid for the store.
    #[error("option {option}: {why}")]
    BadOption {
        option: &'static str,
        /// The problem and a valid alternative.
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

    /// Returns the kind of the error, independent of the structure it comes from.
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

    /// Returns the failing tier and the failed access of an [`Error::TierFails`]. Other tiers are
    /// not affected.
    #[must_use]
    pub fn failing_tier(&self) -> Option<(u8, crate::tiers::FailedAccess)> {
        match self {
            Error::TierFails { tier, access, .. } => Some((*tier, *access)),
            _ => None,
        }
    }

    /// Returns whether a finding of a check reports an unreadable further tier. Such a finding ends
    /// with the message of [`Error::TierFails`].
    #[must_use]
    pub fn reports_unreadable_tier(sentence: &str) -> bool {
        let marker = format!(" fails at {}: ", crate::tiers::FailedAccess::Reading);
        let before = sentence.split_once(&marker).map(|(before, _)| before);
        before.is_some_and(|before| before.contains("tier "))
    }

    /// Returns whether a resource is exhausted: space on the disk or in the store, open files, or
    /// memory. Nothing was changed, and the same request may succeed later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind() == ErrorKind::Full
    }
}
