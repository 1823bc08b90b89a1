//! Experiments of Spillane (2012): what stitching spares merges and costs scans, and what several
//! tiers are worth.
//!
//! *Knows*: workloads of the document, each scaled by a number of records, and its figures.
//!
//! *Does not know*: other engines. The document's COPY-ALL is our SAMT without stitching, and its
//! NO-COMPACT our levels that are never merged.
//!
//! *Read in this order*: `harness.rs` (a store of levels, loaded and scanned), `stitching.rs` (S1
//! to S3, S5), `points.rs` (S4), `tiers.rs` (G1, G2), `lfs.rs` (S8), `devices.rs` (S0).

mod devices;
mod harness;
mod lfs;
mod points;
mod stitching;
mod tiers;

use super::entry::Experiment;

/// All of them.
pub(super) const EXPERIMENTS: [&Experiment; 9] = [
    &devices::S0,
    &stitching::S1,
    &stitching::S2,
    &stitching::S3,
    &points::S4,
    &stitching::S5,
    &lfs::S8,
    &tiers::G1,
    &tiers::G2,
];
