//! Compaction: what is due is done outside of the trunk, a slice at a time, and handed in.
//!
//! *Knows*: which job is done next; how a stretch of a stack becomes one run with its maplet; which
//! leaf is worth compacting when no write asks for it.
//!
//! *Does not know*: who polls a job, and on which thread; lookups and scans, but for the counts
//! that they leave.
//!
//! *Read in this order*: `compactor.rs` (which step is next), `job.rs` (one compaction),
//! `merging.rs` (its merge), `maintain.rs` (full compactions); how runs become one is in
//! `crates/trees/src/fuse.rs`, how leaves are taken over in `crates/trees/src/stitch`.

mod compactor;
mod job;
mod maintain;
mod merging;

pub(super) use compactor::Compactor;
pub use compactor::Step;
pub use job::Job;
pub use maintain::Maintenance;
