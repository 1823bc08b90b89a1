//! In-memory hash tables after MICA (Lim 2015, chapter 5; Lim et al., NSDI 2014).
//!
//! A key's hash determines its partition, its bucket in the partition, and its tag. A bucket of two
//! cache lines leads to the item, so a lookup has two cache misses, and in a burst hardly any
//! (`pipeline.rs`).
//!
//! ```text
//!   mode      Erew · Crew · Crcw            who reads and writes
//!   kind      Lossy                         Lossless
//!   items     circular log                  segregated fits
//!   index     buckets that forget           chains of buckets
//!   full      evicts (policy.rs)            is an error
//! ```
//!
//! *Scope*: the layout of items in memory, how they are located, what a cache evicts, how readers
//! and writers synchronise.
//!
//! *Must not depend on*: clocks (time is a parameter), threads (handles determine who may do what),
//! the meaning of a value.
//!
//! Invariants:
//!
//! - **M1** Partition, bucket and tag of a key come from disjoint slices of its hash.
//! - **M2** A lookup compares the whole key of the item that an entry leads to.
//! - **M3** An item in a log is read only while its offset is held, that is, not overwritten. The
//!   tail is advanced before words are written.
//! - **M4** In shared modes, data that was read is valid only if, after the last word was copied,
//!   the bucket's version is even and unchanged, and the offset is still held.
//! - **M5** No entry survives a wraparound of the offsets, because sweeps clear it before.
//! - **M6** Writers of a partition exclude each other. A writer changes a bucket, or an item that
//!   the bucket leads to, only while the bucket's version is odd.
//! - **M7** A table in store mode contains every key that was set and not deleted, unless the set
//!   failed and changed nothing.
//!
//! M8 is in `ring.rs`.

mod bucket;
mod cache;
mod chain;
mod content;
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
mod ring;
mod stats;
mod sweep;
mod sync;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

pub use bucket::partition;
pub use cache::{Cache, CacheOptions};
pub use content::CacheUsage;
pub use core::TableCore;
pub use error::{Error, Result};
pub use handle::{BurstRequest, BurstResponse, ExclusiveTable, SharedTable, TableReader, TableWriter};
pub use item::{MAX_KEY_BYTES, MAX_VALUE_BYTES, NEVER};
pub use key::HashedKey;
pub use lossless::{LosslessOptions, LosslessTable};
pub use lossy::{LossyOptions, LossyTable};
pub use policy::CacheEviction;
pub use ring::{RingFrame, RingRequester, RingResponder, ring};
pub use stats::TableStats;
