//! What can go wrong for a user of the store, and what to do about it.

use alluvium_device::Error as Device;
use alluvium_storage::tiers::Access;
use alluvium_storage::{Error as Storage, Structure};
use std::time::Duration;
use thiserror::Error;

/// The result of an operation of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an [`enum@Error`], for programs that decide what to do next.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("store");
/// use alluvium::{Db, ErrorKind};
/// let db = Db::open(&path)?;
/// let again = Db::open(&path).unwrap_err();
/// assert_eq!(again.kind(), ErrorKind::Locked);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another process or handle has the store open.
    Locked,
    /// The directory holds no store, or files of something else.
    NotAStore,
    /// A store, keyspace, snapshot or file of that name exists already.
    AlreadyExists,
    /// The path, keyspace or snapshot does not exist.
    NotFound,
    /// A newer version of Alluvium wrote the store, or a keyspace of it.
    NewerVersion,
    /// An earlier version of Alluvium wrote the store, in a format that is no longer read.
    OlderVersion,
    /// What was read is not what was written.
    Corrupt,
    /// The disk, or the size that the store may have, is used up. Reads and deletes go on.
    Full,
    /// The process or the machine has run out of open files, memory or another resource.
    Exhausted,
    /// The store was opened for reading only, or its file system is mounted so.
    ReadOnly,
    /// The operating system denies access to the files.
    PermissionDenied,
    /// The device or the operating system failed.
    Io,
    /// An earlier failure keeps this handle from writing: close the store and open it again.
    Poisoned,
    /// Another handle has closed the store.
    Closed,
    /// The keyspace of this handle was dropped.
    Dropped,
    /// An argument or an option is out of its bounds, or does not fit the store.
    InvalidArgument,
    /// A stored value cannot be combined with the operands that were merged into it.
    BadValue,
    /// The log no longer holds the commits that were asked for, or a transaction its savepoint.
    Gone,
    /// A transaction depends on what another has changed: run it again.
    Conflict,
    /// A transaction was ended because transactions waited for each other: run it again.
    Deadlock,
    /// A lock was waited for too long, or a transaction has become too old.
    TimedOut,
    /// The transaction has ended.
    Ended,
    /// A limit of a transaction is reached.
    LimitReached,
}

/// A failure below the keyspaces: the device, damage, a full disk, an earlier failure.
///
/// Its text says what failed, where, and what to do.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct StorageError(Storage);

impl StorageError {
    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Storage::Device(device) => kind_of_device(device),
            Storage::Corrupt { .. } | Storage::NoDataFile { .. } | Storage::OlderGeneration { .. } => {
                ErrorKind::Corrupt
            }
            Storage::NotAStore { .. } => ErrorKind::NotAStore,
            Storage::StoreExists { .. } => ErrorKind::AlreadyExists,
            Storage::NewerFormat { .. } => ErrorKind::NewerVersion,
            Storage::OlderFormat { .. } => ErrorKind::OlderVersion,
            Storage::BadBase { .. } => ErrorKind::BadValue,
            Storage::Full { .. } | Storage::LogFull { .. } => ErrorKind::Full,
            Storage::Poisoned { .. } => ErrorKind::Poisoned,
            Storage::BadOption { .. } => ErrorKind::InvalidArgument,
            _ => ErrorKind::Io,
        }
    }

    /// Returns whether the damage is in the extent map, which a repair rebuilds without loss.
    #[must_use]
    pub fn is_extent_map_damaged(&self) -> bool {
        matches!(&self.0, Storage::Corrupt { place, .. } if place.structure == Structure::ExtentMap)
    }

    /// The error as the storage layer has it.
    pub(crate) fn inner(&self) -> &Storage {
        &self.0
    }
}

fn kind_of_device(error: &Device) -> ErrorKind {
    match error {
        Device::NotFound { .. } => ErrorKind::NotFound,
        Device::AlreadyExists { .. } => ErrorKind::AlreadyExists,
        Device::PermissionDenied { .. } => ErrorKind::PermissionDenied,
        Device::Locked { .. } => ErrorKind::Locked,
        Device::DiskFull { .. } => ErrorKind::Full,
        Device::Exhausted { .. } => ErrorKind::Exhausted,
        Device::PastEnd { .. } => ErrorKind::Corrupt,
        Device::ReadOnly { .. } | Device::ReadOnlyFileSystem { .. } => ErrorKind::ReadOnly,
        Device::Poisoned { .. } => ErrorKind::Poisoned,
        _ => ErrorKind::Io,
    }
}

