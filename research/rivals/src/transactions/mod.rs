//! Adapters to the transactions of engines that have them. The one for RocksDB is in
//! `rocksdb/transactions.rs`.
//!
//! *Scope*: how each engine's transactions are opened, configured as its documentation recommends,
//! and run; which of its errors are conflicts.
//!
//! *Must not depend on*: workloads, when a transaction is retried.
//!
//! Invariants:
//!
//! - **V3** A commit that must survive a power loss is synced before it returns.
//! - **V4** An error caused by concurrent transactions is reported as a conflict, and the
//!   transaction has no effect; all other errors end the run.

#[cfg(feature = "fjall")]
pub(crate) mod fjall;
#[cfg(feature = "redb")]
pub(crate) mod redb;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

/// Share of the memory used by caches, in percent.
#[cfg(any(feature = "fjall", feature = "redb", feature = "sqlite"))]
const CACHE_PERCENT: u64 = 50;

#[cfg(any(feature = "fjall", feature = "redb"))]
const MIB: u64 = 1 << 20;

/// Returns settings in the form in which they are reported.
pub(crate) fn settings<const N: usize>(settings: [(&str, String); N]) -> Vec<(String, String)> {
    settings
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
