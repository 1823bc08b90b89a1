//! Hash tables in memory, after MICA (Lim 2015, chapter 5; Lim et al., NSDI 2014).
//!
//! A key's hash tells its partition, its bucket there and its tag. A bucket of two lines leads to
//! the item: so a lookup waits for memory twice, and in a burst not even that (`pipeline.rs`).
//!
//! ```text
//!   mode      Erew · Crew · Crcw            who reads and writes
//!   kind      Lossy                         Lossless
//!   items     circular log                  segregated fits
//!   index     buckets that forget           chains of buckets
//!   full      evicts (policy.rs)            is an error
//! ```
//!
//! *Knows*: how items lie in memory and are found, what a cache evicts, how readers meet writers.
//!
//! *Does not know*: clocks (time is a parameter), threads (handles say which may do what), what a
//! value means.
//!
//! *Read in this order*: [`Cache`] and `handle.rs`, the ways in; `bucket.rs`, `item.rs`; `log.rs`,
//! `lossy.rs`, `policy.rs`, `evict.rs`, `sweep.rs`, `content.rs`;
//! `heap.rs`, `chain.rs`, `lossless.rs`; `core.rs`
//! for readers beside writers, `model_check.rs` for what is checked of that; `memory.rs`, which has
//! all that is `unsafe` but a few lines; `ring.rs`, by which requests reach another thread.
//!
//! Invariants:
//!
//! - **M1** Partition, bucket and tag of a key come from slices of its hash that do not overlap.
//! - **M2** A lookup compares the whole key of the item that an entry leads to.
//! - **M3** An item in a log is read only while its offset is held: nothing has been written over
//!   it. The tail is raised before words are.
//! - **M4** In shared modes, what was read counts only if, after the last word was copied, the
//!   bucket's version is even and the same, and the offset still held.
//! - **M5** No entry outlives a turn of the offsets: sweeps clear it before.
//! - **M6** Writers of a partition exclude each other; a writer changes a bucket, or an item that
//!   it leads to, only while the bucket's version is odd.
//! - **M7** A table in store mode has every key that was set and not deleted, or the set failed and
//!   changed nothing.
//!
//! `ring.rs` has M8.

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
pub use content::Content;
pub use core::Core;
pub use error::{Error, Result};
pub use handle::{Exclusive, Reader, Request, Response, Shared, Writer};
pub use item::{MAX_KEY_BYTES, MAX_VALUE_BYTES, NEVER};
pub use key::HashedKey;
pub use lossless::{Lossless, LosslessOptions};
pub use lossy::{Lossy, LossyOptions};
pub use policy::Eviction;
pub use ring::{Answerer, Asker, Frame, ring};
pub use stats::Stats;
