//! Compaction. A compaction merges in slices without the trunk's lock, and then installs its result
//! in the trunk.
//!
//! *Scope*: the order in which jobs run; how part of a stack is merged into one run with its
//! maplet; which leaves are worth compacting although no write triggers it.
//!
//! *Must not depend on*: the threads that poll jobs; lookups and scans, except for their usage
//! counts.

mod compactor;
mod job;
mod maintain;
mod merging;
mod scattered;

pub(super) use compactor::Compactor;
pub use compactor::TreeStep;
pub use job::CompactionJob;
pub use maintain::MaintenanceLimits;
