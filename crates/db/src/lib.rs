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
//! | an ordered map from keys to values | [`Keyspace`], which a [`Db`] has any number of |
//! | several writes that happen together | [`WriteBatch`] |
//! | writes that see themselves before they are committed | [`WriteSet`] |
//! | reads and writes that take effect together | [`Transaction`] |
//! | when a write is safe | [`Durability`] |
//! | walking over keys, from either end | [`Iter`] |
//! | reading as of one moment | [`Snapshot`] |
//! | counters and appends without a read | [`Keyspace::merge`], [`MergeOperator`] |
//! | values that expire | [`Keyspace::put_until`] |
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
//! *Knows*: keyspaces, commits and their order, the sequence numbers that readers pin, background
//! threads, the memory budget.
//!
//! *Does not know*: the contents of pages and log segments; networks; file systems. (`options.rs`
//! chooses their sizes, and [`simulation`] names them for tests.)
//!
//! *Read in this order*, from the public interface down: `open.rs`, `restore.rs` and `repair.rs`;
//! [`Transaction`] (`transaction/`); [`Db`] (`db.rs`); [`WriteSet`] (`write_set/`), [`Reads`]
//! (`reads.rs`) and `snapshot.rs`; [`Keyspace`] (`keyspace/`); `futures/`, `iter.rs`, `changes.rs`;
//! `pin.rs` and `shared.rs` (state shared by all handles); `committer.rs`, `reactor.rs`,
//! `worker.rs` and `caps.rs` (threads); [`WriteBatch`] (`batch.rs`); `engine/`, the engine proper,
//! which starts no threads; `lock_manager/`, `locks/`, `footprint.rs`, `ranges.rs`,
//! `transaction_options.rs`; [`Options`] (`options.rs`, `scale.rs`, `machine.rs`, [`devices`]);
//! `catalog.rs`, `manifest/`, `format.rs`, `fault.rs` (faults that tests inject), `structure.rs`,
//! `keyspace_options.rs`, `levels_options.rs`, `paged_options.rs`. No two modules import each
//! other.
//!
//! Invariants (those of the engine are in its module header):
//!
//! - **A1** A handle works or fails with a typed error. It never panics because another handle
//!   closed the store or dropped a keyspace.
//! - **A2** An error either leaves the store unchanged, or stops all writes until the store is
//!   opened again.

// Unit tests share source files with the integration tests, which import `alluvium`.
#[cfg(all(test, not(alluvium_model_check)))]
extern crate self as alluvium;

mod backup;
mod batch;
pub mod cache;
mod caps;
mod catalog;
mod change_tiers;
mod changes;
mod check;
mod committer;
mod db;
pub mod devices;
mod engine;
mod error;
mod fault;
mod footprint;
mod format;
mod futures;
mod hashed_options;
mod iter;
pub mod keys;
mod keyspace;
mod keyspace_options;
mod levels_options;
mod lock_manager;
mod locks;
mod lost_commits;
mod machine;
mod manifest;
mod open;
mod options;
mod outline;
mod paged_options;
mod pin;
mod place;
mod progress;
mod ranges;
mod reactor;
mod reads;
mod repair;
mod restore;
mod scale;
mod shared;
pub mod simulation;
mod snapshot;
mod stats;
mod structure;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod tier_options;
mod tiers;
mod transaction;
mod transaction_options;
mod unordered;
mod value;
mod worker;
mod workload;
mod write_set;

pub use alluvium_base::{DeviceProfile, Purpose};
pub use alluvium_device::heap::give_freed_memory_back;
pub use alluvium_device::{Counts as DeviceCounts, Snapshot as DeviceStats};
pub use alluvium_dictionary::merge::{
    BadOperand, Candidate, CompactionFilter, Operator as MergeOperator, Verdict,
};
pub use alluvium_dictionary::range::KeyRange;
pub use alluvium_hashes::hashed::HashedStats;
pub use alluvium_storage::extents::TierUsage as SpaceUsage;
pub use alluvium_storage::log::LogUsage;
pub use alluvium_storage::{CacheStats, CopyStats};
pub use alluvium_trees::levels::LevelsStats;
pub use alluvium_trees::paged::read::LevelFigures as PagedLevel;
pub use alluvium_trees::paged::{PagedOutline, PagedStats};
pub use alluvium_trees::run::{Summary as RunSummary, Use as ExtentUse};
pub use alluvium_trees::tiered::{
    Debt as TreeDebt, Outline, OutlineBundle, OutlineLayer, OutlineNode, OutlinePivot, OutlineRun,
    Stats as TreeStats, Underway,
};
pub use alluvium_trees::whereabouts::RunName;
pub use batch::{MAX_KEY, MAX_VALUE, WriteBatch};
pub use caps::Background;
pub use changes::{Change, ChangeSet, Changes};
pub use check::{CheckReport, CheckedStructure};
pub use db::{Db, MAX_NAME};
pub use engine::MemoryUse;
pub use engine::{Advice, Choice, Comparison, Forecast, Outcome, PastHour, Quantity, Trial};
pub use engine::{RecordStats, TransactionInfo, TransactionStats};
pub use error::{Error, ErrorKind, Result, StorageError};
pub use futures::{Get, MultiGet, Write};
pub use hashed_options::{HashedForm, HashedOptions};
pub use iter::{Iter, Keys, Values};
pub use keyspace::{Ingest, Keyspace};
pub use keyspace_options::{Compression, KeyspaceOptions};
pub use levels_options::{LevelsOptions, Structure};
pub use locks::{HeldLocks, LockMode, LockSet, LockTable};
pub use lost_commits::LostCommits;
pub use machine::{MIN_MEMORY, default_memory};
pub use options::{Durability, OpenMode, Options};
pub use outline::OutlineKey;
pub use paged_options::{PagedOptions, TreeKind};
pub use progress::{Progress, Stage};
pub use reads::{GatheredReads, Reads};
pub use repair::{RepairReport, repair};
pub use restore::restore;
pub use snapshot::Snapshot;
pub use stats::{
    Delays, DiskSpace, Distribution, Distributions, Figure, Latencies, Latency, Nature, Operations, Stats,
    TierOutline, TierRun, TierStats, Unit,
};
pub use tier_options::TierOptions;
pub use transaction::{Savepoint, Transaction, TransactionIter, TransactionUnordered};
pub use transaction_options::{Concurrency, Isolation, TransactionOptions};
pub use unordered::Unordered;
pub use value::Value;
pub use workload::{HourSeen, KeyspaceSeen};
pub use write_set::{OwnWrite, WriteSet, WriteSetIter};

/// Compiles and runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the examples of the page about transactions as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/transactions.md")]
struct TransactionsPage;
