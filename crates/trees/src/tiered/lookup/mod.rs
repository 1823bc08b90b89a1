//! Point lookups: one key, a batch of keys, or non-blocking lookups that the caller polls.
//!
//! *Knows*: which parts of a version count for a key, and the order in which they are asked.
//!
//! *Does not know*: how a version is made.
//!
//! *Read in this order*: `search.rs` (one key in one version), `reader.rs`, `polled.rs`,
//! `root_filter_builder.rs` (the filter over the root's bundles).

mod polled;
mod reader;
mod root_filter_builder;
mod search;

pub use polled::PolledTreeLookup;
pub use reader::TreeReader;
pub(crate) use reader::{get, multi_get};
pub use root_filter_builder::RootFilterBuilder;
pub use search::TreeSearch;
