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

use super::entry::Procedure;

/// All of them.
pub(super) const PROCEDURES: [&Procedure; 29] = [
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
