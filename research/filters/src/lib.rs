//! Research implementations of filters, which the store does not use.
//!
//! [`cuckoo`] is SILT's table of partial keys (Lim 2014, §2.2.2); [`perfect`] is an index of
//! minimal perfect hash functions over sorted hashes. Both are packed with
//! `alluvium_filters::bits`.
//!
//! *Scope*: how these indexes are packed, looked up and checked.
//!
//! *Must not depend on*: devices, threads, clocks.
//!
//! # Invariants
//!
//! - **F3** No input makes a reader panic, read outside its slice, loop for ever or allocate more
//!   than its entries need; invalid bytes give an error or a wrong answer.

pub mod cuckoo;
mod error;
pub mod perfect;

pub use error::{Error, Result};
