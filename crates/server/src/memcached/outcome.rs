//! What became of a run of requests.

use crate::store::Reading;
use alluvium::MultiGet;

/// How much of a run holds whatever comes.
#[derive(Clone, Copy)]
pub(super) struct Done {
    pub(super) requests: usize,
    /// Where the replies to the rest begin.
    pub(super) position: usize,
}

impl Done {
    pub(super) fn at(requests: usize, position: usize) -> Done {
        Done { requests, position }
    }
}

/// How much of a run was executed.
pub(super) enum Executed {
    All,
    Part(usize),
    /// Nothing: it waits for what it asks for.
    Waits(Box<(MultiGet, Reading)>),
    /// Nothing: clients have no memory left for what it asks for.
    Full,
}

/// What became of a run.
pub(super) enum Ran {
    Whole,
    /// Only this number of requests of it: their replies are to be sent first.
    Part(usize),
    /// Nothing of it was done: it waits for what it asks for.
    Waits(Box<(MultiGet, Reading)>),
    /// Nothing of it was done: clients have no memory left for what it asks for.
    Full,
    /// The rest is to be done again with locks for whatever it asks for.
    WantsCare,
}
