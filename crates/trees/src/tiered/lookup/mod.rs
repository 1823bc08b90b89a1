//! Point lookups: one key, a batch of keys, or non-blocking lookups that the caller polls.
//!
//! *Knows*: which parts of a version count for a key, and the order in which they are asked.
//!
//! *Does not know*: how a version is made.
//!
//! *Read in this order*: `search.rs` (one key in one version), `reader.rs`, `polled.rs`,
//! `digest.rs` (the filter over the root's bundles).

mod digest;
mod polled;
mod reader;
mod search;

pub use digest::Digesting;
pub use polled::Lookup;
pub use reader::Reader;
pub(crate) use reader::{get, multi_get};
pub use search::Search;
