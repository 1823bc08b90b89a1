//! Experiments of Conway's thesis (2020): chapter 2, hashing in external memory; chapter 3,
//! SplinterDB; chapter 4, the aging of file systems; chapter 5, ball recycling.
//!
//! The text that the figures here come from omits the heights of bars and curves; the register has
//! only values that the document states in words and numbers. Names: S1 to S9 are the figures of
//! section 3.7 in their order; T2 to T5 are theorems, and H1 is one of these in a store; Q1 covers
//! the claims about filters in section 3.6.3; A0 is the natural transfer size of section 4.2, and
//! A1 to A7 are the workloads of sections 4.5 to 4.8; B1 to B6 are figures of chapter 5; B7 and B8
//! repeat the first of them on third-party systems.

mod aging;
mod insert_plan;
mod insertion_buffer;
mod peers;
mod q1_filters;
mod recycling;
mod s1_ycsb;
mod s2_large_values;
mod s3_amplification;
mod s4_memory;
mod s5_order;
mod s6_order_amplification;
mod s7_reading_threads;
mod s8_loading_threads;
mod s9_scans;
mod theorems;
mod transfer_counts;
mod tree_bundle;

pub use insert_plan::InsertPlan;

use super::entry::MeasurementProcedure;
use super::plan::{ExperimentScale, ThreadCount};
use super::seed_4::devices::NATURAL_TRANSFER;

/// All procedures of this document.
pub(super) const PROCEDURES: [&MeasurementProcedure; 31] = [
    &NATURAL_TRANSFER,
    &aging::A1,
    &aging::A2,
    &aging::A3,
    &aging::A4,
    &aging::A5,
    &aging::A6,
    &aging::A7,
    &theorems::T2,
    &theorems::T3,
    &theorems::T4,
    &theorems::T5,
    &tree_bundle::H1,
    &q1_filters::PROCEDURE,
    &insertion_buffer::B1,
    &recycling::B2,
    &insertion_buffer::B3,
    &recycling::B4,
    &insertion_buffer::B5,
    &recycling::B6,
    &peers::B7,
    &peers::B8,
    &s1_ycsb::PROCEDURE,
    &s2_large_values::PROCEDURE,
    &s3_amplification::PROCEDURE,
    &s4_memory::PROCEDURE,
    &s5_order::PROCEDURE,
    &s6_order_amplification::PROCEDURE,
    &s7_reading_threads::PROCEDURE,
    &s8_loading_threads::PROCEDURE,
    &s9_scans::PROCEDURE,
];

/// Small enough to finish within seconds.
const QUICK: ExperimentScale = ExperimentScale {
    records: 1_000_000,
    value_bytes: 100,
    threads: ThreadCount::Processors,
    cap: 64 << 20,
    warm_ms: 500,
    run_ms: 1000,
    settle_ms: 5000,
};

/// A tenth of the document's records and of its memory.
const FULL: ExperimentScale = ExperimentScale {
    records: 67_300_000,
    value_bytes: 100,
    threads: ThreadCount::Processors,
    cap: 400 << 20,
    warm_ms: 60_000,
    run_ms: 60_000,
    settle_ms: 120_000,
};

/// For loads by one thread: 4 GiB, a fifth of the document's 20 GiB.
const FULL_ORDER: ExperimentScale = ExperimentScale {
    records: 34_600_000,
    threads: ThreadCount::One,
    ..FULL
};

/// The quick size of the same loads.
const QUICK_ORDER: ExperimentScale = ExperimentScale {
    threads: ThreadCount::One,
    ..QUICK
};
