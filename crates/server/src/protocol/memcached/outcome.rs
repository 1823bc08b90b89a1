//! The outcome of a run of requests.

use crate::store::ReadReservation;
use alluvium::MultiGetFuture;

/// The number of a run's requests whose replies are final because their writes are committed.
#[derive(Clone, Copy)]
pub(super) struct RunProgress {
    pub(super) requests: usize,
    /// Length of the output buffer after these replies.
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
    /// Nothing was executed, because the clients' memory budget is exhausted.
    Full,
}

/// The outcome of an attempt to execute a run.
pub(super) enum RequestRunOutcome {
    Whole,
    /// Only this number of requests was executed, because their long replies must be sent first.
    Part(usize),
    /// Nothing was executed, because the run must wait for this read.
    Waits(Box<(MultiGetFuture, ReadReservation)>),
    /// Nothing was executed, because the clients' memory budget is exhausted.
    Full,
    /// The remaining requests must run again under the locks of all their items.
    WantsCare,
}
