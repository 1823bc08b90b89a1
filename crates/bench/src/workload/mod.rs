//! What engines are asked to do: records, distributions, mixes, phases, traces.
//!
//! *Knows*: YCSB's workloads as published, seeds.
//!
//! *Does not know*: engines, clocks, threads.
//!
//! *Read in this order*: `keys.rs`, `values.rs`, `zipf.rs`, `choose.rs` (which record), `mix.rs`
//! (what to do with it), `phase.rs` (how it is typed), `script.rs` (phases without pauses),
//! `ceiling.rs` (what a cache could do with it), `trace/`.

pub mod ceiling;
pub mod choose;
pub mod keys;
pub mod mix;
pub mod phase;
pub mod script;
pub mod trace;
pub mod values;
pub mod zipf;
