//! Parts that long-running jobs share: display of progress, interruption, and sorting with several
//! threads.
//!
//! *Scope*: progress bars, Ctrl-C, threads that sort.
//!
//! *Must not depend on*: what a job does.

pub(crate) mod progress;
pub(crate) mod sorting;
pub(crate) mod stop;
