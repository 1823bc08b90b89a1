//! Experiments of Bender et al. (2021): what the affine and the PDAM model predict.
//!
//! What the document measures on disks, `alluvium probe` measures on the device at hand. Here are
//! the parts that need no disk: what the models say of nodes and of clients, beside the
//! document's figures and beside a simulation that moves each block. Names are those of its tables
//! and results.

mod c6_nodes;
mod c7_clients;

use super::entry::Experiment;

/// All of them.
pub(super) const EXPERIMENTS: [&Experiment; 2] = [&c6_nodes::EXPERIMENT, &c7_clients::EXPERIMENT];
