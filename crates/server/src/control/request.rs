//! The requests that can be sent to a store, and their replies.

use alluvium::{Compression, KeyspaceOptions};
use serde::{Deserialize, Serialize};
use std::io;

/// A management operation on a store. If a variant does not name a reply, the reply only reports
/// success or failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagementRequest {
    /// Lists all keyspaces with their options. Replies with [`ManagementReply::Json`].
    Keyspaces,
    /// Creates a keyspace. Fails if it already exists.
    CreateKeyspace(NewKeyspace),
    /// Creates a keyspace if it does not exist. Replies with [`ManagementReply::Truth`]: whether it
    /// was created.
    EnsureKeyspace(String),
    /// Drops a keyspace with all its data.
    DropKeyspace(String),
    RenameKeyspace {
        from: String,
        /// The new name. No keyspace may have this name yet.
        to: String,
    },
    /// Reads the values of keys. Replies with one or more [`ManagementReply::Values`].
    Get { keyspace: String, keys: Vec<Vec<u8>> },
    /// Writes a value only if the key has none. Replies with [`ManagementReply::Truth`]: whether
    /// the value was written.
    PutIfAbsent {
        keyspace: String,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// Applies all changes in one atomic commit.
    Write(Vec<KeyChange>),
    /// Deletes all keys of a range.
    DeleteRange {
        keyspace: String,
        /// The first key of the range. An empty key denotes the start of the keyspace.
        from: Vec<u8>,
        /// The key before which the range ends. If absent, the range extends to the end of the
        /// keyspace.
        to: Option<Vec<u8>>,
    },
    /// Reads keys in order from a snapshot. Replies with any number of [`ManagementReply::Pairs`].
    /// A hashed keyspace can only be read completely and forward, and the keys arrive in no
    /// particular order; other scans of it are rejected.
    Scan(ScanRequest),
    /// Starts to bulk-load sorted records into a keyspace. An unfinished bulk load of the same
    /// connection is abandoned.
    BeginIngest(String),
    /// Adds records to the bulk load. The keys must be in ascending order.
    Ingest(Vec<(Vec<u8>, Vec<u8>)>),
    /// Ends the bulk load and makes the loaded records visible.
    FinishIngest,
    /// Discards the records of the bulk load, if there is one.
    AbandonIngest,
    /// Returns statistics of the store. Replies with [`ManagementReply::Json`].
    Stats,
    /// Returns all statistics, the shape of the tree, and the counters of the server if one is
    /// running. Replies with [`ManagementReply::Json`].
    Figures,
    /// Describes the shape of the tree. Replies with [`ManagementReply::Json`].
    Outline,
    /// Draws the shape of the tree. Replies with [`ManagementReply::Text`].
    Drawing,
    /// Describes one sorted run. Replies with [`ManagementReply::Json`], which is null if the run
    /// does not exist.
    Run {
        /// The number of the group that contains the run.
        group: u64,
        /// The position of the run in its group.
        place: u64,
    },
    /// Checks the store for damage. Replies with [`ManagementReply::Progress`] any number of times,
    /// and then with [`ManagementReply::Json`].
    Check(CheckExtent),
    /// Copies the current state of the store to a directory that the serving process can access.
    /// Replies with [`ManagementReply::Progress`] any number of times, and then with
    /// [`ManagementReply::Number`]: the sequence number of the last commit in the copy.
    Backup {
        /// The absolute path of the target directory.
        to: Vec<u8>,
    },
    /// Compacts the store by rewriting all data. Replies with [`ManagementReply::Progress`] any
    /// number of times, and then with [`ManagementReply::Json`].
    Compact,
    /// Makes all acknowledged writes durable on the device.
    Sync,
    /// An operation on the keys of Redis clients.
    Redis(RedisRequest),
    /// Begins a transaction. Replies with [`ManagementReply::Number`]: the ID of the transaction.
    /// If the connection already has a transaction, the earlier transaction is rolled back. The
    /// transaction is also rolled back when the connection ends.
    BeginTransaction(NewTransaction),
    /// Executes an operation in the transaction of this connection.
    InTransaction(TransactionStep),
    /// Describes open transactions and named snapshots, and the versions that are retained for
    /// them. Replies with [`ManagementReply::Json`].
    Transactions,
    /// Reads all keys in an arbitrary order; the keyspace may be hashed. Replies with any number of
    /// [`ManagementReply::Pairs`].
    Unordered(UnorderedScanRequest),
    /// Lists the tiers with their capacity and used space. Replies with [`ManagementReply::Json`].
    Tiers,
    ChangeTiers {
        /// The absolute path of the tier's directory.
        path: Vec<u8>,
        change: TierChange,
    },
    /// Changes the share of the caches' memory that is used for records, to the given share or to
    /// the one that the store advises. The store then measures whether the change is beneficial.
    /// Replies with [`ManagementReply::Json`]: the change, or null if the advice is to change
    /// nothing.
    ApplyAdvice {
        /// The share in thousandths, or `None` for the share that the store advises.
        record_permille: Option<u32>,
    },
    /// Returns the most recent changes that were made by advice, and their outcomes. Replies with
    /// [`ManagementReply::Json`].
    Trials,
    /// Locks a name until this connection ends. Waits for up to ten seconds if another connection
    /// has locked the name. Replies with [`ManagementReply::Truth`]: whether the name is now
    /// locked.
    Claim(Vec<u8>),
    /// Does the same as [`ManagementRequest::Backup`] for a store with several tiers, each of which
    /// is copied to a directory of its own.
    BackupTiers {
        /// The absolute path of the directory for the first tier.
        to: Vec<u8>,
        /// The absolute paths of the directories for the other tiers, in the order of the tiers.
        further: Vec<Vec<u8>>,
    },
}

