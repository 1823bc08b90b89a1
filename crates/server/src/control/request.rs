//! The management requests to a store, and their replies.

use alluvium::{Compression, KeyspaceOptions};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// A management operation on a store. Unless a variant names its reply, the reply only reports
/// success or failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagementRequest {
    /// Lists all keyspaces with their options. Replies with [`ManagementReply::Json`].
    Keyspaces,
    /// Creates a keyspace. Fails if it already exists.
    CreateKeyspace(NewKeyspace),
    /// Creates a keyspace if it does not exist. Replies with [`ManagementReply::Truth`], which
    /// tells whether it was created.
    EnsureKeyspace(String),
    /// Drops a keyspace with all its data.
    DropKeyspace(String),
    RenameKeyspace {
        from: String,
        /// The new name, which no keyspace may have yet.
        to: String,
    },
    /// Reads the values of keys. Replies with one or more [`ManagementReply::Values`].
    Get { keyspace: String, keys: Vec<Vec<u8>> },
    /// Writes a value only if the key has none. Replies with [`ManagementReply::Truth`], which
    /// tells whether the value was written.
    PutIfAbsent {
        keyspace: String,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// Applies all changes in one atomic commit.
    Write(Vec<KeyChange>),
    /// Deletes all keys in a range.
    DeleteRange {
        keyspace: String,
        /// The first key in the range. An empty key denotes the start of the keyspace.
        from: Vec<u8>,
        /// The exclusive end of the range. If absent, the range extends to the end of the keyspace.
        to: Option<Vec<u8>>,
    },
    /// Reads keys in order from a snapshot. Replies with any number of [`ManagementReply::Pairs`].
    /// A hashed keyspace can only be read completely and forward, and its keys arrive in no
    /// particular order; other scans of it are rejected.
    Scan(ScanRequest),
    /// Starts a bulk load of sorted records into a keyspace. Abandons an unfinished bulk load on
    /// the same connection.
    BeginIngest(String),
    /// Adds records to the bulk load, with keys in ascending order.
    Ingest(Vec<(Vec<u8>, Vec<u8>)>),
    /// Ends the bulk load and makes the loaded records visible.
    FinishIngest,
    /// Discards the records of the bulk load, if any.
    AbandonIngest,
    /// Returns store statistics. Replies with [`ManagementReply::Json`].
    Stats,
    /// Returns all statistics, the shape of the tree and, if a server is running, its counters.
    /// Replies with [`ManagementReply::Json`].
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
        /// The run's position in its group.
        place: u64,
    },
    /// Checks the store for damage. Replies with any number of [`ManagementReply::Progress`],
    /// followed by [`ManagementReply::Json`].
    Check(CheckExtent),
    /// Copies the current state of the store to a directory that the serving process can access.
    /// Replies with any number of [`ManagementReply::Progress`], followed by
    /// [`ManagementReply::Number`]: the sequence number of the last commit in the copy.
    Backup {
        /// The absolute path of the target directory.
        to: Vec<u8>,
    },
    /// Compacts the store by rewriting all data. Replies with any number of
    /// [`ManagementReply::Progress`], followed by [`ManagementReply::Json`].
    Compact,
    /// Makes all acknowledged writes durable on the device.
    Sync,
    /// An operation on the keys of Redis clients.
    Redis(RedisRequest),
    /// Begins a transaction. Replies with [`ManagementReply::Number`]: the transaction's ID. If the
    /// connection already has a transaction, that transaction is rolled back. The end of the
    /// connection also rolls the transaction back.
    BeginTransaction(NewTransaction),
    /// Executes an operation in this connection's transaction.
    InTransaction(TransactionStep),
    /// Describes open transactions and named snapshots, and the versions retained for them. Replies
    /// with [`ManagementReply::Json`].
    Transactions,
    /// Reads all keys in arbitrary order, also in a hashed keyspace. Replies with any number of
    /// [`ManagementReply::Pairs`].
    Unordered(UnorderedScanRequest),
    /// Lists the tiers with their capacity and used space. Replies with [`ManagementReply::Json`].
    Tiers,
    ChangeTiers {
        /// The absolute path of the tier's directory.
        path: Vec<u8>,
        change: TierChange,
    },
    /// Changes the share of cache memory that is used for records, either to the given share or to
    /// the one that the store advises. The store then measures whether the change helps. Replies
    /// with [`ManagementReply::Json`]: the change, or null if the advice is to change nothing.
    ApplyAdvice {
        /// The share in thousandths, or `None` for the advised share.
        record_permille: Option<u32>,
    },
    /// Returns the most recent changes made on advice, and their outcomes. Replies with
    /// [`ManagementReply::Json`].
    Trials,
    /// Locks a name until this connection ends. Waits for up to ten seconds while another
    /// connection holds the lock. Replies with [`ManagementReply::Truth`], which tells whether the
    /// name is now locked.
    Claim(Vec<u8>),
    /// Like [`ManagementRequest::Backup`], but for a store with several tiers, each of which is
    /// copied to its own directory.
    BackupTiers {
        /// The absolute path of the directory for the first tier.
        to: Vec<u8>,
        /// The absolute paths of the other tiers' directories, in tier order.
        further: Vec<Vec<u8>>,
    },
    /// Hands the connection to a service that the process offers under this name, for example its
    /// files. After the reply, the connection speaks the protocol of that service.
    Service(String),
}

