//! Point lookups: for one key, for a batch of keys, and non-blocking ones that the caller polls.
//!
//! *Scope*: which parts of a version may contain a key, and the order in which they are searched.
//!
//! *Must not depend on*: how a version comes about.

mod polled;
mod reader;
mod root_filter_builder;
mod search;

pub use polled::PolledTreeLookup;
pub use reader::TreeReader;
pub(crate) use reader::{get, multi_get};
pub use root_filter_builder::RootFilterBuilder;
pub use search::TreeSearch;
