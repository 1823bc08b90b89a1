//! How far a long job has come.

/// What a long job says of itself between two of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What it is doing.
    pub stage: Stage,
    /// Bytes that this stage has done.
    pub done_bytes: u64,
    /// Bytes that it has to do in all, as far as is known.
    pub total_bytes: u64,
}

/// A part of a long job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// The data goes into another directory.
    Copying,
    /// The data is read and compared with what it should be.
    Checking,
}

impl Progress {
    pub(crate) fn new(stage: Stage, done_bytes: u64, total_bytes: u64) -> Progress {
        Progress {
            stage,
            done_bytes,
            total_bytes,
        }
    }

    /// Returns how much of the stage is done, from 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        match self.total_bytes {
            0 => 1.0,
            total => (self.done_bytes as f64 / total as f64).min(1.0),
        }
    }
}
