//! The trunk: the tree's index of all runs by key range and age, and the single writer that changes
//! it.
//!
//! *Scope*: nodes and their stacks; how a node flushes, splits and merges; which extents are in
//! use; which compactions are due; how a new version replaces the old one.
//!
//! *Must not depend on*: how records are compacted, looked up or scanned; how nodes are written.

mod checkpoint_location;
mod job_inputs;
mod job_table;
mod miss_rate;
mod node;
mod root_filter;
mod shape;
mod span;
mod state;
mod statistics;
mod uses;
mod walk;
mod writer;

pub(super) use checkpoint_location::{CheckpointLocation, NodeLocation, TrunkExtents};
pub(super) use job_inputs::{CompactionReason, JobInputs};
pub use job_table::{CompactionState, JobTransition, TreeDebt};
pub(super) use job_table::{JobClaim, JobId, JobTable};
pub(super) use miss_rate::AbsentKeys;
pub(super) use node::{MapletGroup, OwnedPart, StackEntry, TrunkBundle, TrunkNode, TrunkPart, TrunkPivot};
pub(super) use root_filter::{RootFilter, RootFilterCoverage, deletes_ranges, waiting};
pub use shape::ReshapeCounts;
pub(super) use shape::{NodeRank, TrunkShaper, neighbours, stale_percent};
pub(super) use state::WriterState;
pub use state::{AdoptionPolicy, TreeOptions, TreeVersion};
pub(super) use statistics::LeafUses;
pub use statistics::{TreeMemory, TreeStats};
pub(super) use uses::{RunKey, UseCounts, key_of};
pub(super) use walk::{
    all_nodes, find_claimed_pivot, is_claim_valid, leaf_for, longest_path, node_at, replace,
};
pub(super) use writer::{Trunk, TrunkWriter};