/// An operation failed. Unless it says otherwise, nothing was changed.
///
/// Programs decide by [`Error::kind`]; the variants hold the details.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The device, damage, a full disk, or an earlier failure.
    #[error(transparent)]
    Storage(StorageError),
    /// The store was closed by another handle.
    #[error("the store is closed: open it again")]
    Closed,
    /// A background step failed earlier; this is its error. Reported once, on the next call that
    /// writes.
    #[error("work in the background failed: {cause}")]
    Background {
        /// What it said.
        cause: String,
    },
    /// A keyspace takes no writes, for its pages are damaged: a change has met that. Other
    /// keyspaces are not concerned. Once the store is opened again, what is not damaged can be
    /// read, with every write that was acknowledged.
    #[error(
        "the keyspace {keyspace:?} takes no writes, for its pages are damaged ({cause}): see `alluvium check`; restore a backup, run `alluvium repair`, or drop the keyspaces in pages"
    )]
    KeyspaceDamaged {
        /// The keyspace.
        keyspace: String,
        /// The damage.
        cause: String,
    },
    /// There is no keyspace of this name.
    #[error("there is no keyspace {name:?}: create it with `Db::keyspace`")]
    NoSuchKeyspace {
        /// The name.
        name: String,
    },
    /// There is a keyspace of this name already.
    #[error("there is a keyspace {name:?} already")]
    KeyspaceExists {
        /// The name.
        name: String,
    },
    /// The keyspace was dropped while a handle to it was alive.
    #[error("the keyspace {name:?} was dropped: this handle is of no use any more")]
    KeyspaceDropped {
        /// The name it had when the handle was made.
        name: String,
    },
    /// A keyspace names a merge operator or compaction filter that the program has not registered.
    #[error(
        "the keyspace {keyspace:?} uses the {what} {name:?}, which is not registered: register it in `Options`, or choose one that is ({known})"
    )]
    NotRegistered {
        /// The keyspace.
        keyspace: String,
        /// "merge operator" or "compaction filter".
        what: &'static str,
        /// Its name.
        name: String,
        /// The names of those that are registered.
        known: String,
    },
    /// A keyspace was asked for with other options than it has.
    #[error(
        "the keyspace {keyspace:?} was created with the {option} {has}, not {asked}, and the options of a keyspace cannot be changed: take it as it is with `Db::keyspace`, or copy what it holds into another one"
    )]
    OptionsDiffer {
        /// The keyspace.
        keyspace: String,
        /// The option that differs.
        option: &'static str,
        /// What it was created with.
        has: String,
        /// What it should be.
        asked: String,
    },
    /// A keyspace cannot be created with options that all keyspaces of its structure share, where
    /// the others of this store have other ones. There is no such keyspace.
    #[error(
        "the keyspace {keyspace:?} cannot be created with the {option} {asked}: all keyspaces of that structure in a store share it, and in this store it is {has}; create it with that, or in another store"
    )]
    SharedOptionsDiffer {
        /// The keyspace.
        keyspace: String,
        /// The option that differs.
        option: &'static str,
        /// What the other keyspaces have.
        has: String,
        /// What it should be.
        asked: String,
    },
    /// A keyspace is in a structure of a kind that this version does not know.
    #[error(
        "the keyspace {keyspace:?} is in a structure of kind {kind}, which this version of Alluvium does not know: open the store with the version that wrote it, or with a newer one"
    )]
    UnknownStructure {
        /// The keyspace.
        keyspace: String,
        /// The number of the kind.
        kind: u8,
    },
    /// An ordered call in a keyspace whose keys have no order.
    #[error(
        "the keys of the keyspace {keyspace:?} have no order, as it is hashed: ask for keys, walk over all of them (`Keyspace::unordered`, or `alluvium scan` without a range), or delete all of them"
    )]
    NotOrdered {
        /// The keyspace.
        keyspace: String,
    },
    /// A merge in a keyspace that has no merge operator.
    #[error("the keyspace {keyspace:?} has no merge operator: choose one when it is created")]
    NoOperator {
        /// The keyspace.
        keyspace: String,
    },
    /// The merge operator refuses the operand.
    #[error("the merge operator of keyspace {keyspace:?} refuses an operand: {why}")]
    BadOperand {
        /// The keyspace.
        keyspace: String,
        /// What it expects.
        why: String,
    },
    /// Operands were merged into a value that is none for the keyspace's merge operator. Both stay
    /// as they are: a snapshot from before the merges reads
    /// the value, and a put or a delete of the key ends it. Other keys are not affected; a walk
    /// that is asked again goes on behind this one.
    #[error(
        "operands lie upon a value of the key \"{}\" in keyspace {keyspace:?} that its merge operator {operator} refuses ({why}): put another value, or delete the key",
        key.escape_ascii()
    )]
    BadBase {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
        /// The operator.
        operator: String,
        /// What is wrong with the value.
        why: String,
    },
    /// A key, value, name or batch is too long.
    #[error("{what} of {bytes} bytes is too long: at most {most} are possible")]
    TooLong {
        /// What.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// Volatile keyspaces hold as much as they may.
    #[error(
        "volatile keyspaces hold {held} of the {most} bytes that they may, and {bytes} more do not fit: delete something, which makes space once it is merged in the background, or give them more when they are created (`Structure::Volatile`)"
    )]
    VolatileFull {
        /// What they hold.
        held: u64,
        /// What they may hold.
        most: u64,
        /// What was to be added.
        bytes: u64,
    },
    /// There is no named snapshot of this name.
    #[error("there is no snapshot {name:?}")]
    NoSuchSnapshot {
        /// The name.
        name: String,
    },
    /// There is a named snapshot of this name already.
    #[error("there is a snapshot {name:?} already: remove it first")]
    SnapshotExists {
        /// The name.
        name: String,
    },
    /// A handle of another store.
    #[error("this keyspace belongs to another store")]
    OtherStore,
    /// What is ingested does not come in the order of its keys, or has a key twice.
    #[error(
        "\"{}\" comes after \"{}\" in an ingest into keyspace {keyspace:?}: sort the keys, and leave out all but one of equal ones",
        key.escape_ascii(), after.escape_ascii()
    )]
    Unsorted {
        /// The keyspace.
        keyspace: String,
        /// The key that comes too late.
        key: Vec<u8>,
        /// The one before it.
        after: Vec<u8>,
    },
    /// The log no longer holds all commits that a follower asks for.
    #[error(
        "the log no longer has the commits after number {after}, but those after {oldest}: start again from a copy (`Db::checkpoint_to`), and keep more log (`Options::keep_log`)"
    )]
    ChangesGone {
        /// The number of the last commit that the follower has.
        after: u64,
        /// The least number that would do.
        oldest: u64,
    },
    /// The store was opened for reading only.
    #[error("the store was opened for reading only: open it with `Db::open` to write to it")]
    ReadOnly,
    /// An ingest that an earlier error has ended.
    #[error("the ingest has ended with an error, and left nothing behind: begin another one")]
    IngestEnded,
    /// What was copied is damaged, and so is what it was copied from.
    #[error(
        "{from} is damaged, so nothing was restored: take another backup, or see what `alluvium::repair` can save of a copy of it; {} found, the first: {}",
        findings.len(),
        findings.first().map_or("", String::as_str)
    )]
    BadBackup {
        /// Where it was copied from.
        from: String,
        /// What is wrong, a sentence each.
        findings: Vec<String>,
    },
    /// What was copied is damaged, and so is the store, unless the copy was written badly.
    #[error(
        "the copy is damaged, so nothing was backed up: see what `alluvium check` says of the store, keep the backups that there are, and repair the store or restore one of them; {} found, the first: {}",
        findings.len(),
        findings.first().map_or("", String::as_str)
    )]
    BadCopy {
        /// What is wrong, a sentence each.
        findings: Vec<String>,
    },
    /// A transaction depends on what another commit has changed since it began. Nothing of the
    /// transaction is written.
    #[error(
        "the transaction depends on the key \"{}\" in keyspace {keyspace:?}, or a range that begins there, to which another commit has written since it began: run it again, as `Db::transaction` does",
        key.escape_ascii()
    )]
    Conflict {
        /// The keyspace.
        keyspace: String,
        /// The key, or where the range begins.
        key: Vec<u8>,
    },
    /// A transaction was ended because transactions waited for each other in a circle. Nothing of
    /// it is written.
    #[error(
        "transaction {victim} was ended because transactions wait for each other: {}: run it again, as `Db::transaction` does, and lock keys in the same order everywhere",
        cycle.iter().map(|(number, key)| format!("{number} for \"{}\"", key.escape_ascii())).collect::<Vec<_>>().join(", ")
    )]
    Deadlock {
        /// The number of the transaction that was ended.
        victim: u64,
        /// The transactions of the circle, each with the key for which it waits. The lock that each
        /// waits for is held by the next one; the last one waits for the first.
        cycle: Vec<(u64, Vec<u8>)>,
    },
    /// A lock was waited for too long. Nothing was changed, and a transaction that waited goes on.
    #[error(
        "the key \"{}\" in keyspace {keyspace:?} was not to be had within {waited:?}: transaction {} has locked it: commit or end that, or wait longer (`TransactionOptions::lock_timeout`)",
        key.escape_ascii(),
        holders.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
    )]
    LockTimedOut {
        /// The keyspace.
        keyspace: String,
        /// The key, or where the range begins.
        key: Vec<u8>,
        /// How long it was waited for.
        waited: Duration,
        /// The numbers of the transactions that hold it.
        holders: Vec<u64>,
    },
    /// A transaction was ended by the store because it had become too old. Nothing of it is
    /// written.
    #[error(
        "the transaction was ended because it was open for longer than {most:?}: begin another one, or allow more (`TransactionOptions::timeout`)"
    )]
    TransactionTooOld {
        /// How old it may become.
        most: Duration,
    },
    /// The transaction has ended.
    #[error("the transaction has ended: {why}: begin another one")]
    TransactionEnded {
        /// How.
        why: &'static str,
    },
    /// The savepoint was released, or the transaction was rolled back to an earlier one, or it is
    /// one of another transaction.
    #[error(
        "the transaction no longer has this savepoint: it was released, an earlier one was rolled back to, or it belongs to another transaction"
    )]
    NoSuchSavepoint,
    /// A limit of a transaction is reached. The operation was not done; the transaction goes on.
    #[error("{what} of a transaction would exceed {most}: allow more with `{option}`, or do less in one")]
    TransactionLimit {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        most: usize,
        /// The option that allows more, with its type.
        option: &'static str,
    },
    /// A transaction was run as often as it may be, and failed each time. Nothing is written.
    #[error(
        "the transaction was run {tries} times and failed each time: try again later, or allow more (`TransactionOptions::max_tries`); the last time: {cause}"
    )]
    RetriesExhausted {
        /// How often it was run.
        tries: u32,
        /// Why it failed the last time.
        cause: Box<Error>,
    },
    /// An option is out of its bounds.
    #[error("option {option}: {why}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong and what would be right.
        why: String,
    },
}

