//! Requests to a store, and their replies.

use alluvium::{Compression, KeyspaceOptions};
use serde::{Deserialize, Serialize};
use std::io;

/// An operation on a store. A variant that names no reply is answered with success or failure only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagementRequest {
    /// Lists all keyspaces with their options: [`ManagementReply::Json`].
    Keyspaces,
    /// Creates a keyspace, which must not exist.
    CreateKeyspace(NewKeyspace),
    /// Creates a keyspace unless it exists: [`ManagementReply::Truth`] is whether it was created.
    EnsureKeyspace(String),
    /// Drops a keyspace with all its data.
    DropKeyspace(String),
    RenameKeyspace {
        from: String,
        /// The new name, which no keyspace may have yet.
        to: String,
    },
    /// Reads the values of keys: [`ManagementReply::Values`], repeated as needed, at least once.
    Get { keyspace: String, keys: Vec<Vec<u8>> },
    /// Sets a key unless it has a value: [`ManagementReply::Truth`] is whether it was set.
    PutIfAbsent {
        keyspace: String,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// Applies all changes in one atomic commit.
    Write(Vec<KeyChange>),
    /// Deletes a range of keys.
    DeleteRange {
        keyspace: String,
        /// The start of the range, inclusive. Empty for the first key.
        from: Vec<u8>,
        /// The end of the range, exclusive. No end if absent.
        to: Option<Vec<u8>>,
    },
    /// Reads keys in order from a snapshot: [`ManagementReply::Pairs`], repeated. A hashed keyspace
    /// is read as a whole, forward and unordered; parts of it are refused.
    Scan(ScanRequest),
    /// Begins to load sorted records into a keyspace. Abandons an earlier unfinished load of this
    /// connection.
    BeginIngest(String),
    /// Loads records in ascending order of keys.
    Ingest(Vec<(Vec<u8>, Vec<u8>)>),
    /// Makes the loaded records visible.
    FinishIngest,
    /// Abandons the loaded records, if there are any.
    AbandonIngest,
    /// Returns statistics of the store: [`ManagementReply::Json`].
    Stats,
    /// Returns all figures, the shape of the tree, and the counters of a server:
    /// [`ManagementReply::Json`].
    Figures,
    /// Describes the shape of the tree: [`ManagementReply::Json`].
    Outline,
    /// Draws the shape of the tree: [`ManagementReply::Text`].
    Drawing,
    /// Describes one run: [`ManagementReply::Json`], null if it does not exist.
    Run {
        /// The group of the run.
        group: u64,
        /// The position in the group.
        place: u64,
    },
    /// Checks the store: [`ManagementReply::Progress`], then [`ManagementReply::Json`].
    Check(CheckExtent),
    /// Copies the current state of the store to a directory of the answering process:
    /// [`ManagementReply::Progress`], then [`ManagementReply::Number`], the last commit in the
    /// copy.
    Backup {
        /// The absolute path of the directory.
        to: Vec<u8>,
    },
    /// Rewrites all data: [`ManagementReply::Progress`], then [`ManagementReply::Json`].
    Compact,
    /// Makes all acknowledged writes durable.
    Sync,
    /// An operation on the keys of Redis clients.
    Redis(RedisRequest),
    /// Begins a transaction: [`ManagementReply::Number`], its number. Rolls back an earlier one of
    /// this connection. The end of the connection also rolls it back.
    BeginTransaction(NewTransaction),
    /// An operation in the transaction of this connection.
    InTransaction(TransactionStep),
    /// Describes open transactions and kept snapshots, and the versions they retain:
    /// [`ManagementReply::Json`].
    Transactions,
    /// Reads all keys in an arbitrary order, also of a hashed keyspace: [`ManagementReply::Pairs`],
    /// repeated.
    Unordered(UnorderedScanRequest),
    /// Lists the tiers with their capacity and use: [`ManagementReply::Json`].
    Tiers,
    ChangeTiers {
        /// The absolute path of the tier's directory.
        path: Vec<u8>,
        change: TierChange,
    },
    /// Changes the share of the caches' memory that is used for records, to the value that the
    /// store advises or to the given one, and lets the store evaluate the change:
    /// [`ManagementReply::Json`], the change, or null if the advice is to change nothing.
    ApplyAdvice {
        /// The share in thousandths; `None` for the advised share.
        record_permille: Option<u32>,
    },
    /// Returns the last changes by advice, and their outcomes: [`ManagementReply::Json`].
    Trials,
    /// Claims a name for this connection until it ends: [`ManagementReply::Truth`]. Waits up to ten
    /// seconds for another connection that owns the name, and fails after that.
    Claim(Vec<u8>),
    /// Like [`ManagementRequest::Backup`], with a directory for each further tier.
    BackupTiers {
        /// The absolute path of the directory.
        to: Vec<u8>,
        /// The absolute paths for the further tiers, in their order.
        further: Vec<Vec<u8>>,
    },
}

