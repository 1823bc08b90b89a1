//! Transaction benchmarks: commits per second, latencies and retries.
//!
//! *Scope*: the interface of an engine with transactions; transactions with a single put; the two
//! tests of the GTSSL thesis (Spillane 2012, section 5.4.4); counters that many clients increment.
//!
//! *Must not depend on*: how engines isolate transactions; how figures are displayed.
//!
//! Invariants:
//!
//! - **T1** Corresponding clients execute the same transactions on every engine, derived from the
//!   seed, the phase and the client's number.
//! - **T2** A phase that increments counters fails unless the sum of all counters equals the number
//!   of committed increments, so no update is lost and none is applied twice.
//! - **T3** At the end of a phase, the last writes of each client are read and compared with the
//!   expected values.
//! - **T4** A transaction that has a conflict is retried with the same keys until it commits. Its
//!   latency is measured from the first attempt. The pauses between attempts are the same for all
//!   engines.

pub mod adapter_test;
mod alluvium;
mod child;
pub mod engine;
mod job;
pub mod phase;
mod plan;
mod worker;

pub use alluvium::OWN;
pub use child::{child, run_job};
pub use job::TransactionJob;
pub use plan::{TransactionPlan, run};
