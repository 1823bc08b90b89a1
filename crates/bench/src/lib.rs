//! Workloads, accounting and reports: the library of `alluvium bench` and `alluvium-rivals`.
//!
//! *Scope*: YCSB's workloads and the sweeps, driving engines with threads, the costs of a phase,
//! displaying and comparing figures, capping a process's memory.
//!
//! *Must not depend on*: how engines work. Engines other than Alluvium are in the crate `rivals`,
//! and run in a separate process.
//!
//! Invariants:
//!
//! - **B1** Every engine gets the same operations: all of them are derived from the seed, the phase
//!   and the thread number.
//! - **B2** A read that misses an existing record, or returns a wrong value, fails the run.
//! - **B3** Every engine and repetition has its own process, so that memory and counters are those
//!   of one engine only.
//! - **B4** Latency is measured from the intended start of an operation: with a given rate that is
//!   the scheduled time, not the time at which the thread became free.
//! - **B5** Control groups are removed however a run ends.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

/// Used by tests to report that they cannot run in this environment.
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
