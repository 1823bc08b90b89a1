//! Experiments of Bender et al. (2021): predictions of the affine and the PDAM model.
//!
//! C1 to C3 repeat the document's disk measurements on the local device, with the probe of
//! `alluvium probe`. C4 and C5 sweep the node sizes of trees, on a modelled disk and on the local
//! device; C8 and C9 do so with the pages of Berkeley DB, C9 on the device. The others need no
//! disk: they compare the models' predictions for nodes and clients with the document's figures and
//! with a simulation that moves each block. Names are those of its tables and results.

mod c4_b_tree;
mod c5_buffered;
mod c6_nodes;
mod c7_clients;
mod c8_berkeley;
mod c9_stores;
pub(super) mod devices;
mod sweep;

use super::entry::MeasurementProcedure;

/// All procedures of this document.
pub(super) const PROCEDURES: [&MeasurementProcedure; 9] = [
    &devices::C1,
    &devices::C2,
    &devices::C3,
    &c4_b_tree::PROCEDURE,
    &c5_buffered::PROCEDURE,
    &c6_nodes::PROCEDURE,
    &c7_clients::PROCEDURE,
    &c8_berkeley::PROCEDURE,
    &c9_stores::PROCEDURE,
];
