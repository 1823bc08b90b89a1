//! Ordered dictionaries.
//!
//! *Knows*: how records in key order are stored on a device, and which runs may hold a key.
//!
//! *Does not know*: transactions, threads, clocks; the assignment of sequence numbers.
//!
//! *Read in this order*: the crate `alluvium-dictionary` first, then [`run`], [`maplet`],
//! `taking.rs` (writes a memtable as a run), `fuse.rs` (merges several runs into one), `stitch`
//! (leaves that a merge adopts without reading them), `mended.rs` (the result of a repair of
//! leaves), `merge_memory.rs` (the memory that a running merge uses), `layers`, `scanning`,
//! [`tiered`], [`levels`]; [`map`], the simplest dictionary; [`paged`], trees whose pages are
//! updated in place; [`whereabouts`], the placement of runs on storage tiers.
//!
//! Invariants:
//!
//! - **K2** Nothing here spawns a thread or reads a clock.

mod fuse;
mod layers;
pub mod levels;
pub mod map;
pub mod maplet;
mod mended;
mod merge_memory;
pub mod paged;
pub mod run;
mod scanning;
mod stitch;
mod sync;
mod taking;
pub mod tiered;
pub mod whereabouts;

pub use mended::Mended;
