//! The measures of aging (Conway 2020, §4.3 and §4.4).
//!
//! *Scope*: what a tree costs to read, how its blocks lie on the device, and what the cost model
//! predicts from that.
//!
//! *Must not depend on*: workloads, and where the file system lies.

pub mod cold;
pub mod correlation;
pub mod events;
pub mod extents;
pub mod grep;
pub mod layout;
pub mod natural;
pub mod picture;
pub mod recorder;
pub mod score;
pub mod slowdown;
pub mod totals;

/// The block size of file systems in bytes, and the unit of layout scores.
pub const BLOCK_BYTES: u64 = 4096;
