//! A write-optimised key-value store with one memory limit, no write stalls, and crash recovery.
//!
//! ```
//! # let place = tempfile::tempdir().unwrap();
//! # let path = place.path().join("store");
//! let db = alluvium::Db::open(&path)?;
//! let rivers = db.keyspace("rivers")?;
//! rivers.put("Elbe", "1094 km")?;
//! assert_eq!(rivers.get("Elbe")?.unwrap(), b"1094 km");
//! # Ok::<(), alluvium::Error>(())
//! ```
//!
//! # What to use
//!
//! | for | see |
//! |---|---|
//! | opening a store | [`Db::open`], [`Options`]; in memory: [`Options::in_memory`] |
//! | options as text | [`text`] |
//! | an ordered map from keys to values | [`Keyspace`], which a [`Db`] has any number of |
//! | several writes that happen together | [`WriteBatch`] |
//! | writes that see themselves before they are committed | [`WriteSet`] |
//! | reads and writes that take effect together | [`Transaction`] |
//! | a transaction of several parts of a program | [`JointTransaction`] |
//! | when a write is safe | [`Durability`] |
//! | walking over keys, from either end | [`Iter`] |
//! | reading as of one moment | [`Snapshot`] |
//! | counters and appends without a read | [`Keyspace::merge`], [`MergeOperator`] |
//! | values that expire | [`Keyspace::put_until`] |
//! | a delete at a later time | [`Keyspace::delete_at`] |
//! | reads and writes without blocking a thread | [`Keyspace::get_async`], [`Db::write_async`], [`Db::reads`] |
//! | loading sorted data | [`Keyspace::ingest`] |
//! | following all changes | [`Db::changes_since`] |
//! | backups | [`Db::checkpoint_to`], [`restore()`] |
//! | damage | [`Db::check`], [`repair()`] |
//! | deciding what to do about an error | [`Error::kind`] |
//! | ordering threads that read and then write | [`Keyspace::compare_and_set`], [`LockTable`] |
//! | keys of several typed parts | [`keys`] |
//! | numbers about the store | [`Db::stats`], [`Db::outline`] |
//!
//! The `docs` directory of the repository covers durability, memory, operation and testing.
//!
//! # For contributors
//!
//! *Scope*: keyspaces; commits and their order; the sequence numbers at which readers see the
//! store; background threads; the memory budget.
//!
//! *Must not depend on*: the contents of pages and log segments; networks; file systems.
//! (Exceptions: `options/` chooses the sizes of pages and log segments, and [`simulation`] exposes
//! their types to tests.)
//!
//! Invariants (those of the engine are in its module header):
//!
//! - **A1** Every operation on a handle either succeeds or returns a typed error. It never panics
//!   because another handle closed the store or dropped a keyspace.
//! - **A2** An operation that returns an error either leaves the store unchanged, or stops all
//!   writes until the store is opened again.

#![warn(missing_docs)]

// Some unit tests share source files with the integration tests, which refer to this crate as
// `alluvium`.
#[cfg(all(test, not(alluvium_model_check)))]
extern crate self as alluvium;

mod admin;
mod advise;
mod background;
mod db;
mod engine;
mod error;
mod keyspace;
mod locking;
mod options;
mod read;
mod schema;
mod shared;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod transaction;
mod write;

