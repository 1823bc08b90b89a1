//! What long jobs share: their progress, their interruption, sorting with several threads.
//!
//! *Knows*: progress bars, Ctrl-C, threads that sort.
//!
//! *Does not know*: what a job does.
//!
//! *Read in this order*: `stop.rs`, `progress.rs`, `sorting.rs`.

pub(crate) mod progress;
pub(crate) mod sorting;
pub(crate) mod stop;
