//! What can be asked of a store, and what is answered.

use alluvium::{Compression, KeyspaceOptions};
use serde::{Deserialize, Serialize};
use std::io;

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Lists all keyspaces with their options: [`Reply::Json`].
    Keyspaces,
    /// Creates a keyspace, which must not be there.
    CreateKeyspace(NewKeyspace),
    /// Creates a keyspace unless it is there: [`Reply::Truth`] says whether it was created.
    EnsureKeyspace(String),
    /// Drops a keyspace with everything in it.
    DropKeyspace(String),
    /// Renames a keyspace.
    RenameKeyspace {
        /// Its name now.
        from: String,
        /// Its name then.
        to: String,
    },
    /// Reads the values of keys: [`Reply::Values`], as many as it takes, at least one.
    Get {
        /// The keyspace.
        keyspace: String,
        /// The keys.
        keys: Vec<Vec<u8>>,
    },
    /// Gives a key a value unless it has one: [`Reply::Truth`] says whether it got it.
    PutIfAbsent {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Applies all changes or none.
    Write(Vec<Change>),
    /// Deletes all keys of a range.
    DeleteRange {
        /// The keyspace.
        keyspace: String,
        /// The first key.
        from: Vec<u8>,
        /// The key behind the last, if there is an end.
        to: Option<Vec<u8>>,
    },
    /// Reads keys in order, as they are at one moment: [`Reply::Pairs`], again and again. Of a
    /// hashed keyspace all keys are read, forward and in no order; parts of it are refused.
    Scan(Scan),
    /// Begins to load sorted records into a keyspace; a load that was begun before on this
    /// connection is given up.
    BeginIngest(String),
    /// Loads records whose keys ascend.
    Ingest(Vec<(Vec<u8>, Vec<u8>)>),
    /// Lets what was loaded take effect.
    FinishIngest,
    /// Gives up what was loaded.
    AbandonIngest,
    /// Counts what the store holds and takes: [`Reply::Json`].
    Stats,
    /// Reports all figures, the tree, and what a server counts: [`Reply::Json`].
    Figures,
    /// Describes the tree: [`Reply::Json`].
    Outline,
    /// Draws the tree: [`Reply::Text`].
    Drawing,
    /// Describes one run: [`Reply::Json`], null if there is none.
    Run {
        /// Its group.
        group: u64,
        /// Its place in the group.
        place: u64,
    },
    /// Checks the store: [`Reply::Progress`], then [`Reply::Json`].
    Check(Depth),
    /// Copies the store as it is now into a directory of the answering process:
    /// [`Reply::Progress`], then [`Reply::Number`], the last commit in it.
    Backup {
        /// The directory, absolute.
        to: Vec<u8>,
    },
    /// Rewrites everything: [`Reply::Progress`], then [`Reply::Json`].
    Compact,
    /// Makes everything durable that was acknowledged.
    Sync,
    /// Works on the keys of Redis clients.
    Redis(Redis),
    /// Begins a transaction: [`Reply::Number`], its number. The one that was begun before on this
    /// connection is rolled back, as at the connection's end.
    BeginTransaction(NewTransaction),
    /// Does something in the transaction that was begun on this connection.
    InTransaction(Step),
    /// Describes open transactions and kept snapshots, and what they hold back: [`Reply::Json`].
    Transactions,
    /// Reads all keys in no order that means anything, also of a hashed keyspace:
    /// [`Reply::Pairs`], again and again.
    Unordered(Unordered),
    /// Lists the tiers: [`Reply::Json`].
    Tiers,
    /// Changes the tiers.
    ChangeTiers {
        /// The directory of a tier, absolute.
        path: Vec<u8>,
        /// What becomes of it.
        change: TierChange,
    },
    /// Changes the share of the caches' memory for records as the store's own advice is, or to one
    /// in thousandths, and has the store watch it: [`Reply::Json`], the change, or null where the
    /// advice is to leave it.
    ApplyAdvice {
        /// The share, in thousandths.
        record_permille: Option<u32>,
    },
    /// Tells the last changes by advice, and what became of them: [`Reply::Json`].
    Trials,
    /// Takes a name for this connection, which has it until it ends: [`Reply::Truth`]. It waits for
    /// another connection that has it, for ten seconds, and is not taken then.
    Claim(Vec<u8>),
    /// As [`Request::Backup`], with a directory for each further tier.
    BackupTiers {
        /// The directory, absolute.
        to: Vec<u8>,
        /// Those of the further tiers, absolute, in their order.
        further: Vec<Vec<u8>>,
    },
}

