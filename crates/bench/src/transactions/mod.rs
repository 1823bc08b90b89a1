//! Transactions: commits per second, latency, and number of retries.
//!
//! *Scope*: the contract of an engine with transactions, single commits, the two tests of the GTSSL
//! thesis (Spillane 2012, section 5.4.4), counters incremented by many clients.
//!
//! *Must not depend on*: how engines isolate transactions; how figures are displayed.
//!
//! Invariants:
//!
//! - **T1** Every client of every engine draws the same transactions: they are derived from the
//!   seed, the phase and the client number.
//! - **T2** A phase that increments counters fails unless the sum of all counters equals the number
//!   of committed increments: no update is lost, and none is counted twice.
//! - **T3** The last writes of each client are read back and compared at the end of a phase.
//! - **T4** A transaction with a conflict is retried with the same keys until it commits. Its
//!   latency is measured from the first attempt; the pauses between attempts are the same for all
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
