//! Progress reports of long operations.

/// Progress of a long operation, reported between its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The stage that the byte counts refer to.
    pub stage: ProgressStage,
    /// Number of bytes processed in this stage.
    pub done_bytes: u64,
    /// Estimated total number of bytes in this stage.
    pub total_bytes: u64,
}

/// Stage of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgressStage {
    /// Data is being copied to another directory.
    Copying,
    /// Data is being read and verified.
    Checking,
}

impl Progress {
    pub(crate) fn new(stage: ProgressStage, done_bytes: u64, total_bytes: u64) -> Progress {
        Progress {
            stage,
            done_bytes,
            total_bytes,
        }
    }

    /// Returns the completed fraction of the stage, from 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        match self.total_bytes {
            0 => 1.0,
            total => (self.done_bytes as f64 / total as f64).min(1.0),
        }
    }
}
