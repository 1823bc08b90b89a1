//! What can go wrong below the trees, where, and what to do about it.

use alluvium_base::ErrorKind;
use std::fmt;
use thiserror::Error;

/// The result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The on-disk structure that a [`Place`] lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Structure {
    /// A copy of a superblock.
    Superblock,
    /// The persisted extent map.
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

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Structure::Superblock => "superblock",
            Structure::ExtentMap => "extent map",
            Structure::Node => "node",
            Structure::LogSegment => "log segment header",
            Structure::LogRecord => "log record",
            Structure::TierMark => "mark of a tier",
            Structure::TierList => "list of tiers",
        })
    }
}

/// Where something on disk is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// What kind of thing.
    pub structure: Structure,
    /// The file's name in the store's directory.
    pub file: String,
    /// The first byte in the file.
    pub offset: u64,
}

impl Place {
    /// A place.
    #[must_use]
    pub fn new(structure: Structure, file: impl Into<String>, offset: u64) -> Place {
        Place {
            structure,
            file: file.into(),
            offset,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} at offset {}", self.structure, self.file, self.offset)
    }
}

/// How an error that tells of damage ends: what to do about it.
pub const DAMAGE_ADVICE: &str = "; restore the store from a backup, or run `alluvium repair`";

/// A storage operation failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The device said so.
    #[error(transparent)]
    Device(#[from] alluvium_device::Error),
    /// What was read is not what was written. Nothing of it was used.
    #[error("damaged {place}: expected {expected}, found {found}{}", DAMAGE_ADVICE)]
    Corrupt {
        /// Where.
        place: Place,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The directory holds no store.
    #[error("{directory} is not a store: {why}")]
    NotAStore {
        /// The directory.
        directory: String,
        /// What is missing or wrong.
        why: String,
    },
    /// The file that has the data of a tier is not in its directory.
    #[error(
        "{file} is missing in {directory}, and with it what the store holds there: restore the store from a backup"
    )]
    NoDataFile {
        /// The file's name.
        file: String,
        /// The directory.
        directory: String,
    },
    /// A directory that was given for a tier of a store does not hold that tier.
    #[error("{directory} is not tier {tier} of the store in {store}: {why}")]
    WrongTier {
        /// The directory.
        directory: String,
        /// The tier.
        tier: u8,
        /// The first directory of the store.
        store: String,
        /// What is wrong and what would be right.
        why: String,
    },
    /// The directory holds a store already.
    #[error("{directory} holds a store already: open it instead of creating it")]
    StoreExists {
        /// The directory.
        directory: String,
    },
    /// The device of a further tier fails. The store goes on without it: what lies on the other
    /// tiers is served, and what is new goes there.
    #[error(
        "tier {tier} in {directory} fails at {access}: {cause}; the other tiers are served and take what is new: once \
         its device works again, have it used with `alluvium tiers use` (`Db::use_tier`), or open the store again"
    )]
    TierFails {
        /// The tier.
        tier: u8,
        /// Its directory.
        directory: String,
        /// What it was asked for.
        access: crate::tiers::Access,
        /// What the device said, with the file.
        cause: String,
    },
    /// The store was written by a newer version.
    #[error(
        "{place} has format version {found}, this version of Alluvium reads up to {supported}: upgrade Alluvium"
    )]
    NewerFormat {
        /// Where the version stands.
        place: Place,
        /// The version found.
        found: u32,
        /// The newest version that can be read.
        supported: u32,
    },
    /// The store was written by an earlier version, whose format is not read any more.
    #[error(
        "{place} has format version {found}, this version of Alluvium reads {supported}: export the store with the \
         version that wrote it (`alluvium export`), and import it with this one (`alluvium import`)"
    )]
    OlderFormat {
        /// Where the version stands.
        place: Place,
        /// The version found.
        found: u32,
        /// The version that can be read.
        supported: u32,
    },
    /// The newest superblock is gone: what can be opened is older than what the log has seen.
    /// Opening it would silently undo commits.
    #[error(
        "the newest readable superblock has generation {opened}, but the log has seen generation {named}: \
         the newer superblock is damaged or stale; restore from a backup, or run `alluvium repair` to accept the older state"
    )]
    OlderGeneration {
        /// The newest generation that can be read.
        opened: u64,
        /// The newest generation that the log names.
        named: u64,
    },
    /// A merge operator refuses the value that operands lie upon. Both stay as they are.
    #[error(
        "operands lie upon a value of the key \"{}\" that the merge operator {operator} refuses: {why}; put another value, or delete the key",
        key.escape_ascii()
    )]
    BadBase {
        /// The key, with what names its keyspace.
        key: Vec<u8>,
        /// The operator.
        operator: &'static str,
        /// What is wrong with the value.
        why: String,
    },
    /// The store has no space for what was asked, and nothing was changed.
    #[error("the store is full: {wanted} bytes were wanted, {free} are free{}; delete something or free disk space", if *reserve { " (the rest is kept for deletes and checkpoints)" } else { "" })]
    Full {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes that could be had.
        free: u64,
        /// Whether a reserve remains that this request may not use.
        reserve: bool,
    },
    /// The log has reached its limit, and nothing was written. The sequences that were to be
    /// appended are still open: append them again once the log has space, or give them up with
    /// `Log::void`.
    #[error(
        "the log is full: {live} of {limit} bytes hold records that no checkpoint covers{}, and {wanted} more were \
         wanted; checkpoint and release the log",
        if *reserve { " (the rest is kept for deletes and checkpoints)" } else { "" }
    )]
    LogFull {
        /// Bytes of the record.
        wanted: u64,
        /// Bytes of the segments that are not released.
        live: u64,
        /// The log's limit in bytes.
        limit: u64,
        /// Whether a reserve remains that this append may not use.
        reserve: bool,
    },
    /// An earlier write or sync failed, so the handle refuses changes (invariant S6).
    #[error("the store refuses changes since an earlier failure ({cause}): close it and open it again")]
    Poisoned {
        /// The earlier failure.
        cause: String,
    },
    /// An option does not fit the store.
    #[error("option {option}: {why}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong and what would be right.
        why: String,
    },
}

impl Error {
    /// A damaged place.
    pub fn corrupt(place: Place, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::Corrupt {
            place,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Returns what kind of error it is, whatever structure it comes from.
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

    /// Returns the further tier that fails, and at what, if that is what it says. Other tiers are
    /// not concerned.
    #[must_use]
    pub fn failing_tier(&self) -> Option<(u8, crate::tiers::Access)> {
        match self {
            Error::TierFails { tier, access, .. } => Some((*tier, *access)),
            _ => None,
        }
    }

    /// Returns whether a sentence, of a check for one, tells that a further tier cannot be read: it
    /// ends with such an error.
    #[must_use]
    pub fn tells_of_unreadable_tier(sentence: &str) -> bool {
        let marker = format!(" fails at {}: ", crate::tiers::Access::Reading);
        let before = sentence.split_once(&marker).map(|(before, _)| before);
        before.is_some_and(|before| before.contains("tier "))
    }

    /// Returns whether a resource ran short: space on the disk or in the store, open files, or
    /// memory. Nothing was changed, and the same request may succeed later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind() == ErrorKind::Full
    }
}
