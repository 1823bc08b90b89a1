//! Running: a runner starts a child for every engine and repetition; the child opens the engine,
//! does the phases and says what they cost.
//!
//! *Knows*: jobs, threads, windows, schedules; processes and what they say to each other.
//!
//! *Does not know*: engines beyond their contract; how figures are shown.
//!
//! *Read in this order*: `job.rs` (what is said), `worker.rs` (one thread), `pass.rs` (all threads
//! over one window), `child.rs` (one engine), `runner.rs` (all of them), `copy.rs` (files that are
//! loaded once), `records.rs` (which records there are while some are put), `deletion.rs` (which
//! are deleted), `sweep.rs` (a job, and one thing in it that changes from point to point).

mod child;
mod copy;
mod deletion;
mod job;
mod pass;
mod records;
mod runner;
pub mod sweep;
mod worker;

pub(crate) use child::answer;
pub use child::{child, end_with_parent, run_job};
pub use job::{Event, Flow, Groups, Job, Row};
pub(crate) use pass::{Pass, Steps};
pub use runner::{Cap, Failure, Files, Listener, Loads, Orders, Outcome, Runner, run, try_options};
pub(crate) use runner::{Errand, Turns, each};
