//! Research models that the product does not use.
//!
//! [`recycling`] is the game of balls and bins that bounds the savings of an insertion buffer
//! (Conway 2020, §5); [`pdam`] counts the steps of B-trees on a device that transfers P blocks in
//! parallel (Bender et al. 2021, §6); [`translate`] converts accesses between cost models (Lemma
//! 1 of the same paper); [`leveldb`] simulates LevelDB's compactions, and [`mica`] computes the
//! memory of a table like MICA's (Lim 2015, §4.3.5 and §5.3). All reject invalid parameters with
//! `alluvium_model::BadParameter`.
//!
//! *Scope*: the formulas, and simulations to compare them with.
//!
//! *Must not depend on*: devices, stores.
//!
//! Invariants:
//!
//! - **M1** The same parameters give the same numbers: random choices are drawn from a seed.

pub mod leveldb;
pub mod mica;
pub mod pdam;
pub mod recycling;
pub mod translate;
