//! Hash tables in memory, after MICA.
//!
//! *Knows*: partitions of items by slices of a hash; a circular log with a lossy index; who may
//! read and write at once.
//!
//! *Does not know*: clocks, threads; what a value means.
//!
//! *Read in this order*: [`mode`], `item.rs`, `bucket.rs`, `log.rs`, `memory.rs`.
//!
//! Invariants:
//!
//! - **M1** Partition, bucket and tag of a key come from slices of its hash that do not
//!   overlap.
//! - **M2** An entry of the index leads to an item whose key was compared, or the lookup goes
//!   on.
//! - **M3** An item is read only if nothing has been written over it: its offset is held.
//! - **M4** In shared modes, what was read counts only if the bucket's version is even and the
//!   same, and the offset still held, after the last word was copied.

mod bucket;
mod cache;
mod chain;
mod core;
mod error;
mod evict;
mod handle;
mod heap;
mod item;
mod key;
mod log;
mod lossless;
mod lossy;
mod many;
mod memory;
pub mod mode;
#[cfg(all(test, alluvium_model_check))]
mod model_check;
mod pipeline;
mod policy;
mod stats;
mod sweep;
mod sync;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub use bucket::partition;
pub use cache::{Cache, CacheOptions};
pub use core::Core;
pub use error::{Error, Result};
pub use handle::{Exclusive, Reader, Request, Response, Shared, Writer};
pub use item::{MAX_KEY_BYTES, MAX_VALUE_BYTES, NEVER};
pub use key::HashedKey;
pub use lossless::{Lossless, LosslessOptions};
pub use lossy::{Lossy, LossyOptions};
pub use policy::Eviction;
pub use stats::Stats;
