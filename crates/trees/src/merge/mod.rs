//! Merges several runs into one new run.
//!
//! *Scope*: how the inputs' records and leaves get into the new run, and the memory that a merge
//! needs.
//!
//! *Must not depend on*: levels, trunks; which runs are merged, and when.
//!
//! - [`runs`] folds the messages of each key and applies range deletes.
//! - [`stitch`] adopts leaves of an input without reading them.
//! - [`gather`] writes separate values again where they are scattered.
//! - [`memory`] estimates the memory of a merge from the number and size of its inputs.

pub(crate) mod gather;
pub(crate) mod memory;
pub(crate) mod runs;
pub(crate) mod stitch;
