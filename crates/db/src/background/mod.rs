//! The background threads of an open store.
//!
//! *Scope*: the background threads of a store, and when each of them works or waits.
//!
//! *Must not depend on*: what a step of the engine does.
//!
//! The thread for asynchronous writes is in `write/async_commit.rs`.

pub(crate) mod reactor;
pub(crate) mod worker;
