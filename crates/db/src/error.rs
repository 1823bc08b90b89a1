//! Errors that the store returns, with advice on what to do about them.

use alluvium_device::Error as Device;
use alluvium_storage::tiers::FailedAccess;
use alluvium_storage::{Error as Storage, OnDiskObject};
use std::time::Duration;
use thiserror::Error;

/// Result of an operation on the store.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an [`enum@Error`], on which programs match to decide how to react.
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
    /// The store is open in another process or through another handle.
    Locked,
    /// The directory contains no store, or it contains other files.
    NotAStore,
    /// A store, keyspace, snapshot or file with this name already exists.
    AlreadyExists,
    /// The path, keyspace or snapshot does not exist.
    NotFound,
    /// A newer version of Alluvium wrote the store or one of its keyspaces.
    NewerVersion,
    /// An earlier version of Alluvium wrote the store, in a format that is no longer supported.
    OlderVersion,
    /// Stored data is damaged: it does not match its checksum or its structure is invalid.
    Corrupt,
    /// The disk is full, or the size limit of the store is reached. Reads and deletes still work.
    Full,
    /// The process or the machine is out of file descriptors, memory or another resource.
    Exhausted,
    /// The store was opened for reading only, or its file system is mounted read-only.
    ReadOnly,
    /// The operating system denies access to the files.
    PermissionDenied,
    /// The device or the operating system reported an error.
    Io,
    /// This handle rejects writes after an earlier failure: close the store and open it again.
    Poisoned,
    /// Another handle has closed the store.
    Closed,
    /// The keyspace of this handle was dropped.
    Dropped,
    /// An argument or an option is out of bounds or incompatible with the store.
    InvalidArgument,
    /// A stored value cannot be combined with the operands that were merged into it.
    BadValue,
    /// The log no longer contains the requested commits, or the transaction no longer has the
    /// requested savepoint.
    Gone,
    /// Another commit changed data that the transaction depends on: run it again.
    Conflict,
    /// The transaction was aborted to resolve a deadlock: run it again.
    Deadlock,
    /// Waiting for a lock took too long, or the transaction exceeded its age limit.
    TimedOut,
    /// The transaction was committed, rolled back or aborted earlier.
    Ended,
    /// A limit on the size of a transaction is reached.
    LimitReached,
}

/// An error of the storage layer: an I/O error, damage, a full disk, or a consequence of an earlier
/// failure.
///
/// The message names the failed operation, the file or object concerned, and the remedy.
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

    /// Returns whether only the extent map is damaged, which a repair rebuilds without losing data.
    #[must_use]
    pub fn is_extent_map_damaged(&self) -> bool {
        matches!(&self.0, Storage::Corrupt { place, .. } if place.object == OnDiskObject::ExtentMap)
    }

    /// Returns the underlying error of the storage layer.
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

