//! Predictions for our own trees: the writes, reads and memory of a size-tiered Bε-tree of runs and
//! maplets, and of levels of the same runs.
//!
//! *Scope*: the decisions of `alluvium_trees::tiered` and `levels`, and the formats of their runs
//! and maplets, applied to amounts of records instead of keys; the effect of a workload on them.
//!
//! *Must not depend on*: keys, pages, devices, time.
//!
//! Keys are scattered, so a run has the same share of its records in all ranges of equal width, and
//! a run is described by a few numbers: its number of new keys and of requests. The number of
//! resulting records is `Unique` of [`popularity`](crate::popularity). A prediction processes the
//! memtables of a workload like the tree does, and counts the bytes that each step would write.
//!
//! Invariants:
//!
//! - **P1** The widths of a node's pivots add up to its width; the root's width is 1.
//! - **P2** The runs of a pivot's stack are ordered oldest first; a merge combines adjacent runs.

mod amounts;
mod bytes;
mod flow;
mod levels;
mod node;
mod parameters;
mod policy;
mod reads;
mod reshape;
mod work;

pub use flow::{WriteSimulation, WriteVolume};
pub use levels::MergeRule;
pub use parameters::{RecordProfile, TreeShape, ValueLengths};
pub use reads::{LookupReads, LookupSettings};
pub(crate) use reads::{RECORD_OVERHEAD, missed, missed_behind};
