//! Workloads that age a file system (Conway 2020, §4.5 to §4.8).
//!
//! *Scope*: which files are written, changed and removed at each step.
//!
//! *Must not depend on*: the file system, measures, and the order in which steps are measured.

pub mod checksum;
pub mod git;
pub mod history;
pub mod interfile;
pub mod intrafile;
pub mod mail;
pub mod text;

use crate::{Result, StopRequest};
use std::fmt::Debug;
use std::path::Path;

/// Whether a step adds to the tree of the step before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepRelation {
    /// Each step changes the tree of the previous step.
    Cumulative,
    /// Each step makes its tree in an empty file system.
    Independent,
}

/// A workload. The same parameters and seed make the same tree at each step (AG3).
pub trait AgingWorkload: Debug {
    /// Returns the relation between steps.
    fn relation(&self) -> StepRelation;

    /// Performs a step in the file system at `root`. Steps of a cumulative workload are performed
    /// or skipped in order, from 0, which makes the first tree.
    ///
    /// # Errors
    /// I/O errors. A request to stop is an error only for independent steps: cumulative ones are
    /// completed, so that the run can continue after them.
    fn perform(&mut self, root: &Path, step: u64, stop: StopRequest<'_>) -> Result<()>;

    /// Brings the workload behind a step that an earlier process performed, without any I/O on the
    /// file system.
    fn skip(&mut self, step: u64);
}
