//! Ordered dictionaries: maps from keys to values that iterate in key order.
//!
//! *Scope*: how a dictionary stores records on a device in key order, and how it determines which
//! sorted runs may contain a given key.
//!
//! *Must not depend on*: transactions, threads, clocks; the assignment of sequence numbers.
//!
//! Invariants:
//!
//! - **K2** No code in this crate spawns a thread or reads a clock.

mod ingest_layers;
pub mod levels;
pub mod map;
pub mod maplet;
mod memtable_flush;
mod merge;
pub mod paged;
mod repair_result;
pub mod run;
pub mod run_locations;
mod segment_scan;
mod sync;
pub mod tiered;

pub use repair_result::RunRepairResult;
