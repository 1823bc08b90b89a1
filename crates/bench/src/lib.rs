//! The library behind `alluvium bench` and `alluvium-rivals`: workloads, measurement of costs, and
//! reports.
//!
//! *Scope*: YCSB's workloads and parameter sweeps; driving engines with threads; measuring the
//! costs of a phase; displaying and comparing results; limiting the memory of a process.
//!
//! *Must not depend on*: how engines work. Engines other than Alluvium are in the crate `rivals`,
//! and run in a separate process.
//!
//! Invariants:
//!
//! - **B1** Every engine executes the same operations, which are derived from the seed, the phase
//!   and the thread's number.
//! - **B2** If a read misses an existing record or returns a wrong value, the run fails.
//! - **B3** Each repetition of each engine runs in a separate process, so its memory and counters
//!   do not include those of other engines.
//! - **B4** The latency of an operation is measured from its intended start. With a rate, this is
//!   the scheduled time rather than the time at which the thread was ready.
//! - **B5** Control groups are removed however a run ends.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

/// Reports that a test cannot run in the current environment.
pub use alluvium_device::skipped;

pub mod account;
pub mod adapter_test;
pub mod cgroup;
pub mod engine;
pub mod engines;
pub mod report;
pub mod run;
pub mod servers;
pub mod transactions;
pub mod workload;
