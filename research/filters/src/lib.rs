//! Filters of the research, which no store uses.
//!
//! [`cuckoo`] is SILT's table of partial keys (Lim 2014, §2.2.2), [`perfect`] an index of minimal
//! perfect hashes over sorted hashes. Both are packed with `alluvium_filters::bits`.
//!
//! *Knows*: how these indexes are packed, looked up and checked.
//!
//! *Does not know*: devices, threads, clocks.
//!
//! *Read in this order*: the folders, in any order.
//!
//! # Invariants
//!
//! - **F3** No bytes make a reader panic, read outside its slice, loop for ever or allocate more
//!   than its entries; wrong bytes give an error or a wrong answer.

pub mod cuckoo;
mod error;
pub mod perfect;

pub use error::{Error, Result};
