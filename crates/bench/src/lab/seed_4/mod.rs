//! Experiments of Bender et al. (2021): what the affine and the PDAM model predict.
//!
//! C1 to C3 are what the document measures on disks, on the device at hand, by the probe behind
//! `alluvium probe`. The others need no disk: what the models say of nodes and of clients, beside
//! the document's figures and beside a simulation that moves each block. Names are those of its
//! tables and results.

mod c6_nodes;
mod c7_clients;
pub(super) mod devices;

use super::entry::Experiment;

/// All of them.
pub(super) const EXPERIMENTS: [&Experiment; 5] = [
    &devices::C1,
    &devices::C2,
    &devices::C3,
    &c6_nodes::EXPERIMENT,
    &c7_clients::EXPERIMENT,
];
