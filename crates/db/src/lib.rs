//! A write-optimised key-value store: one number for its memory, no stalls, whole after any crash.
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
//! A [`Db`] has any number of [`Keyspace`]s, each an ordered map from keys to values. A [`WriteBatch`] changes several at once; a
//! [`Snapshot`] reads all of them as of one moment; an [`Iter`] walks over one from either end. Reads that wait for the device
//! need no thread each: [`Keyspace::get_async`], [`Db::reads`]. What is acknowledged survives as the
//! three words of [`Durability`] say.
//!
//! *Knows*: keyspaces, commits and their order, who reads at which place, threads for the background, one budget of memory.
//!
//! *Does not know*: pages, runs, log segments; networks, file systems.
//!
//! *Read in this order*: [`Options`] (`options.rs`), [`Db`] (`db.rs`), [`Keyspace`] (`keyspace/`), [`WriteBatch`] (`batch.rs`), `snapshot.rs`, `iter.rs`, `reads/`;
//! `restore.rs`, `repair.rs` and `progress.rs`; `changes.rs`;
//! then `engine/`, which does it all without threads, and `worker.rs`, which has them, with `caps.rs`; `catalog.rs`, `structure.rs` and `format.rs`; `manifest/`; [`keys`], which is for users alone.
//!
//! Invariants (those of the engine are in its header):
//!
//! - **A1** A handle works for ever or fails with a typed error: what another handle closes or drops never makes it panic.
//! - **A2** An error is returned before anything was changed, or the store takes no more writes until it is opened anew.

// Tests inside the crate share files with those outside of it.
#[cfg(all(test, not(alluvium_model_check)))]
extern crate self as alluvium;

mod batch;
mod caps;
mod catalog;
mod changes;
mod check;
mod db;
mod engine;
mod error;
#[doc(hidden)]
pub mod format;
mod iter;
pub mod keys;
mod keyspace;
mod machine;
mod manifest;
mod options;
mod place;
mod progress;
mod reads;
mod repair;
mod restore;
mod snapshot;
mod stats;
mod structure;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod value;
mod worker;

pub use alluvium_base::Purpose;
pub use alluvium_device::Counts as DeviceCounts;
pub use alluvium_dictionary::merge::{
    BadOperand, Candidate, CompactionFilter, Operator as MergeOperator, Verdict,
};
pub use alluvium_dictionary::range::KeyRange;
pub use alluvium_trees::tiered::{
    Outline, OutlineBundle, OutlineLayer, OutlineNode, OutlinePivot, OutlineRun, Underway,
};
pub use batch::{MAX_KEY, MAX_VALUE, WriteBatch};
pub use caps::Background;
pub use changes::{Change, ChangeSet, Changes};
pub use check::{CheckReport, CheckedStructure};
pub use db::{Db, MAX_NAME};
pub use engine::MemoryUse;
pub use engine::RecordStats;
pub use error::{Error, Result};
pub use iter::Iter;
pub use keyspace::{Compression, Ingest, Keyspace, KeyspaceOptions};
#[doc(hidden)]
pub use options::Scale;
pub use options::{Durability, MIN_MEMORY, Options};
pub use progress::{Progress, Stage};
pub use reads::{Get, MultiGet, Reads};
pub use repair::{RepairReport, repair};
pub use restore::restore;
pub use snapshot::Snapshot;
pub use stats::{
    Delays, DiskSpace, Distribution, Distributions, Figure, Latencies, Latency, Nature, Operations, Stats,
    Unit,
};
pub use value::Value;

/// The program of the README, compiled by its tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
