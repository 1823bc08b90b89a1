//! Compaction: runs outside of the trunk, in slices, and hands in its result.
//!
//! *Knows*: the order of jobs; how part of a stack becomes one run with its maplet; which leaf is
//! worth compacting without a write that triggers it.
//!
//! *Does not know*: the threads that poll jobs; lookups and scans, except for their usage counts.
//!
//! *Read in this order*: `compactor.rs` (selects the next step), `job.rs` (one compaction),
//! `merging.rs` (its merge), `maintain.rs` (full compactions). `crates/trees/src/fuse.rs` merges
//! runs into one, and `crates/trees/src/stitch` adopts leaves.

mod compactor;
mod job;
mod maintain;
mod merging;

pub(super) use compactor::Compactor;
pub use compactor::TreeStep;
pub use job::CompactionJob;
pub use maintain::MaintenanceLimits;
