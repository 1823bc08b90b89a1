//! Experiments of Conway's thesis (2020): chapter 2, hashing in external memory; chapter 3,
//! SplinterDB; chapter 5, ball recycling.
//!
//! The heights of bars and curves are not in the text that the figures here are taken from; what is
//! here is what the document says in words and numbers. Names: S1 to S9 are the figures of section
//! 3.7 in their order, T2 to T5 theorems, H1 one of these in a store, Q1 is what section 3.6.3 says
//! of filters, A0 the natural transfer size of section 4.2, B1 to B6 are figures of chapter 5, B7
//! and B8 the first of them on systems of others.

mod buffered;
mod counted;
mod hosted;
mod inserts;
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

pub use inserts::Inserts;

use super::entry::Experiment;
use super::plan::{Scale, Threads};
use super::seed_4::devices::NATURAL_TRANSFER;

/// All of them.
pub(super) const EXPERIMENTS: [&Experiment; 24] = [
    &NATURAL_TRANSFER,
    &theorems::T2,
    &theorems::T3,
    &theorems::T4,
    &theorems::T5,
    &hosted::H1,
    &q1_filters::EXPERIMENT,
    &buffered::B1,
    &recycling::B2,
    &buffered::B3,
    &recycling::B4,
    &buffered::B5,
    &recycling::B6,
    &peers::B7,
    &peers::B8,
    &s1_ycsb::EXPERIMENT,
    &s2_large_values::EXPERIMENT,
    &s3_amplification::EXPERIMENT,
    &s4_memory::EXPERIMENT,
    &s5_order::EXPERIMENT,
    &s6_order_amplification::EXPERIMENT,
    &s7_reading_threads::EXPERIMENT,
    &s8_loading_threads::EXPERIMENT,
    &s9_scans::EXPERIMENT,
];

/// The machine of section 3.7.1, and the data of most experiments.
const SETTING: &str = "Dell PowerEdge R720, Xeon with 32 cores at 2.0 GHz, 960 GiB Intel Optane 905p; 673 million records of 24 + 100 bytes (80 GiB); 4 GiB \
                       of memory by a control group; the number of threads that is best for each system.";

/// What holds of every experiment here on another machine.
const MACHINE: &str = "Machine and device are others than the document's: compare shapes, ratios and amplification, not operations a second.";

/// What holds of everything that has one number of threads.
const THREADS: &str = "Ours works with one thread for each processor; the document takes the best number for each system, of up to 32 cores.";

/// How skewed reads are.
const SKEW: &str =
    "Skewed phases draw by Zipf, exponent 0.99, over the records; the document does not say its parameters.";

/// What the full size is.
const TENTH: &str = "The full size has a tenth of the document's records and of its memory; the quick one does not keep that ratio.";

/// Small enough for seconds.
const QUICK: Scale = Scale {
    records: 1_000_000,
    value_bytes: 100,
    threads: Threads::Processors,
    cap: 64 << 20,
    warm_ms: 500,
    run_ms: 1000,
    settle_ms: 5000,
};

/// A tenth of the document's records, and of its memory.
const FULL: Scale = Scale {
    records: 67_300_000,
    value_bytes: 100,
    threads: Threads::Processors,
    cap: 400 << 20,
    warm_ms: 60_000,
    run_ms: 60_000,
    settle_ms: 120_000,
};

/// For loads by one thread: 4 GiB, a fifth of the document's 20.
const FULL_ORDER: Scale = Scale {
    records: 34_600_000,
    threads: Threads::One,
    ..FULL
};

/// The same in small.
const QUICK_ORDER: Scale = Scale {
    threads: Threads::One,
    ..QUICK
};