/// A change of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TierChange {
    Add {
        /// Capacity limit in bytes; `None` for no limit.
        max_bytes: Option<u64>,
    },
    /// Moves the tier's data to the other tiers and stops writing to it.
    Drain,
    /// Makes the tier accept data again.
    Use,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTransaction {
    pub isolation: IsolationLevel,
    pub mechanism: TransactionConcurrency,
    /// The durability of the commit. Defaults to that of the store.
    pub durability: Option<CommitDurability>,
}

/// The isolation level of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IsolationLevel {
    /// The result equals that of some serial execution.
    Serializable,
    /// Reads a snapshot taken at the begin.
    Snapshot,
}

/// The concurrency control of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionConcurrency {
    /// Conflicts are detected at the commit.
    Optimistic,
    /// Reads and writes lock their keys.
    Locking,
}

/// The durability at which a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommitDurability {
    /// As soon as the commit is visible.
    AtOnce,
    /// When the commit survives the death of the process.
    AfterProcess,
    /// When the commit survives a loss of power.
    AfterDisk,
}

/// An operation in a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionStep {
    /// Reads the value of a key: [`ManagementReply::Values`].
    Get {
        keyspace: String,
        key: Vec<u8>,
        /// The purpose of the read.
        purpose: ReadPurpose,
    },
    Put {
        keyspace: String,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// Deletes a key, which need not exist.
    Delete { keyspace: String, key: Vec<u8> },
    /// Deletes a range of keys.
    DeleteRange {
        keyspace: String,
        /// The start of the range, inclusive. Empty for the first key.
        from: Vec<u8>,
        /// The end of the range, exclusive. No end if absent.
        to: Option<Vec<u8>>,
    },
    /// Reads keys in order: [`ManagementReply::Pairs`], repeated.
    Scan(ScanRequest),
    /// Sets a savepoint. It hides an earlier one of the same name while it exists.
    Savepoint(String),
    /// Undoes all writes after a savepoint, which remains.
    RollbackTo(String),
    /// Commits the transaction. It ends even if the commit fails.
    Commit,
    /// Rolls the transaction back, which ends it.
    Rollback,
}

impl TransactionStep {
    /// Returns the keyspace of the operation, if it has one.
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

    /// Returns whether the operation only reads.
    pub(super) fn reads(&self) -> bool {
        matches!(self, TransactionStep::Get { .. } | TransactionStep::Scan(_))
    }
}

/// The purpose of a read in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadPurpose {
    Value,
    /// To update the key: no other transaction may change it until the commit, at any isolation
    /// level.
    Update,
}

/// An operation on the keys of Redis clients in one database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedisRequest {
    /// Reads keys with their content: for each [`ManagementReply::Key`], then its
    /// [`ManagementReply::Elements`].
    Get { database: u8, keys: Vec<Vec<u8>> },
    /// Reads a range of keys in byte order from a snapshot, with replies as for `Get`. The
    /// `keyspace` of the scan is ignored.
    Scan {
        database: u8,
        /// The range, and what to read.
        scan: ScanRequest,
    },
    /// Executes commands and changes of other keyspaces in one commit: [`ManagementReply::Values`]
    /// with the RESP2 replies. If a command is refused, nothing takes effect, and its reply is the
    /// last one.
    Execute {
        database: u8,
        /// The commands, each with its arguments.
        commands: Vec<Vec<Vec<u8>>>,
        /// Changes of other keyspaces in the same commit.
        also: Vec<KeyChange>,
    },
    /// Like [`RedisRequest::Scan`], for the keys after a given one: in byte order, or, for hashed
    /// keys, in the order of a scan over all keys.
    ScanBehind {
        database: u8,
        key: Vec<u8>,
        /// Limit on the number of keys.
        limit: Option<u64>,
        what: ScanContent,
    },
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyChange {
    pub keyspace: String,
    pub key: Vec<u8>,
    /// The new value; `None` deletes the key.
    pub value: Option<Vec<u8>>,
    /// Time to live of the value in milliseconds, if it expires.
    pub expires_in_ms: Option<u64>,
}