impl From<Storage> for Error {
    fn from(error: Storage) -> Error {
        Error::Storage(StorageError(error))
    }
}

impl From<Device> for Error {
    fn from(error: Device) -> Error {
        Storage::from(error).into()
    }
}

impl Error {
    /// Returns the kind of the error, which programs match.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Storage(error) => error.kind(),
            Error::Closed => ErrorKind::Closed,
            Error::VolatileFull { .. } => ErrorKind::Full,
            Error::Background { .. } => ErrorKind::Poisoned,
            Error::NoSuchKeyspace { .. } | Error::NoSuchSnapshot { .. } => ErrorKind::NotFound,
            Error::KeyspaceExists { .. } | Error::SnapshotExists { .. } => ErrorKind::AlreadyExists,
            Error::KeyspaceDropped { .. } => ErrorKind::Dropped,
            Error::NotRegistered { .. }
            | Error::OptionsDiffer { .. }
            | Error::SharedOptionsDiffer { .. }
            | Error::NoOperator { .. }
            | Error::BadOperand { .. }
            | Error::TooLong { .. }
            | Error::OtherStore
            | Error::Unsorted { .. }
            | Error::NotOrdered { .. }
            | Error::IngestEnded
            | Error::BadOption { .. } => ErrorKind::InvalidArgument,
            Error::UnknownStructure { .. } => ErrorKind::NewerVersion,
            Error::BadBase { .. } => ErrorKind::BadValue,
            Error::ChangesGone { .. } | Error::NoSuchSavepoint => ErrorKind::Gone,
            Error::Conflict { .. } => ErrorKind::Conflict,
            Error::Deadlock { .. } => ErrorKind::Deadlock,
            Error::LockTimedOut { .. } | Error::TransactionTooOld { .. } => ErrorKind::TimedOut,
            Error::TransactionEnded { .. } => ErrorKind::Ended,
            Error::TransactionLimit { .. } => ErrorKind::LimitReached,
            Error::RetriesExhausted { cause, .. } => cause.kind(),
            Error::ReadOnly => ErrorKind::ReadOnly,
            Error::BadBackup { .. } | Error::BadCopy { .. } | Error::KeyspaceDamaged { .. } => {
                ErrorKind::Corrupt
            }
        }
    }

    /// Returns whether more space on the disk, or more of another resource that has run out, would
    /// have helped. Nothing was changed: reads and deletes go on, and writing resumes by itself
    /// once there is space.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Storage(error) if error.inner().is_full())
    }

    /// The further tier that fails, and at what, if that is what it says.
    pub(crate) fn failing_tier(&self) -> Option<(u8, Access)> {
        self.storage().and_then(Storage::failing_tier)
    }

    /// The error as the storage layer has it, if it is one of those.
    pub(crate) fn storage(&self) -> Option<&Storage> {
        match self {
            Error::Storage(error) => Some(error.inner()),
            _ => None,
        }
    }

    /// Returns whether something was read that is not what was written.
    pub(crate) fn is_damage(&self) -> bool {
        let found = self.storage();
        matches!(
            found,
            Some(Storage::Corrupt { .. } | Storage::OlderGeneration { .. })
        )
    }
}
