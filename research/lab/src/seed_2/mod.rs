//! Experiments of Rotte's thesis (2022): a Bε-tree over a page buffer.
//!
//! Names: E1 to E10 are what section 6.2 says of ε, T1 to T9 what section 6.3 says of the Bε-tree
//! beside a B⁺-tree, K1 to K8 what section 6.4 and the conclusion say of page buffers and of other
//! stores. N1 and Q1 are questions that the thesis leaves open. Curves without numbers in the text
//! are not guessed.

mod buffers;
mod harness;
mod layout;
mod leveldb;
mod open;
mod stores;
mod sweep;
mod trees;

use super::entry::{Axis, Experiment, Form};

/// All of them.
pub(super) const EXPERIMENTS: [&Experiment; 29] = [
    &layout::E1,
    &layout::E2,
    &sweep::E3,
    &sweep::E4,
    &sweep::E5,
    &sweep::E6,
    &sweep::E7,
    &sweep::E8,
    &sweep::E9,
    &sweep::E10,
    &trees::T1,
    &trees::T2,
    &trees::T3,
    &trees::T4,
    &trees::T5,
    &trees::T6,
    &trees::T7,
    &trees::T8,
    &trees::T9,
    &leveldb::K1,
    &stores::K2,
    &buffers::K3,
    &stores::K4,
    &stores::K5,
    &buffers::K6,
    &buffers::K7,
    &leveldb::K8,
    &open::N1,
    &open::Q1,
];

/// The machine of chapter 6, and the data.
const SETTING: &str = "Core i9-7900X with 10 cores, 128 GiB of memory, Samsung SSD 970 EVO, Ubuntu 22.04; keys of 8 bytes, values of 100, pages of 16 KiB; \
                       200 million operations, keys by Zipf's law with exponent 0.99.";

/// What holds of every experiment here.
const MACHINE: &str = "Machine and device are others than the document's, with fewer processors: compare ratios and shapes, not rates.";

/// How keys are drawn.
const KEYS: &str = "The document does not say whether keys repeat. Ours are drawn with repetition from as many as there are operations in a workload.";

/// How nodes differ.
const NODES: &str = "Our nodes have a directory of ten bytes for each entry, and keys up to a limit instead of one length: a node has fewer pivots for the same ε.";

/// How many threads there are.
const THREADS: &str = "The document goes to 20 threads; ours has 1 and 2.";

/// ε.
const EPSILON: Axis = Axis {
    name: "ε",
    form: Form::Linear,
};

/// Threads.
const BY_THREADS: Axis = Axis {
    name: "threads",
    form: Form::Linear,
};

const THOUSANDS: &str = "thousand operations a second";