/// A change of the settings of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TierChange {
    Add {
        /// Capacity limit in bytes, or `None` for no limit.
        max_bytes: Option<u64>,
    },
    /// Moves the tier's data to the other tiers and stops writing to it.
    Drain,
    /// Makes the tier accept new data again.
    Use,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTransaction {
    pub isolation: IsolationLevel,
    pub mechanism: TransactionConcurrency,
    /// The durability of the commit. If absent, the default durability of the store applies.
    pub durability: Option<CommitDurability>,
}

/// The isolation level of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IsolationLevel {
    /// The result is the same as if the transactions had been executed one after the other.
    Serializable,
    /// The transaction reads from a snapshot that is taken when it begins.
    Snapshot,
}

/// The concurrency control of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionConcurrency {
    /// Conflicts with other transactions are detected when the transaction commits.
    Optimistic,
    /// The transaction locks the keys that it reads and writes.
    Locking,
}

/// The guarantee that a commit must have reached before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommitDurability {
    /// The commit is visible to other readers.
    AtOnce,
    /// The commit survives a crash of the process.
    AfterProcess,
    /// The commit survives a power failure.
    AfterDisk,
}

/// An operation in a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionStep {
    /// Reads the value of a key. Replies with [`ManagementReply::Values`].
    Get {
        keyspace: String,
        key: Vec<u8>,
        /// The purpose for which the transaction reads the key.
        purpose: ReadPurpose,
    },
    Put {
        keyspace: String,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// Deletes a key. It is not an error if the key does not exist.
    Delete { keyspace: String, key: Vec<u8> },
    /// Deletes all keys of a range.
    DeleteRange {
        keyspace: String,
        /// The first key of the range. An empty key denotes the start of the keyspace.
        from: Vec<u8>,
        /// The key before which the range ends. If absent, the range extends to the end of the
        /// keyspace.
        to: Option<Vec<u8>>,
    },
    /// Reads keys in order. Replies with any number of [`ManagementReply::Pairs`].
    Scan(ScanRequest),
    /// Creates a savepoint. As long as it exists, it hides an earlier savepoint of the same name.
    Savepoint(String),
    /// Undoes all writes that follow a savepoint. The savepoint remains.
    RollbackTo(String),
    /// Commits the transaction. The transaction ends even if the commit fails.
    Commit,
    /// Rolls back the transaction and ends it.
    Rollback,
}

