//! Transactions of the engines that have them, one adapter each; that of RocksDB is beside its
//! other one.
//!
//! *Knows*: how each engine's transactions are opened, set up as its documentation recommends, and
//! run; what of its errors is a conflict.
//!
//! *Does not know*: workloads, when a transaction is run again.
//!
//! *Read in this order*: any.
//!
//! Invariants:
//!
//! - **V3** A commit that is to survive the loss of power has been synced when it returns.
//! - **V4** Whatever others have done meanwhile is a conflict, and nothing has taken effect then;
//!   all other errors end the run.

#[cfg(feature = "fjall")]
pub(crate) mod fjall;
#[cfg(feature = "redb")]
pub(crate) mod redb;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

/// The share of the memory that caches have, in hundredths.
#[cfg(any(feature = "fjall", feature = "redb", feature = "sqlite"))]
const CACHE_PERCENT: u64 = 50;

#[cfg(any(feature = "fjall", feature = "redb"))]
const MIB: u64 = 1 << 20;

/// Returns settings as they are reported.
pub(crate) fn settings<const N: usize>(settings: [(&str, String); N]) -> Vec<(String, String)> {
    settings
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
