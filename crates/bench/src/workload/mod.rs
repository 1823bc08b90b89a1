//! Definitions of workloads: records, distributions, operation mixes, phases and traces.
//!
//! *Scope*: YCSB's workloads as published, and the seeds of their random choices.
//!
//! *Must not depend on*: engines, clocks, threads.

pub mod ceiling;
pub mod choose;
pub mod keys;
pub mod mix;
pub mod phase;
pub mod script;
pub mod trace;
pub mod values;
pub mod zipf;
