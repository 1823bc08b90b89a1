//! Experiments of Rotte's thesis (2022): a Bε-tree over a page buffer.
//!
//! Names: E1 to E10 cover ε (section 6.2); T1 to T9 compare the Bε-tree with a B⁺-tree (section
//! 6.3); K1 to K8 cover page buffers and other stores (section 6.4 and the conclusion). N1 and Q1
//! are questions that the thesis leaves open. No values are estimated from curves for which the
//! text has no numbers.

mod buffers;
mod harness;
mod layout;
mod leveldb;
mod open_questions;
mod stores;
mod sweep;
mod trees;

use super::entry::MeasurementProcedure;

/// All procedures of this document.
pub(super) const PROCEDURES: [&MeasurementProcedure; 29] = [
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
    &open_questions::N1,
    &open_questions::Q1,
];
