//! Threads of an open store.
//!
//! *Knows*: which threads a store has, and when each of them works or waits.
//!
//! *Does not know*: what a step of the engine does.
//!
//! *Read in this order*: `worker.rs` (flushes, compactions, checkpoints), `reactor.rs` (arrivals of
//! asynchronous reads).
//!
//! The thread for asynchronous writes is in `write/async_commit.rs`.

pub(crate) mod reactor;
pub(crate) mod worker;
