//! Runs benchmarks. A runner starts a child process for each repetition of each engine. The child
//! opens the engine, runs the phases and reports their costs.
//!
//! *Scope*: jobs, threads, measurement windows and schedules; child processes and their messages.
//!
//! *Must not depend on*: engines beyond their contract; how figures are displayed.

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
