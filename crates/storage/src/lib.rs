//! Turns devices into crash-safe, reference-counted, cached pages.
//!
//! *Knows*: superblocks and generations, extents and who refers to them, nodes and how they are
//! encoded, the cache, the log's mechanics, and in which order all of these reach the device.
//!
//! *Does not know*: keys, messages, trees, transactions; what a log record means.
//!
//! *Read in this order*: [`node`], [`extents`], [`superblock`], [`epoch`], [`memory`], [`cache`],
//! [`watermark`], [`log`], [`tiers`], [`store`]; beside them [`sort`] and [`limiter`].
//!
//! Invariants:
//!
//! - **S1** A block that the durable superblock reaches is never overwritten.
//! - **S2** Order of a checkpoint: data, sync, superblock, sync, and only then reuse of extents,
//!   hole punching and recycling of log.
//! - **S3** Every pointer verifies what it points to: a flipped, misdirected, stale or zeroed block
//!   is found when it is read.
//! - **S4** A freed extent is reused only once a later generation is durable and no guard or read
//!   in flight can reach its old content.
//! - **S5** A full disk is an error before anything is written or installed.
//! - **S6** After a failed write or sync the store refuses further changes until it is opened
//!   again; reads go on. A further tier that fails is passed over instead (T7).

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

pub use cache::{Cache, CacheStats, CopyStats, FrameRef, NodeRef, Pending, Residence, Watched};
pub use epoch::{Epochs, Guard, Hold};
pub use error::{DAMAGE_ADVICE, Error, Place, Result, Structure};
pub use log::{Durability, Log, LogOptions};
pub use node::{Codec, NodePointer, PageSize};
pub use tiers::{Directories, Tiers};

/// No sequence, generation or other number that only grows is as high: whatever says so is damaged.
/// So neither sums nor successors of what was read overflow.
pub const IMPOSSIBLE: u64 = 1 << 62;
