//! Experiments of Spillane (2012): the merge work that stitching saves, its cost for scans, and the
//! benefit of several tiers.
//!
//! *Scope*: workloads of the document, each scaled by a number of records, and its figures.
//!
//! *Must not depend on*: other engines, except in `engines.rs`, and other file systems, except in
//! `file_systems.rs`. The document's COPY-ALL is our SAMT
//! without stitching, and its NO-COMPACT is our levels without merges.

mod devices;
mod engines;
mod file_systems;
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
pub(super) const PROCEDURES: [&MeasurementProcedure; 15] = [
    &devices::S0,
    &stitching::S1,
    &stitching::S2,
    &stitching::S3,
    &lookups::S4,
    &stitching::S5,
    &file_systems::S6,
    &file_systems::S7,
    &lfs::S8,
    &rehash::S9,
    &tiers::G1,
    &tiers::G2,
    &policies::G3,
    &policies::G4,
    &engines::G3E,
];
