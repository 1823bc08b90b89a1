//! The outcome of a run of requests.

use crate::store::ReadReservation;
use alluvium::MultiGetFuture;

/// The number of requests of a run whose replies are final, because their writes are committed.
#[derive(Clone, Copy)]
pub(super) struct RunProgress {
    pub(super) requests: usize,
    /// Length of the output buffer after the final replies.
    pub(super) position: usize,
}

impl RunProgress {
    pub(super) fn at(requests: usize, position: usize) -> RunProgress {
        RunProgress { requests, position }
    }
}

/// How much of a run was executed.
pub(super) enum ExecutionProgress {
    All,
    Part(usize),
    /// Nothing was executed, because the run must wait for this read.
    Waits(Box<(MultiGetFuture, ReadReservation)>),
    /// Nothing was executed, because the memory budget of the clients is exhausted.
    Full,
}

/// The outcome of an attempt to execute a run.
pub(super) enum RequestRunOutcome {
    Whole,
    /// Only this number of requests was executed, because their replies are long and must be sent
    /// first.
    Part(usize),
    /// Nothing was executed, because the run must wait for this read.
    Waits(Box<(MultiGetFuture, ReadReservation)>),
    /// Nothing was executed, because the memory budget of the clients is exhausted.
    Full,
    /// The remaining requests must be executed again while the locks of all their items are held.
    WantsCare,
}
