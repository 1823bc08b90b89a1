//! Predictions for this store's trees: the writes, reads and memory of a size-tiered Bε-tree of
//! runs and maplets, and of levels of the same runs.
//!
//! *Scope*: the policies of `alluvium_trees::tiered` and `levels`, and the formats of their runs
//! and maplets, applied to numbers of records instead of keys; the effect of a workload on the
//! trees.
//!
//! *Must not depend on*: keys, pages, devices, time.
//!
//! Keys are scattered, so a run has the same number of records in all ranges of equal width, and
//! two numbers describe it: its new keys and its requests. The function `Unique` of
//! [`popularity`](crate::popularity) computes the records that result from them. A prediction
//! processes a workload's memtables as the tree does, and adds up the bytes that each step would
//! write.
//!
//! Invariants:
//!
//! - **P1** The widths of a node's pivots add up to the width of the node. The width of the root is
//!   1.
//! - **P2** The runs in the stack of a pivot are ordered from oldest to newest, and a merge
//!   combines adjacent runs.

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
