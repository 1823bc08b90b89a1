//! Ordered dictionaries.
//!
//! *Knows*: how records in key order are stored on a device, and which runs may hold a key.
//!
//! *Does not know*: transactions, threads, clocks; the assignment of sequence numbers.
//!
//! *Read in this order*: the crate `alluvium-dictionary` first, then [`run`], [`maplet`],
//! `memtable_flush.rs` (writes a memtable as a run), `fuse.rs` (merges several runs into one),
//! `stitch` (leaves that a merge adopts without reading them), `repair_result.rs` (the result of a
//! repair of leaves), `merge_memory.rs` (the memory that a running merge uses), `ingest_layers`,
//! `segment_scan`, [`tiered`], [`levels`]; [`map`], the simplest dictionary; [`paged`], trees whose
//! pages are updated in place; [`run_locations`], the placement of runs on storage tiers.
//!
//! Invariants:
//!
//! - **K2** Nothing here spawns a thread or reads a clock.

mod fuse;
mod ingest_layers;
pub mod levels;
pub mod map;
pub mod maplet;
mod memtable_flush;
mod merge_memory;
pub mod paged;
mod repair_result;
pub mod run;
pub mod run_locations;
mod segment_scan;
mod stitch;
mod sync;
pub mod tiered;

pub use repair_result::RunRepairResult;
