//! Research implementations of hash tables, which the store does not use.
//!
//! [`boa`] and [`bot`] are the tables of Conway et al. (2018), built directly on [`blocks`], a
//! space that counts block transfers: their theorems bound block transfers, and a store's cache
//! and log would distort the counts. `alluvium_hashes::hashed` contains the store's variants of
//! them. [`silt`] combines SILT's three stores in memory.
//!
//! *Scope*: how records are found by a hash of their key, and how many transfers that costs.
//!
//! *Must not depend on*: transactions, clocks, files.
//!
//! # Invariants
//!
//! - **H1** Bytes read from the space are verified before use: damage is reported as an error
//!   with its location.
//! - **H2** This crate neither spawns threads nor reads clocks.

pub mod blocks;
pub mod boa;
pub mod bot;
mod records;
pub mod silt;