/// A change of a tier's settings.
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
    /// The durability of the commit. If absent, the store's default applies.
    pub durability: Option<CommitDurability>,
}

/// The isolation level of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IsolationLevel {
    /// The transactions have the same result as if they had run one after the other.
    Serializable,
    /// The transaction reads from a snapshot taken when it begins.
    Snapshot,
}

/// A transaction's concurrency control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionConcurrency {
    /// The commit detects conflicts with other transactions.
    Optimistic,
    /// The transaction locks the keys that it reads and writes.
    Locking,
}

/// The durability that a commit must reach before it is acknowledged.
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
    /// Reads a key's value. Replies with [`ManagementReply::Values`].
    Get {
        keyspace: String,
        key: Vec<u8>,
        /// Why the transaction reads the key.
        purpose: ReadPurpose,
    },
    Put {
        keyspace: String,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// Deletes a key. It is not an error if the key does not exist.
    Delete { keyspace: String, key: Vec<u8> },
    /// Deletes all keys in a range.
    DeleteRange {
        keyspace: String,
        /// The first key in the range. An empty key denotes the start of the keyspace.
        from: Vec<u8>,
        /// The exclusive end of the range. If absent, the range extends to the end of the keyspace.
        to: Option<Vec<u8>>,
    },
    /// Reads keys in order. Replies with any number of [`ManagementReply::Pairs`].
    Scan(ScanRequest),
    /// Creates a savepoint, which hides any earlier savepoint of the same name as long as it
    /// exists.
    Savepoint(String),
    /// Undoes all writes since a savepoint, which remains.
    RollbackTo(String),
    /// Commits the transaction, which ends even if the commit fails.
    Commit,
    /// Rolls back and ends the transaction.
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

/// Why a transaction reads a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadPurpose {
    Value,
    /// The transaction is going to update the key. At any isolation level, no other transaction may
    /// then change the key before the commit.
    Update,
}

/// An operation on the keys of Redis clients in one database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedisRequest {
    /// Reads keys with their content. Replies with one [`ManagementReply::Key`] per key, each
    /// followed by its [`ManagementReply::Elements`].
    Get { database: u8, keys: Vec<Vec<u8>> },
    /// Reads a range of keys in byte order from a snapshot. Ignores the scan's `keyspace` field.
    /// The replies are those of `Get`.
    Scan {
        database: u8,
        /// The range of keys, and what to read of them.
        scan: ScanRequest,
    },
    /// Executes Redis commands and changes to other keyspaces in one atomic commit. Replies with
    /// [`ManagementReply::Values`]: the commands' replies in RESP2. If a command is rejected,
    /// nothing is changed, and the last value is that command's error reply.
    Execute {
        database: u8,
        /// The commands, each as a list of words.
        commands: Vec<Vec<Vec<u8>>>,
        /// Changes to other keyspaces in the same commit.
        also: Vec<KeyChange>,
    },
    /// Like [`RedisRequest::Scan`], but for the keys after a given one. They are in byte order or,
    /// if keys are hashed, in the order of a scan over all keys.
    ScanBehind {
        database: u8,
        key: Vec<u8>,
        /// Maximum number of keys to return.
        limit: Option<u64>,
        what: ScanContent,
    },
}

/// A change to one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyChange {
    pub keyspace: String,
    pub key: Vec<u8>,
    /// The new value, or `None` to delete the key.
    pub value: Option<Vec<u8>>,
    /// The value's time to live in milliseconds, or `None` if it does not expire. For a delete, the
    /// time until the present value is deleted, or `None` to delete it at once.
    pub expires_in_ms: Option<u64>,
}

