//! Experiments of Spillane (2012): the merge work that stitching saves, its cost for scans, and the
//! benefit of several tiers.
//!
//! *Knows*: workloads of the document, each scaled by a number of records, and its figures.
//!
//! *Does not know*: other engines, except in `engines.rs`. The document's COPY-ALL is our SAMT
//! without stitching, and its NO-COMPACT is our levels without merges.
//!
//! *Read in this order*: `harness.rs` (a store of levels, loaded and scanned), `stitching.rs` (S1
//! to S3, S5), `separate_values.rs` (S5 with large pairs), `lookups.rs` (S4), `tiers.rs` (G1, G2),
//! `policies.rs` (G3, G4), `engines.rs` (G3E), `lfs.rs` (S8), `rehash.rs` (S9), `devices.rs` (S0).

mod devices;
mod engines;
mod harness;
mod lfs;
mod lookups;
mod policies;
mod rehash;
mod separate_values;
mod stitching;
mod tiers;

use super::entry::MeasurementProcedure;

/// All procedures of this document.
pub(super) const PROCEDURES: [&MeasurementProcedure; 13] = [
    &devices::S0,
    &stitching::S1,
    &stitching::S2,
    &stitching::S3,
    &lookups::S4,
    &stitching::S5,
    &lfs::S8,
    &rehash::S9,
    &tiers::G1,
    &tiers::G2,
    &policies::G3,
    &policies::G4,
    &engines::G3E,
];
