//! Merges of runs: the records of several runs become one new run.
//!
//! *Scope*: how records and leaves of the inputs reach the result, and the memory that this needs.
//!
//! *Must not depend on*: levels, trunks; which runs are merged, and when.
//!
//! - [`runs`] folds the messages of every key and applies range deletes.
//! - [`stitch`] adopts leaves of an input without reading them.
//! - [`memory`] is the memory of a merge, by the number of its inputs.

pub(crate) mod memory;
pub(crate) mod runs;
pub(crate) mod stitch;