/// Options of a new keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewKeyspace {
    pub name: String,
    /// The compression of pages: `none`, `lz4` or `zstd`.
    pub compression: String,
    /// Length in bytes above which values are stored separately from their keys.
    pub value_threshold: Option<u32>,
    pub merge_operator: Option<String>,
    /// The structure, for example `levels,k=4`. Defaults to the tiered tree.
    #[serde(default)]
    pub structure: Option<String>,
}

/// Returns the name of a compression.
pub(super) fn compression(of: Compression) -> &'static str {
    match of {
        Compression::None => "none",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    }
}

impl NewKeyspace {
    /// Returns the options, or `None` if the compression is unknown.
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

/// A walk over keys in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanRequest {
    pub keyspace: String,
    /// The start of the range, inclusive. Empty for the first key.
    pub from: Vec<u8>,
    /// The end of the range, exclusive. No end if absent.
    pub to: Option<Vec<u8>>,
    pub direction: ScanOrder,
    /// Limit on the number of keys.
    pub limit: Option<u64>,
    pub what: ScanContent,
}

/// A walk over all keys in an arbitrary order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnorderedScanRequest {
    pub keyspace: String,
    /// The last key of an earlier walk, after which this one continues.
    pub after: Option<Vec<u8>>,
    /// Limit on the number of keys.
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
    /// Keys only; values are empty.
    Keys,
    Pairs,
}

/// The extent of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckExtent {
    /// Only the allocation of space.
    Structure,
    /// The allocation of space, and the checksums of all data.
    Everything,
}

/// A part of an answer. Each request documents the number and kinds of its replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagementReply {
    /// The progress of a long operation.
    Progress {
        stage: JobStage,
        done_bytes: u64,
        total_bytes: u64,
    },
    /// Values in the order of the requested keys.
    Values(Vec<Option<Vec<u8>>>),
    Pairs(Vec<(Vec<u8>, Vec<u8>)>),
    Number(u64),
    Truth(bool),
    Text(String),
    Json(String),
    /// A key of Redis clients. Its elements follow.
    Key(RedisKey),
    /// Elements: the value of a string, the elements of a list, the members of a set, fields and
    /// values of a hash, members and scores of a sorted set.
    Elements(Vec<(Vec<u8>, Vec<u8>)>),
}

/// A stage of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobStage {
    /// Copying data to another directory.
    Copying,
    /// Reading data and verifying checksums.
    Checking,
    Compacting,
}

/// A key of Redis clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedisKey {
    pub key: Vec<u8>,
    /// The type; `None` if the key does not exist.
    pub kind: Option<RedisKind>,
    /// Expiry time in milliseconds since 1970, if it expires.
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
    /// Returns the name of the type for Redis' `TYPE`.
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

/// The kind of a failure, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// Any failure without a kind of its own.
    Failed,
    /// The requested object does not exist.
    NotFound,
    /// The keyspace named in the text does not exist.
    NoKeyspace,
    /// The request is invalid, by itself or for this keyspace.
    Usage,
    /// The store or a copy is damaged.
    Damaged,
    /// The devices of the store have no space left.
    Full,
    /// The transaction conflicts with another one.
    Conflict,
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Receives the parts of an answer. An error stops the operation if possible.
pub(super) type ReplySink<'h> = dyn FnMut(ManagementReply) -> Result<()> + 'h;

/// The error of an operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the store in this process.
    #[error(transparent)]
    Store(#[from] alluvium::Error),
    /// An error of the process that has the store open, or a refusal.
    #[error("{text}")]
    Told {
        kind: FailureKind,
        /// The error and its remedy.
        text: String,
    },
    /// The caller has stopped receiving the answer.
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
