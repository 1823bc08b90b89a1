//! Experiments of Lim's thesis (2015): chapter 2, SILT; chapter 3, entropy-coded tries over sorted
//! data at rest; chapter 4, the write amplification of merges; chapter 5, tables in memory.
//!
//! Names: E1 to E9 are the tables and figures of section 3.4 in their order; S1 to S14 are those of
//! section 2.5; A1 to A13 are those of chapter 4, in `writes/`; M1 to M11 are those of section 5.4,
//! in `mica/`.

mod build;
mod formula;
mod harness;
mod hashed_store;
mod lookup;
mod memory;
mod mica;
mod perfect;
mod rates;
mod server;
mod silt;
mod size;
mod update;
mod writes;

use super::entry::MeasurementProcedure;

/// All procedures of this document.
pub(super) fn procedures() -> impl Iterator<Item = &'static MeasurementProcedure> {
    OF_STORES_AND_TRIES
        .into_iter()
        .chain(writes::PROCEDURES)
        .chain(mica::PROCEDURES)
}

/// The procedures of chapters 2 and 3.
const OF_STORES_AND_TRIES: [&MeasurementProcedure; 23] = [
    &server::S1,
    &server::S2,
    &server::S3,
    &server::S4,
    &server::S5,
    &memory::S6,
    &memory::S7,
    &server::S8,
    &rates::S9,
    &rates::S10,
    &rates::S11,
    &rates::S12,
    &formula::S13,
    &memory::S14,
    &build::E1,
    &build::E2,
    &size::E3,
    &update::E4,
    &lookup::E5,
    &size::E6,
    &size::E7,
    &build::E8,
    &size::E9,
];
