//! Running: a runner starts a child for every engine and repetition; the child opens the engine,
//! runs the phases and reports their costs.
//!
//! *Knows*: jobs, threads, windows, schedules; processes and their messages.
//!
//! *Does not know*: engines beyond their contract; how figures are displayed.
//!
//! *Read in this order*: `job.rs` (messages), `worker.rs` (one thread), `measurement_window.rs`
//! (all threads for one window), `child.rs` (one engine), `runner.rs` (all engines), `copy.rs`
//! (files that are loaded once), `records.rs` (existing records during inserts), `deletion.rs`
//! (deleted records), `sweep.rs` (a job with one parameter that varies by point).

mod child;
mod copy;
mod deletion;
mod job;
mod measurement_window;
mod records;
mod runner;
pub mod sweep;
mod worker;

pub(crate) use child::answer;
pub use child::{child, end_with_parent, run_job};
pub use job::{ChildEvent, EngineJob, GroupPaths, PhaseFlow, ResultRow};
pub(crate) use measurement_window::{MeasurementWindow, OperationStepper};
pub use runner::{
    BenchOutcome, BenchRunner, CapMethod, FileRetention, LoadFrequency, RepetitionFailure, RunListener,
    RunPlan, run, try_options,
};
pub(crate) use runner::{ChildTask, EngineOrder, each};
