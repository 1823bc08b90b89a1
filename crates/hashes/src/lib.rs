//! Unordered dictionaries.
//!
//! *Knows*: how records are found by a hash of their key, in memory and on a device.
//!
//! *Does not know*: transactions, clocks; who assigned a sequence number.
//!
//! *Read in this order*: the folders, in any order: each is a structure of its own. [`hashed`] is
//! what a store hosts.
//!
//! Invariants:
//!
//! - **H1** Bytes that were read are checked before they are believed: damage is an error that
//!   says where.
//! - **H2** Nothing here spawns a thread or reads a clock.

pub mod hashed;
pub mod index;
pub mod mica;

pub use mica::{Cache, CacheOptions};
