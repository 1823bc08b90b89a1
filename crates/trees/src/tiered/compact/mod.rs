//! Compaction: what is due is done outside of the trunk, a slice at a time, and handed in.
//!
//! *Knows*: which job is done next; how a stretch of a stack becomes one run with its maplet; which
//! leaf is worth compacting when no write asks for it.
//!
//! *Does not know*: who polls a job, and on which thread; lookups and scans, but for the counts
//! that they leave.
//!
//! *Read in this order*: `job.rs`, `fuse.rs` (runs become one), `maintain.rs` (steps by their
//! priority, and full compactions).

mod fuse;
mod job;
pub(super) mod maintain;

pub use job::Job;
pub(super) use maintain::{Habits, longest_path};
pub use maintain::{Maintenance, Step};