impl TransactionStep {
    /// Returns the keyspace that the operation accesses, or `None` if it accesses none.
    pub(super) fn keyspace(&self) -> Option<&str> {
        match self {
            TransactionStep::Get { keyspace, .. }
            | TransactionStep::Put { keyspace, .. }
            | TransactionStep::Delete { keyspace, .. }
            | TransactionStep::DeleteRange { keyspace, .. }
            | TransactionStep::Scan(ScanRequest { keyspace, .. }) => Some(keyspace),
            TransactionStep::Savepoint(_)
            | TransactionStep::RollbackTo(_)
            | TransactionStep::Commit
            | TransactionStep::Rollback => None,
        }
    }

    /// Returns whether the operation is read-only.
    pub(super) fn reads(&self) -> bool {
        matches!(self, TransactionStep::Get { .. } | TransactionStep::Scan(_))
    }
}

/// The purpose for which a transaction reads a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadPurpose {
    Value,
    /// The transaction intends to update the key. At any isolation level, no other transaction may
    /// change the key before the commit.
    Update,
}

/// An operation on the keys of Redis clients in a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedisRequest {
    /// Reads keys with their content. For each key, replies with one [`ManagementReply::Key`] and
    /// then with its [`ManagementReply::Elements`].
    Get { database: u8, keys: Vec<Vec<u8>> },
    /// Reads a range of keys in byte order from a snapshot. The replies are those of `Get`. The
    /// field `keyspace` of the scan is ignored.
    Scan {
        database: u8,
        /// The range of keys, and which of their parts to read.
        scan: ScanRequest,
    },
    /// Executes Redis commands, and changes of other keyspaces, in one atomic commit. Replies with
    /// [`ManagementReply::Values`]: the replies of the commands in RESP2. If a command is rejected,
    /// none of the changes is made, and the last value is the error reply of that command.
    Execute {
        database: u8,
        /// The commands. Each element contains the words of one command.
        commands: Vec<Vec<Vec<u8>>>,
        /// Changes of other keyspaces that belong to the same commit.
        also: Vec<KeyChange>,
    },
    /// Does the same as [`RedisRequest::Scan`] for the keys that follow a given one. The order is
    /// the byte order of the keys or, for hashed keys, the order of a scan over all keys.
    ScanBehind {
        database: u8,
        key: Vec<u8>,
        /// Maximum number of keys to return.
        limit: Option<u64>,
        what: ScanContent,
    },
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyChange {
    pub keyspace: String,
    pub key: Vec<u8>,
    /// The new value, or `None` to delete the key.
    pub value: Option<Vec<u8>>,
    /// Time to live of the value in milliseconds, or `None` if the value does not expire.
    pub expires_in_ms: Option<u64>,
}

/// The options of a keyspace that is to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewKeyspace {
    pub name: String,
    /// The compression of pages: `none`, `lz4` or `zstd`.
    pub compression: String,
    /// Length in bytes above which a value is stored separately from its key.
    pub value_threshold: Option<u32>,
    pub merge_operator: Option<String>,
    /// The name of the index structure, for example `levels,k=4`. If absent, the tiered tree is
    /// used.
    #[serde(default)]
    pub structure: Option<String>,
}

/// Returns the name of a compression algorithm.
pub(super) fn compression(of: Compression) -> &'static str {
    match of {
        Compression::None => "none",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    }
}

impl NewKeyspace {
    /// Returns the options for the store, or `None` if the name of the compression algorithm is
    /// unknown.
    pub(super) fn options(&self) -> Option<KeyspaceOptions> {
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd]
            .into_iter()
            .find(|&known| compression(known) == self.compression)?;
        let mut options = KeyspaceOptions::new().compression(compression);
        options.value_threshold = self.value_threshold;
        options.merge_operator.clone_from(&self.merge_operator);
        Some(options)
    }
}