/// The error of an operation. Unless documented otherwise, a failed operation has changed nothing.
///
/// Programs match on [`Error::kind`]; the variants contain the details.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage layer failed: an I/O error, damage, a full disk, or a consequence of an earlier
    /// failure.
    #[error(transparent)]
    Storage(StorageError),
    /// The store was closed by another handle.
    #[error("the store is closed: open it again")]
    Closed,
    /// A background step failed earlier. The error is reported once, by the next call that writes.
    #[error("background work failed: {cause}")]
    Background {
        /// Message of the error that the background step returned.
        cause: String,
    },
    /// The keyspace rejects writes because damage was found while its pages were being changed.
    /// Other keyspaces still accept writes. After the store is reopened, the undamaged part of this
    /// keyspace is readable, with every acknowledged write to it.
    #[error(
        "the keyspace {keyspace:?} rejects writes because its pages are damaged ({cause}): list the damage with `alluvium check`; then restore a backup, run `alluvium repair`, or drop the paged keyspaces"
    )]
    KeyspaceDamaged {
        /// Name of the keyspace that the rejected operation would have written to or created.
        keyspace: String,
        /// Message of the error that reported the damage, or a statement that the damage was found
        /// before the store was opened.
        cause: String,
    },
    /// No keyspace has this name.
    #[error("there is no keyspace {name:?}: create it with `Db::keyspace`")]
    NoSuchKeyspace {
        /// Name that the caller asked for.
        name: String,
    },
    /// A keyspace with this name already exists.
    #[error("the keyspace {name:?} already exists: choose another name")]
    KeyspaceExists {
        /// Name of the existing keyspace.
        name: String,
    },
    /// The keyspace was dropped while a handle to it was alive.
    #[error("the keyspace {name:?} was dropped: this handle can no longer be used")]
    KeyspaceDropped {
        /// Name of the keyspace when the handle was created.
        name: String,
    },
    /// The keyspace uses a merge operator or compaction filter that the program has not registered.
    #[error(
        "the keyspace {keyspace:?} uses the {what} {name:?}, which is not registered: register it in `Options`, or choose a registered one ({known})"
    )]
    NotRegistered {
        /// Name of the keyspace whose options require the operator or filter.
        keyspace: String,
        /// "merge operator" or "compaction filter".
        what: &'static str,
        /// Name of the operator or filter.
        name: String,
        /// Names of the registered operators or filters.
        known: String,
    },
    /// The keyspace already exists, and its options differ from the requested options.
    #[error(
        "the keyspace {keyspace:?} was created with the {option} {has}, not {asked}, and the options of a keyspace cannot be changed: open it as it is with `Db::keyspace`, or copy its data into another keyspace"
    )]
    OptionsDiffer {
        /// Name of the existing keyspace, which stays unchanged.
        keyspace: String,
        /// The first option that differs, by its name in words, such as "value threshold".
        option: &'static str,
        /// Value of the option in the existing keyspace.
        has: String,
        /// Value that the caller requested, as text.
        asked: String,
    },
    /// The keyspace was not created, because all paged keyspaces share certain options, as do all
    /// volatile ones, and a requested value differs from the shared one.
    #[error(
        "the keyspace {keyspace:?} cannot be created with the {option} {asked}: all keyspaces of this structure in a store share this setting, and this store uses {has}; create the keyspace with the same setting, or in another store"
    )]
    SharedOptionsDiffer {
        /// Name of the keyspace that was to be created.
        keyspace: String,
        /// The first option that differs, by its name in words, such as "options of pages".
        option: &'static str,
        /// Value that the existing keyspaces share.
        has: String,
        /// Value that the caller requested, as text.
        asked: String,
    },
    /// The keyspace uses a kind of structure that this version does not support.
    #[error(
        "the keyspace {keyspace:?} uses structure kind {kind}, which this version of Alluvium does not support: open the store with the version that wrote it, or with a newer one"
    )]
    UnknownStructure {
        /// Name of the keyspace, as stored in the catalog.
        keyspace: String,
        /// Number that identifies the structure kind in the file format.
        kind: u8,
    },
    /// An operation that depends on the order of keys was called on a keyspace whose keys have no
    /// order.
    #[error(
        "the keyspace {keyspace:?} is hashed, so its keys have no order: look up single keys, iterate over all keys (`Keyspace::unordered`, or `alluvium scan` without a range), or delete all keys"
    )]
    NotOrdered {
        /// Name of the hashed keyspace.
        keyspace: String,
    },
    /// A merge was requested on a keyspace that has no merge operator.
    #[error(
        "the keyspace {keyspace:?} has no merge operator: merge into a keyspace that was created with one"
    )]
    NoOperator {
        /// Name of the keyspace, whose options specify no `merge_operator`.
        keyspace: String,
    },
    /// The merge operator rejected the operand.
    #[error("the merge operator of keyspace {keyspace:?} rejects the operand: {why}")]
    BadOperand {
        /// Name of the keyspace with the key to merge into.
        keyspace: String,
        /// Explanation of which operands the operator accepts.
        why: String,
    },
    /// The stored value is not a valid base for the operands that were merged into it. The store
    /// keeps both: a snapshot taken before the merges still reads the value, and a put or delete of
    /// the key resolves the error. Other keys are not affected, and an iterator that returned this
    /// error continues with the next key.
    #[error(
        "the value of the key \"{}\" in keyspace {keyspace:?} cannot be merged, because the merge operator {operator} rejects it ({why}): put another value, or delete the key",
        key.escape_ascii()
    )]
    BadBase {
        /// Name of the keyspace, or an empty string if the catalog no longer contains it.
        keyspace: String,
        /// Key of the invalid value, as the program wrote it.
        key: Vec<u8>,
        /// Registered name of the merge operator.
        operator: String,
        /// Explanation of why the operator cannot merge the operands into the value.
        why: String,
    },
    /// A key, value, name or batch exceeds its maximum length.
    #[error("{what} of {bytes} bytes is too long: at most {most} bytes are allowed")]
    TooLong {
        /// What is too long: a key, a value, a name or a batch.
        what: &'static str,
        /// Length of the rejected object, in bytes.
        bytes: usize,
        /// Maximum length of such an object, in bytes.
        most: usize,
    },
    /// The volatile keyspaces have reached their memory limit.
    #[error(
        "volatile keyspaces hold {held} of at most {most} bytes, and {bytes} more do not fit: delete data, which frees memory after the next merge in the background, or create them with a higher limit (`Structure::Volatile`)"
    )]
    VolatileFull {
        /// Bytes of memory used by all volatile keyspaces combined.
        held: u64,
        /// Limit for all volatile keyspaces combined, in bytes.
        most: u64,
        /// Bytes that the rejected write would have added.
        bytes: u64,
    },
    /// No named snapshot has this name.
    #[error("there is no snapshot {name:?}")]
    NoSuchSnapshot {
        /// Name that the caller asked for.
        name: String,
    },
    /// A named snapshot with this name already exists.
    #[error("the snapshot {name:?} already exists: remove it first")]
    SnapshotExists {
        /// Name of the existing snapshot.
        name: String,
    },
    /// The handle belongs to another store.
    #[error("this keyspace belongs to another store: use a keyspace of this store")]
    OtherStore,
    /// The keys passed to an ingest are out of order, or a key occurs twice.
    #[error(
        "the key \"{}\" follows \"{}\" in an ingest into keyspace {keyspace:?}: sort the keys, and remove duplicates",
        key.escape_ascii(), after.escape_ascii()
    )]
    Unsorted {
        /// Name of the keyspace into which the records are ingested.
        keyspace: String,
        /// The key that is out of order.
        key: Vec<u8>,
        /// The key passed immediately before `key`. It is greater than or equal to `key`.
        after: Vec<u8>,
    },
    /// The log no longer contains all commits that a follower requested.
    #[error(
        "the log no longer holds all commits after number {after}, only those after {oldest}: start again from a copy (`Db::checkpoint_to`), and keep more of the log (`Options::keep_log`)"
    )]
    ChangesGone {
        /// Sequence number of the last commit that the follower has processed.
        after: u64,
        /// Lowest sequence number after which the log is complete, so that a follower can continue
        /// from it.
        oldest: u64,
    },
    /// The store was opened read-only.
    #[error("the store was opened for reading only: open it with `Db::open` to write to it")]
    ReadOnly,
    /// The ingest has already failed with an earlier error and accepts no more records.
    #[error("the ingest failed earlier and wrote nothing: begin another one")]
    IngestEnded,
    /// The restored data is damaged, and so is the backup that it was copied from.
    #[error(
        "{from} is damaged, so nothing was restored: use another backup, or try `alluvium::repair` on a copy of it; defects found: {}, the first: {}",
        findings.len(),
        findings.first().map_or("", String::as_str)
    )]
    BadBackup {
        /// Directory of the backup's first tier.
        from: String,
        /// The defects found, one sentence each.
        findings: Vec<String>,
    },
    /// The data copied to a backup is damaged. So is the store itself, unless the copy was written
    /// incorrectly.
    #[error(
        "the copy is damaged, so no backup was made: run `alluvium check` on the store, keep the existing backups, and repair the store or restore one of them; defects found: {}, the first: {}",
        findings.len(),
        findings.first().map_or("", String::as_str)
    )]
    BadCopy {
        /// The defects found, one sentence each.
        findings: Vec<String>,
    },
    /// Another commit changed data that the transaction depends on after the transaction began. No
    /// write of the transaction takes effect.
    #[error(
        "another commit has written to the key \"{}\" in keyspace {keyspace:?}, or to a range that begins there, on which the transaction depends: run the transaction again, as `Db::transaction` does",
        key.escape_ascii()
    )]
    Conflict {
        /// Name of the keyspace that contains the key.
        keyspace: String,
        /// The key, or the lower bound of the range.
        key: Vec<u8>,
    },
    /// The transaction was aborted to resolve a deadlock. No write of the transaction takes effect.
    #[error(
        "transaction {victim} was aborted to resolve a deadlock (transactions waiting for keys: {}): run it again, as `Db::transaction` does, and lock keys in the same order everywhere",
        cycle.iter().map(|(number, key)| format!("{number} for \"{}\"", key.escape_ascii())).collect::<Vec<_>>().join(", ")
    )]
    Deadlock {
        /// Number of the transaction that was aborted.
        victim: u64,
        /// The transactions in the cycle, each with the key that it is waiting to lock. Each waits
        /// for a lock held by the next in the list, and the last waits for one held by the first.
        cycle: Vec<(u64, Vec<u8>)>,
    },
    /// The transaction waited for a lock longer than the timeout. Nothing was changed, and the
    /// transaction stays open.
    #[error(
        "the key \"{}\" in keyspace {keyspace:?} could not be locked within {waited:?}, because it is locked by transaction {}: commit or roll back that transaction, or wait longer (`TransactionOptions::lock_timeout`)",
        key.escape_ascii(),
        holders.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
    )]
    LockTimedOut {
        /// Name of the keyspace that contains the key.
        keyspace: String,
        /// The key, or the lower bound of the range.
        key: Vec<u8>,
        /// The timeout that was exceeded.
        waited: Duration,
        /// Numbers of the transactions that hold the lock.
        holders: Vec<u64>,
    },
    /// The store aborted the transaction because it was open longer than its age limit. No write of
    /// the transaction takes effect.
    #[error(
        "the transaction was rolled back because it was open for longer than {most:?}: begin another one, or allow more time (`TransactionOptions::timeout`)"
    )]
    TransactionTooOld {
        /// The `TransactionOptions::timeout` that was exceeded.
        most: Duration,
    },
    /// The transaction has already ended.
    #[error("the transaction has ended because {why}: begin another one")]
    TransactionEnded {
        /// Why the transaction ended, as a clause such as "it was committed".
        why: &'static str,
    },
    /// The savepoint does not exist. Either it was released, the transaction was rolled back to an
    /// earlier savepoint, or the savepoint belongs to another transaction.
    #[error(
        "the transaction does not have this savepoint: it was released, the transaction was rolled back to an earlier one, or it belongs to another transaction"
    )]
    NoSuchSavepoint,
    /// The operation would exceed a resource limit of the transaction. It had no effect, and the
    /// transaction stays open.
    #[error("{what} of the transaction would exceed {most}: raise `{option}`, or do less in one transaction")]
    TransactionLimit {
        /// Name of the limited resource, in words.
        what: &'static str,
        /// Maximum of the resource, in bytes for writes and memory, otherwise a count.
        most: usize,
        /// Name of the option that raises the limit, including the type that has it.
        option: &'static str,
    },
    /// The transaction failed in each of its permitted attempts. None of its writes takes effect.
    #[error(
        "the transaction was run {tries} times and failed each time: try again later, or allow more attempts (`TransactionOptions::max_tries`); the last error: {cause}"
    )]
    RetriesExhausted {
        /// Number of attempts, which `TransactionOptions::max_tries` limits.
        tries: u32,
        /// Error of the last attempt.
        cause: Box<Error>,
    },
    /// An option is out of bounds.
    #[error("option {option}: {why}")]
    BadOption {
        /// Name of the option in words, such as "value threshold".
        option: &'static str,
        /// Explanation of what is wrong with the value and which values are valid.
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
    /// Returns the kind of the error, on which programs match to decide how to react.
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

    /// Returns whether the operation failed because disk space or another resource is exhausted.
    /// Nothing was changed. Reads and deletes still work, and writes resume without intervention
    /// once space is available.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Storage(error) if error.inner().is_full())
    }

    /// Returns whether the same work may succeed if it is done again from the beginning, without
    /// any other change: another commit or transaction was in the way. A transaction must be begun
    /// again, as [`Db::transaction`](crate::Db::transaction) does.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let stock = db.keyspace("stock")?;
    /// let order = db.begin();
    /// order.get(&stock, "lamps")?;
    /// order.put(&stock, "lamps", "8")?;
    /// stock.put("lamps", "9")?;
    /// assert!(order.commit().unwrap_err().is_retryable());
    /// assert!(!db.keyspace("").unwrap_err().is_retryable());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Conflict { .. }
                | Error::Deadlock { .. }
                | Error::LockTimedOut { .. }
                | Error::RetriesExhausted { .. }
        )
    }

    /// Returns the tier and the access that failed, if the error reports the failure of a tier
    /// after the first. Otherwise returns `None`.
    pub(crate) fn failing_tier(&self) -> Option<(u8, FailedAccess)> {
        self.storage().and_then(Storage::failing_tier)
    }

    /// Returns the underlying error of the storage layer, or `None` for other errors.
    pub(crate) fn storage(&self) -> Option<&Storage> {
        match self {
            Error::Storage(error) => Some(error.inner()),
            _ => None,
        }
    }

    /// Returns whether the error reports damaged data.
    pub(crate) fn is_damage(&self) -> bool {
        let found = self.storage();
        matches!(
            found,
            Some(Storage::Corrupt { .. } | Storage::OlderGeneration { .. })
        )
    }
}