/// What becomes of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TierChange {
    /// It is added.
    Add {
        /// The most bytes that it may take.
        max_bytes: Option<u64>,
    },
    /// What lies on it goes to the others, and it takes nothing new.
    Drain,
    /// It takes data again.
    Use,
}

/// How a transaction is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTransaction {
    /// What it may see of others.
    pub isolation: IsolationLevel,
    /// How it is kept apart from others.
    pub mechanism: Mechanism,
    /// When its commit is acknowledged; as the store does it if none.
    pub durability: Option<Acknowledged>,
}

/// What a transaction may see of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IsolationLevel {
    /// Nothing that would not be so if all had run one after the other.
    Serializable,
    /// The moment of its begin.
    Snapshot,
}

/// How transactions are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mechanism {
    /// Conflicts are found at the commit.
    Optimistic,
    /// What is read or written is locked.
    Locking,
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Acknowledged {
    /// When it is visible.
    AtOnce,
    /// When it survives the death of the process.
    AfterProcess,
    /// When it survives the loss of power.
    AfterDisk,
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Reads the value of a key: [`Reply::Values`].
    Get {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
        /// What for.
        purpose: ReadPurpose,
    },
    /// Gives a key a value.
    Put {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Deletes a key.
    Delete {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
    },
    /// Deletes all keys of a range.
    DeleteRange {
        /// The keyspace.
        keyspace: String,
        /// The first key.
        from: Vec<u8>,
        /// The key behind the last, if there is an end.
        to: Option<Vec<u8>>,
    },
    /// Reads keys in order: [`Reply::Pairs`], again and again.
    Scan(Scan),
    /// Sets a savepoint. An earlier one of the same name is hidden until this one is gone.
    Savepoint(String),
    /// Takes back what was written after a savepoint, which stays.
    RollbackTo(String),
    /// Commits the transaction. It has ended then, also if that fails.
    Commit,
    /// Rolls the transaction back.
    Rollback,
}

impl Step {
    /// Returns the keyspace that it reads or writes, if it does.
    pub(super) fn keyspace(&self) -> Option<&str> {
        match self {
            Step::Get { keyspace, .. }
            | Step::Put { keyspace, .. }
            | Step::Delete { keyspace, .. }
            | Step::DeleteRange { keyspace, .. }
            | Step::Scan(Scan { keyspace, .. }) => Some(keyspace),
            Step::Savepoint(_) | Step::RollbackTo(_) | Step::Commit | Step::Rollback => None,
        }
    }

    /// Returns whether it reads, and writes nothing.
    pub(super) fn reads(&self) -> bool {
        matches!(self, Step::Get { .. } | Step::Scan(_))
    }
}

/// What a transaction reads a key for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadPurpose {
    /// For its value.
    Value,
    /// For a change: no other transaction may change it meanwhile, whatever the isolation.
    Update,
}

/// An operation on the keys of Redis clients in one database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Redis {
    /// Reads keys with what they hold: for each [`Reply::Key`] and then its [`Reply::Elements`].
    Get {
        /// The database.
        database: u8,
        /// The keys.
        keys: Vec<Vec<u8>>,
    },
    /// The same for all keys of a range, in the order of their bytes, as they are at one moment.
    /// Its keyspace means nothing.
    Scan {
        /// The database.
        database: u8,
        /// Which keys, and what of them.
        scan: Scan,
    },
    /// Executes commands on keys, all in one commit, together with changes of other keyspaces:
    /// [`Reply::Values`] has the replies of RESP2. If one is refused, none has happened, and its
    /// reply is the last.
    Execute {
        /// The database.
        database: u8,
        /// The commands, each with its arguments.
        commands: Vec<Vec<Vec<u8>>>,
        /// What is changed together with them.
        also: Vec<Change>,
    },
    /// As [`Redis::Scan`], of all keys behind one: in their order, or, where they have none, in
    /// that in which a scan of all of them goes.
    ScanBehind {
        /// The database.
        database: u8,
        /// The key.
        key: Vec<u8>,
        /// How many keys at most.
        limit: Option<u64>,
        /// What of them.
        what: What,
    },
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The keyspace.
    pub keyspace: String,
    /// The key.
    pub key: Vec<u8>,
    /// Its value from now on; none deletes it.
    pub value: Option<Vec<u8>>,
    /// After how many milliseconds the value is gone, if it is to go.
    pub expires_in_ms: Option<u64>,
}

