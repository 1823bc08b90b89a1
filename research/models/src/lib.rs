//! Models of the research that no part of the product computes with.
//!
//! [`recycling`] is the game of balls and bins that bounds what an insertion buffer saves (Conway
//! 2020, §5); [`pdam`] counts the steps of B-trees on a device that moves P blocks at once (Bender
//! et al. 2021, §6), and [`translate`] turns accesses of one cost model into those of another (its
//! Lemma 1); [`leveldb`] simulates LevelDB's compactions and [`mica`] computes the memory of a
//! table like MICA's (Lim 2015, §4.3.5 and §5.3). All refuse parameters with
//! `alluvium_model::BadParameter`.
//!
//! *Knows*: the formulas, and simulations beside them.
//!
//! *Does not know*: devices, stores.
//!
//! *Read in this order*: the folders, in any order.
//!
//! Invariants:
//!
//! - **M1** The same parameters give the same numbers: what is random is drawn from a seed.

pub mod leveldb;
pub mod mica;
pub mod pdam;
pub mod recycling;
pub mod translate;
