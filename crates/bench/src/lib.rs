//! Workloads, accounting and reports: what `alluvium bench` and `alluvium-rivals` are made of.
//!
//! *Knows*: YCSB's workloads and the sweeps, how an engine is driven by threads, what a phase cost,
//! how figures are shown and compared, how a process is kept within a cap of memory.
//!
//! *Does not know*: how engines work. What is not Alluvium comes from the crate `rivals`, in a
//! process of its own.
//!
//! *Read in this order*: `engine.rs` (what is measured), `workload/` (keys, values, distributions,
//! phases), `run/` (jobs, threads, windows; the runner and its children), `account/` (what it
//! cost), `cgroup.rs`, `report/`; `transactions/` (how many are committed a second); `servers/`
//! (Redis and memcached beside the server); `engines/` are those that are at hand here, `prove.rs`
//! is what adapters are tested with.
//!
//! Invariants:
//!
//! - **B1** Every engine gets the same operations: all of them follow from the seed, the phase and
//!   the number of the thread.
//! - **B2** A read that finds nothing where something was written, or something else, fails the
//!   run.
//! - **B3** Every engine and repetition has a process of its own, so that memory and counters are
//!   those of one engine alone.
//! - **B4** A latency is counted from when the operation was meant to begin: at a given rate that
//!   is the schedule, and not when the thread had time.
//! - **B5** Whatever ends a run, its control groups are removed.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

/// Tests note by it that they cannot run where they are.
pub use alluvium_device::skipped;

pub mod account;
pub mod cgroup;
pub mod engine;
pub mod engines;
pub mod prove;
pub mod report;
pub mod run;
pub mod servers;
pub mod transactions;
pub mod workload;
