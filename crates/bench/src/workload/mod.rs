//! Workloads: records, distributions, mixes, phases, traces.
//!
//! *Knows*: YCSB's workloads as published, seeds.
//!
//! *Does not know*: engines, clocks, threads.
//!
//! *Read in this order*: `keys.rs`, `values.rs`, `zipf.rs`, `choose.rs` (the record), `mix.rs` (the
//! operation), `phase.rs` (textual phases), `script.rs` (phases without pauses), `ceiling.rs`
//! (upper bounds for caches), `trace/`.

pub mod ceiling;
pub mod choose;
pub mod keys;
pub mod mix;
pub mod phase;
pub mod script;
pub mod trace;
pub mod values;
pub mod zipf;
