//! Hash tables of the research, which no store hosts.
//!
//! [`boa`] and [`bot`] are the tables of Conway et al. (2018) by themselves, over [`blocks`], a
//! space that counts what is moved: their theorems bound block transfers, which a store's cache
//! and log would blur. The store's own forms of them are `alluvium_hashes::hashed`. [`silt`] is
//! SILT's three stores put together in memory.
//!
//! *Knows*: how records are found by a hash of their key, and what that moves.
//!
//! *Does not know*: transactions, clocks, files.
//!
//! *Read in this order*: [`blocks`] and `records`, then [`boa`] and [`bot`]; [`silt`] by itself.
//!
//! # Invariants
//!
//! - **H1** Bytes that were read are checked before they are believed: damage is an error that
//!   says where.
//! - **H2** Nothing here spawns a thread or reads a clock.

pub mod blocks;
pub mod boa;
pub mod bot;
mod records;
pub mod silt;
