//! The background threads of an open store.
//!
//! *Scope*: which background threads a store has, and when each of these threads works or waits.
//!
//! *Must not depend on*: what a step of the engine does.
//!
//! The thread for asynchronous writes is in `write/async_commit.rs`.

pub(crate) mod reactor;
pub(crate) mod worker;