/// The options for creating a keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewKeyspace {
    pub name: String,
    /// The page compression: `none`, `lz4` or `zstd`.
    pub compression: String,
    /// Length in bytes beyond which a value is stored separately from its key.
    pub value_threshold: Option<u32>,
    pub merge_operator: Option<String>,
    /// The name of the index structure, for example `levels,k=4`. If absent, the tiered tree is
    /// used.
    #[serde(default)]
    pub structure: Option<String>,
    /// How long, in milliseconds, a value stays that is put without an expiry time. If absent, it
    /// stays for good.
    #[serde(default)]
    pub default_expiry_ms: Option<u64>,
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
    /// Returns the options for the store, or `None` if it does not know the compression algorithm.
    pub(super) fn options(&self) -> Option<KeyspaceOptions> {
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd]
            .into_iter()
            .find(|&known| compression(known) == self.compression)?;
        let mut options = KeyspaceOptions::new().compression(compression);
        options.value_threshold = self.value_threshold;
        options.merge_operator.clone_from(&self.merge_operator);
        options.default_expiry = self.default_expiry_ms.map(Duration::from_millis);
        Some(options)
    }
}

/// An ordered scan over a range of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanRequest {
    pub keyspace: String,
    /// The first key in the range. An empty key denotes the start of the keyspace.
    pub from: Vec<u8>,
    /// The exclusive end of the range. If absent, the range extends to the end of the keyspace.
    pub to: Option<Vec<u8>>,
    pub direction: ScanOrder,
    /// Maximum number of keys to return.
    pub limit: Option<u64>,
    pub what: ScanContent,
}

/// A scan over all keys in arbitrary order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnorderedScanRequest {
    pub keyspace: String,
    /// The last key returned by an earlier scan, after which this scan continues.
    pub after: Option<Vec<u8>>,
    /// Maximum number of keys to return.
    pub limit: Option<u64>,
    pub what: ScanContent,
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanOrder {
    Forward,
    Backward,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanContent {
    /// Return only keys, with empty values.
    Keys,
    Pairs,
}

/// How much of the store a check covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckExtent {
    /// Check only the allocation of space.
    Structure,
    /// Check the allocation of space and the checksums of all data.
    Everything,
}

/// Part of the reply to a request. Each request's documentation states which replies it gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagementReply {
    /// The progress of a long operation.
    Progress {
        stage: JobStage,
        done_bytes: u64,
        total_bytes: u64,
    },
    /// The values of the requested keys, in request order.
    Values(Vec<Option<Vec<u8>>>),
    Pairs(Vec<(Vec<u8>, Vec<u8>)>),
    Number(u64),
    Truth(bool),
    Text(String),
    Json(String),
    /// A key of Redis clients, followed by [`ManagementReply::Elements`] with its content.
    Key(RedisKey),
    /// A key's content as pairs: the value of a string, the elements of a list, the members of a
    /// set, the fields and values of a hash, or the members and scores of a sorted set.
    Elements(Vec<(Vec<u8>, Vec<u8>)>),
}

/// A stage of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobStage {
    /// Data is being copied to another directory.
    Copying,
    /// Data is being read and its checksums verified.
    Checking,
    Compacting,
}

/// A key of Redis clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedisKey {
    pub key: Vec<u8>,
    /// The key's data type, or `None` if the key does not exist.
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
    /// Returns this data type's name in the Redis command `TYPE`.
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

/// The kind of a failure, which determines the command line's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// A failure of no other kind.
    Failed,
    /// The requested object does not exist.
    NotFound,
    /// The keyspace does not exist. The error text is its name.
    NoKeyspace,
    /// The request is invalid, or is not allowed for this keyspace.
    Usage,
    /// The store, or a copy of it, is damaged.
    Damaged,
    /// The store's devices have no space left.
    Full,
    /// The transaction conflicts with another one.
    Conflict,
}

/// The result of a management operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Receives each part of a reply. If this callback returns an error, the operation stops if
/// possible.
pub(super) type ReplySink<'h> = dyn FnMut(ManagementReply) -> Result<()> + 'h;

/// The error of a management operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error from the store in this process.
    #[error(transparent)]
    Store(#[from] alluvium::Error),
    /// An error reported by the process that has the store open, or a rejected request.
    #[error("{text}")]
    Told {
        kind: FailureKind,
        /// The error message, including the remedy.
        text: String,
    },
    /// The caller has stopped receiving the reply.
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