/// Options of a new keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewKeyspace {
    /// Its name.
    pub name: String,
    /// How pages are kept: `none`, `lz4` or `zstd`.
    pub compression: String,
    /// Values longer than this lie apart from their keys.
    pub value_threshold: Option<u32>,
    /// The merge operator.
    pub merge_operator: Option<String>,
    /// The structure, as `levels,k=4`; the tiered tree if absent.
    #[serde(default)]
    pub structure: Option<String>,
}

impl NewKeyspace {
    /// The options, unless the compression has another name.
    pub(super) fn options(&self) -> Option<KeyspaceOptions> {
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd]
            .into_iter()
            .find(|&known| super::report::compression(known) == self.compression)?;
        let mut options = KeyspaceOptions::new().compression(compression);
        options.value_threshold = self.value_threshold;
        options.merge_operator.clone_from(&self.merge_operator);
        Some(options)
    }
}

/// A walk over keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// The keyspace.
    pub keyspace: String,
    /// The first key.
    pub from: Vec<u8>,
    /// The key behind the last, if there is an end.
    pub to: Option<Vec<u8>>,
    /// From which end.
    pub direction: Direction,
    /// How many keys at most.
    pub limit: Option<u64>,
    /// What of them.
    pub what: What,
}

/// A walk over all keys, in no order that means anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unordered {
    /// The keyspace.
    pub keyspace: String,
    /// The last key of an earlier walk, behind which this one goes on.
    pub after: Option<Vec<u8>>,
    /// How many keys at most.
    pub limit: Option<u64>,
    /// What of them.
    pub what: What,
}

/// From which end keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// From the first key on.
    Forward,
    /// From the last key on.
    Backward,
}

/// What is read of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Keys alone; their values are empty.
    Keys,
    /// Keys and values.
    Pairs,
}

/// How much of the store a check reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Depth {
    /// Only which space is in use.
    Structure,
    /// Everything.
    Everything,
}

/// A part of an answer. How many there are, and of which kind, each request says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// How far a long job is.
    Progress {
        /// What it does.
        stage: Stage,
        /// Bytes that are done.
        done_bytes: u64,
        /// Bytes that there are.
        total_bytes: u64,
    },
    /// Values of keys, in their order.
    Values(Vec<Option<Vec<u8>>>),
    /// Keys and values.
    Pairs(Vec<(Vec<u8>, Vec<u8>)>),
    /// A number.
    Number(u64),
    /// Yes or no.
    Truth(bool),
    /// A text.
    Text(String),
    /// A JSON document.
    Json(String),
    /// A key of Redis clients; its elements follow.
    Key(RedisKey),
    /// Elements: of a string its value, of a list its elements, of a set its members, of a hash
    /// fields and values, of a sorted set members and scores.
    Elements(Vec<(Vec<u8>, Vec<u8>)>),
}

/// What a long job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Data goes into another directory.
    Copying,
    /// Data is read and compared with its checksums.
    Checking,
    /// Data is rewritten.
    Compacting,
}

/// A key of Redis clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedisKey {
    /// The key.
    pub key: Vec<u8>,
    /// What it holds; none if it is not there.
    pub kind: Option<RedisKind>,
    /// When it is gone, in milliseconds since 1970, if it is to go.
    pub expires_ms: Option<u64>,
    /// How many elements it has.
    pub elements: u64,
}

/// The types of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedisKind {
    /// Bytes.
    String,
    /// Elements by position.
    List,
    /// Members.
    Set,
    /// Members with scores.
    SortedSet,
    /// Fields with values.
    Hash,
}

impl RedisKind {
    /// The word of Redis' `TYPE`.
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

/// What kind of failure it is, for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// None of the others.
    Failed,
    /// What was asked for is not there.
    NotFound,
    /// There is no keyspace of the name that the text is.
    NoKeyspace,
    /// The request makes no sense.
    Usage,
    /// The store, or a copy, is damaged.
    Damaged,
    /// The disk is full.
    Full,
    /// Another transaction was in the way.
    Conflict,
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store of this process says so.
    #[error(transparent)]
    Store(#[from] alluvium::Error),
    /// The process that has the store open says so, or the operation is refused.
    #[error("{text}")]
    Told {
        /// What kind of failure it is.
        kind: Kind,
        /// What went wrong, and what to do.
        text: String,
    },
    /// The client wants no more of the answer.
    #[error("the answer was not wanted to its end")]
    Unheard,
    /// The connection failed.
    #[error("the connection to the process that has the store open failed: {0}")]
    Connection(io::Error),
}

impl Error {
    pub(super) fn told(kind: Kind, text: impl Into<String>) -> Error {
        let text = text.into();
        Error::Told { kind, text }
    }
}
