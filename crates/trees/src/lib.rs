//! Ordered dictionaries.
//!
//! *Scope*: how records in key order are stored on a device, and which runs may hold a key.
//!
//! *Must not depend on*: transactions, threads, clocks; the assignment of sequence numbers.
//!
//! Invariants:
//!
//! - **K2** Nothing here spawns a thread or reads a clock.

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
