//! In-memory hash tables modelled on MICA (Lim 2015, chapter 5; Lim et al., NSDI 2014).
//!
//! The hash of a key determines its partition, its bucket in the partition, and its tag. A bucket
//! occupies two cache lines and contains the locations of its items. A lookup therefore costs two
//! cache misses, and a lookup in a burst costs hardly any (`pipeline.rs`).
//!
//! ```text
//!   mode      Erew · Crew · Crcw            who reads and writes
//!   kind      Lossy                         Lossless
//!   items     circular log                  segregated fits
//!   index     buckets that forget           chains of buckets
//!   full      evicts (policy.rs)            is an error
//! ```
//!
//! *Scope*: how items are laid out in memory; how they are located; which items a cache evicts; how
//! readers and writers synchronise.
//!
//! *Must not depend on*: clocks (time is a parameter), threads (handles determine who may do what),
//! what a value means.
//!
//! Invariants:
//!
//! - **M1** The partition, the bucket and the tag of a key are computed from disjoint bits of its
//!   hash.
//! - **M2** A lookup compares the complete key with that of the item that an entry refers to.
//! - **M3** An item in a log is valid only as long as its offset is too recent for it to have been
//!   overwritten. The tail advances before words are written.
//! - **M4** In shared modes, data that was read is valid only if two conditions hold once the last
//!   word has been copied: the bucket's version is even and unchanged, and the item has not been
//!   overwritten.
//! - **M5** No entry is older than a wraparound of the offsets, because sweeps clear entries before
//!   that.
//! - **M6** The writers of a partition exclude each other. A writer changes a bucket, or an item
//!   that the bucket refers to, only while the bucket's version is odd.
//! - **M7** A table in store mode contains every key that was set and not deleted. An attempt to
//!   set a key that fails changes nothing.
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
