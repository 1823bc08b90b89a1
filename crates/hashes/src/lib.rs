//! Dictionaries that locate records by a hash of the key and do not keep keys in order.
//!
//! *Scope*: how records are located by a hash of their key, in memory and on a device.
//!
//! *Must not depend on*: transactions, clocks; who assigned a sequence number.
//!
//! Invariants:
//!
//! - **H1** Data from a device is verified before it is used. Damage is reported as an error with
//!   its location.
//! - **H2** No function spawns a thread or reads a clock.

pub mod hashed;
pub mod index;
pub mod mica;

pub use mica::{Cache, CacheOptions};