/// A scan over a range of keys in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanRequest {
    pub keyspace: String,
    /// The first key of the range. An empty key denotes the start of the keyspace.
    pub from: Vec<u8>,
    /// The key before which the range ends. If absent, the range extends to the end of the
    /// keyspace.
    pub to: Option<Vec<u8>>,
    pub direction: ScanOrder,
    /// Maximum number of keys to return.
    pub limit: Option<u64>,
    pub what: ScanContent,
}

/// A scan over all keys in an arbitrary order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnorderedScanRequest {
    pub keyspace: String,
    /// The last key that an earlier scan returned. This scan continues after it.
    pub after: Option<Vec<u8>>,
    /// Maximum number of keys to return.
    pub limit: Option<u64>,
    pub what: ScanContent,
}

/// The direction of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanOrder {
    Forward,
    Backward,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanContent {
    /// Return keys only; the values are empty.
    Keys,
    Pairs,
}

/// How much of the store a check covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckExtent {
    /// Check only the allocation of space.
    Structure,
    /// Check the allocation of space, and the checksums of all data.
    Everything,
}

/// A part of the reply to a request. The documentation of each request names the kinds and the
/// number of its replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagementReply {
    /// The progress of a long operation.
    Progress {
        stage: JobStage,
        done_bytes: u64,
        total_bytes: u64,
    },
    /// The values of the requested keys, in the order of the request.
    Values(Vec<Option<Vec<u8>>>),
    Pairs(Vec<(Vec<u8>, Vec<u8>)>),
    Number(u64),
    Truth(bool),
    Text(String),
    Json(String),
    /// A key of Redis clients. [`ManagementReply::Elements`] with its content follow.
    Key(RedisKey),
    /// The content of a key as pairs: the value of a string, the elements of a list, the members of
    /// a set, the fields and values of a hash, or the members and scores of a sorted set.
    Elements(Vec<(Vec<u8>, Vec<u8>)>),
}

/// A stage of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobStage {
    /// The data is being copied to another directory.
    Copying,
    /// The data is being read, and its checksums are being verified.
    Checking,
    Compacting,
}

/// A key of Redis clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedisKey {
    pub key: Vec<u8>,
    /// The data type of the key, or `None` if the key does not exist.
    pub kind: Option<RedisKind>,
    /// Expiry time in milliseconds since 1970, or `None` if the key does not expire.
    pub expires_ms: Option<u64>,
    pub elements: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedisKind {
    String,
    List,
    Set,
    SortedSet,
    Hash,
}

impl RedisKind {
    /// Returns the name that the Redis command `TYPE` reports for this data type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RedisKind::String => "string",
            RedisKind::List => "list",
            RedisKind::Set => "set",
            RedisKind::SortedSet => "zset",
            RedisKind::Hash => "hash",
        }
    }
}

/// The kind of a failure. It determines the exit code of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// A failure that none of the other kinds describes.
    Failed,
    /// The requested object does not exist.
    NotFound,
    /// The keyspace does not exist. The text of the error is its name.
    NoKeyspace,
    /// The request is invalid, or is not allowed for this keyspace.
    Usage,
    /// The store, or a copy of it, is damaged.
    Damaged,
    /// The devices of the store have no space left.
    Full,
    /// The transaction conflicts with another one.
    Conflict,
}

/// The result of a management operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A callback that receives each part of a reply. If it returns an error, the operation is stopped
/// if possible.
pub(super) type ReplySink<'h> = dyn FnMut(ManagementReply) -> Result<()> + 'h;

/// The error of a management operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the store in this process.
    #[error(transparent)]
    Store(#[from] alluvium::Error),
    /// An error that the process with the open store has reported, or a rejected request.
    #[error("{text}")]
    Told {
        kind: FailureKind,
        /// The error message, which includes the remedy.
        text: String,
    },
    /// The caller no longer receives the parts of the reply.
    #[error("the receiver stopped before the end of the reply")]
    Unheard,
    #[error("the connection to the process that has the store open failed: {0}")]
    Connection(io::Error),
}

impl Error {
    pub(super) fn told(kind: FailureKind, text: impl Into<String>) -> Error {
        let text = text.into();
        Error::Told { kind, text }
    }
}
