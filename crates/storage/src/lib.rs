//! The storage layer, which builds crash-safe, reference-counted and cached pages on top of
//! devices.
//!
//! *Scope*: superblocks and generations, extents and their reference counts, node encoding, the
//! cache, the mechanics of the log, and the order in which all of these reach the device.
//!
//! *Must not depend on*: keys, messages, trees, transactions; the meaning of a log record.
//!
//! Invariants:
//!
//! - **S1** A block reachable from the durable superblock is never overwritten.
//! - **S2** A checkpoint writes and syncs the data, and then the superblock. Only then may extents
//!   be reused, holes be punched and log segments be recycled.
//! - **S3** Every pointer verifies the block it points to. A corrupted, misdirected, stale or
//!   zeroed block is detected when it is read.
//! - **S4** A freed extent is reused only once a later generation is durable and no guard or read
//!   in flight can still reach the extent's old content.
//! - **S5** A full disk is reported before anything is written or installed.
//! - **S6** After a failed write or sync, the store refuses further changes until it is reopened,
//!   but reads continue. The failure of any tier but the first does not stop the store: it goes on
//!   without the failed tier (T7).

pub mod cache;
pub mod epoch;
pub mod error;
pub mod extents;
pub mod limiter;
pub mod log;
pub mod memory;
pub mod node;
pub mod sort;
pub mod store;
pub mod superblock;
mod sync;
pub mod tiers;
pub mod watermark;

pub use cache::{
    CacheRetention, CacheStats, CopyStats, FrameRef, NodeCache, NodeRef, PendingReads, WatchedRead,
};
pub use epoch::{EpochGuard, EpochHold, Epochs};
pub use error::{DAMAGE_ADVICE, DiskLocation, Error, OnDiskObject, Result};
pub use log::{LogDurability, LogOptions, WriteAheadLog};
pub use node::{NodeCodec, NodePointer, PageSize};
pub use tiers::{TierDirectories, TierFiles};

/// Upper bound for sequence numbers, generations and other counters that only increase. A stored
/// value above it counts as corruption, so sums and successors of values read from disk cannot
/// overflow.
pub const IMPOSSIBLE: u64 = 1 << 62;
