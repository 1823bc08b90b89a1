//! Compaction: runs outside of the trunk, in slices, and hands in its result.
//!
//! *Scope*: the order of jobs; how part of a stack becomes one run with its maplet; which leaf is
//! worth compacting without a write that triggers it.
//!
//! *Must not depend on*: the threads that poll jobs; lookups and scans, except for their usage
//! counts.

mod compactor;
mod job;
mod maintain;
mod merging;

pub(super) use compactor::Compactor;
pub use compactor::TreeStep;
pub use job::CompactionJob;
pub use maintain::MaintenanceLimits;
