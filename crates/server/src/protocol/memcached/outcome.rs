//! The outcome of a run of requests.

use crate::store::ReadReservation;
use alluvium::MultiGetFuture;

/// The part of a run whose results are final.
#[derive(Clone, Copy)]
pub(super) struct RunProgress {
    pub(super) requests: usize,
    /// Length of the output after the final replies.
    pub(super) position: usize,
}

impl RunProgress {
    pub(super) fn at(requests: usize, position: usize) -> RunProgress {
        RunProgress { requests, position }
    }
}

/// The progress of an execution.
pub(super) enum ExecutionProgress {
    All,
    Part(usize),
    /// Nothing was executed; the run waits for this read.
    Waits(Box<(MultiGetFuture, ReadReservation)>),
    /// Nothing was executed; the memory of clients is exhausted.
    Full,
}

/// The outcome of a run.
pub(super) enum RequestRunOutcome {
    Whole,
    /// Only this number of requests was executed. Their replies must be sent first.
    Part(usize),
    /// Nothing was executed; the run waits for this read.
    Waits(Box<(MultiGetFuture, ReadReservation)>),
    /// Nothing was executed; the memory of clients is exhausted.
    Full,
    /// The rest must be executed again, with locks for all its items.
    WantsCare,
}
