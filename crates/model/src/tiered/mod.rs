//! Our own trees, predicted: what a size-tiered Bε-tree of runs and maplets, and levels of the same
//! runs, write, read and keep.
//!
//! *Knows*: the decisions of `alluvium_trees::tiered` and `levels`, and the formats of their runs
//! and maplets, over amounts of records in place of keys; what a workload makes of them.
//!
//! *Does not know*: keys, pages, devices, how long anything takes.
//!
//! *Read in this order*: `parameters.rs`, `bytes.rs` (formats), `amounts.rs` (runs as amounts),
//! `node.rs`, `policy.rs` (decisions), `settle.rs` (flushes and cuts), `work.rs` (compactions),
//! `levels.rs` (levels in place of the tree), `flow.rs` (the front), `reads.rs` (lookups and
//! caches).
//!
//! Keys are scattered, so that a run has the same share of its records in each range of one width,
//! and a run is a few numbers: how many new keys it has, and how many requests. How many records
//! those leave is `Unique` of [`popularity`](crate::popularity). A prediction goes through the
//! memtables of a workload, as the tree does, and counts what each step would write.
//!
//! Invariants:
//!
//! - **P1** A node's pivots have its width together, and the root's width is 1.
//! - **P2** In a pivot's stack, runs come oldest first; a merge takes neighbours.

mod amounts;
mod bytes;
mod flow;
mod levels;
mod node;
mod parameters;
mod policy;
mod reads;
mod settle;
mod work;

pub use flow::{Flow, Written};
pub use levels::Rule;
pub use parameters::{Lengths, Records, Shape};
pub use reads::{Lookups, Reads};
pub(crate) use reads::{RECORD_OVERHEAD, missed, missed_behind};