pub use admin::changes::{Change, ChangeSet, ChangeStream};
pub use admin::outline::OutlineKey;
pub use admin::repair::{RepairReport, repair};
pub use admin::restore::restore;
pub use admin::simulation;
pub use admin::stats::{
    DictionaryOutline, DictionaryStats, DiskSpace, OperationCounts, Stats, StatsMetric, StatsMetricKind,
    StatsMetricUnit, TierOutline, TierRun, TierStats, WriteDelays,
};
pub use advise::advice::{CacheAdvice, Trial, TrialOutcome};
pub use advise::choices::SettingChoice;
pub use advise::forecast::{CostComparison, CostQuantity, Forecast, PastHour};
pub use advise::workload::{HourlyRequests, KeyspaceRequests};
pub use alluvium_base::{DeviceProfile, Purpose};
pub use alluvium_device::heap::give_freed_memory_back;
pub use alluvium_device::{DeviceCounts, DeviceStats};
pub use alluvium_dictionary::merge::{
    BadOperand, CompactionFilter, FilterCandidate, FilterVerdict, MergeOperator,
};
pub use alluvium_dictionary::range::KeyRange;
pub use alluvium_hashes::hashed::HashedStats;
pub use alluvium_storage::extents::TierUsage as SpaceUsage;
pub use alluvium_storage::log::LogUsage;
pub use alluvium_storage::{CacheStats, CopyStats};
pub use alluvium_trees::levels::{LevelsOutline, LevelsStats, OutlineLevel, OutlineLevelRun};
pub use alluvium_trees::paged::read::LevelFigures as PagedLevel;
pub use alluvium_trees::paged::{PagedOutline, PagedStats};
pub use alluvium_trees::run::{ExtentUse, RunSummary};
pub use alluvium_trees::run_locations::RunName;
pub use alluvium_trees::tiered::{
    CompactionState, Outline, OutlineBundle, OutlineLayer, OutlineNode, OutlinePivot, OutlineRun, TreeDebt,
    TreeStats,
};
pub use db::{Db, MAX_NAME};
pub use engine::MemoryUse;
pub use engine::check::{CheckReport, CheckedStructure};
pub use engine::distribution::{LatencyDistribution, LatencyDistributions};
pub use engine::latencies::{LatencySummary, OperationLatencies};
pub use engine::lost_commits::LostCommits;
pub use engine::progress::{Progress, ProgressStage};
pub use engine::{RecordStats, TransactionInfo, TransactionStats};
pub use error::{Error, ErrorKind, Result, StorageError};
pub use keyspace::reads::{GatheredReads, Reads};
pub use keyspace::snapshot::Snapshot;
pub use keyspace::{Ingest, Keyspace};
pub use locking::locks::{HeldLocks, LockMode, LockSet, LockTable};
pub use options::machine::{MIN_MEMORY, default_memory};
pub use options::text;
pub use options::{BackgroundLimits, devices};
pub use options::{Compression, KeyspaceOptions, ValueOrder};
pub use options::{Concurrency, Isolation, TransactionOptions};
pub use options::{Durability, OpenMode, Options, TierOptions};
pub use options::{HashedForm, HashedOptions, LevelsOptions, PagedOptions, Structure, TreeKind};
pub use read::futures::{GetFuture, MultiGetFuture, WriteFuture};
pub use read::iter::{Iter, Keys, Values};
pub use read::unordered::UnorderedScan;
pub use read::value::Value;
pub use schema::keys;
pub use transaction::joint::{JointTransaction, TransactionParticipant};
pub use transaction::write_set::{OwnWrite, WriteSet, WriteSetIter};
pub use transaction::{Savepoint, Transaction, TransactionIter, TransactionUnorderedScan};
pub use write::batch::{MAX_KEY, MAX_VALUE, WriteBatch};

/// A standalone in-memory cache with a size limit in bytes.
///
/// ```
/// use alluvium::cache::{Cache, CacheOptions};
/// let cache = Cache::new(&CacheOptions::new(4 << 20))?;
/// cache.set(b"river", b"Rhine")?;
/// assert_eq!(cache.get(b"river").as_deref(), Some(&b"Rhine"[..]));
/// # Ok::<(), alluvium::cache::Error>(())
/// ```
pub mod cache {
    pub use alluvium_hashes::mica::{
        CacheEviction, CacheUsage, Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, TableStats,
    };
    pub use alluvium_hashes::{Cache, CacheOptions};
}

/// Runs the examples in the README as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Runs the examples in `docs/transactions.md` as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/transactions.md")]
struct TransactionsPage;
