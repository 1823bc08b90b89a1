//! Ordered dictionaries.
//!
//! *Knows*: how records in key order are kept on a device, and which runs may hold a key.
//!
//! *Does not know*: transactions, threads, clocks; who assigned a sequence number.
//!
//! *Read in this order*: the crate `alluvium-dictionary` first, then [`run`], [`maplet`],
//! `taking.rs` (a memtable becomes a run), `fuse.rs` (runs become one), `stitch` (leaves that are
//! taken over unread), `mended.rs` (what a repair of leaves came to),
//! `merge_memory.rs` (what a merge takes while it is under way), `layers`, `scanning`,
//! [`tiered`], [`levels`]; [`map`], the least of them; [`paged`], trees whose pages are written in
//! place; [`whereabouts`], which runs lie on which tier.
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
