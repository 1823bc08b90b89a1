//! Unordered dictionaries.
//!
//! *Knows*: how records are found by a hash of their key, in memory and on a device.
//!
//! *Does not know*: transactions, clocks; who assigned a sequence number.
//!
//! *Read in this order*: the folders, in any order: each is a structure of its own.
//!
//! Invariants:
//!
//! - **H1** No structure knows another: what two of them share lies in a lower crate.

pub mod mica;

pub use mica::{Cache, CacheOptions};
