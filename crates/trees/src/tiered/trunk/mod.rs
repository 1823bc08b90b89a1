//! The trunk: the runs by key range and age, and the single writer that changes them.
//!
//! *Knows*: nodes and their stacks; how a node flushes, splits and merges; which extents are in
//! use; which compactions are due; how a new version replaces the old one.
//!
//! *Does not know*: how records are compacted, looked up or scanned; how nodes are written.
//!
//! *Read in this order*: `stored.rs` (the location of a checkpointed node), `node.rs`, `span.rs`,
//! `inflight.rs` (due and running compactions), `walk.rs`, `uses.rs` (the lifetime of an extent),
//! `shape.rs` (flush, split, merge), `stretch.rs` (the inputs of a compaction), `digest.rs` (the
//! filter over the root's bundles), `absent.rs` (the frequency of absent keys), `state.rs`
//! (versions and the writer's state), `statistics.rs`, `writer.rs` (how a change is published).

mod absent;
mod digest;
mod inflight;
mod node;
mod shape;
mod span;
mod state;
mod statistics;
mod stored;
mod stretch;
mod uses;
mod walk;
mod writer;

pub(super) use absent::AbsentKeys;
pub(super) use digest::{Covered, Digest, deletes_ranges, waiting};
pub(super) use inflight::{Claim, Inflight, JobId};
pub use inflight::{Debt, Edge, Underway};
pub(super) use node::{Bundle, Group, Layer, Node, Owned, Part, Pivot};
pub use shape::Counts;
pub(super) use shape::{Rank, neighbours, stale_percent};
pub(super) use state::WriterState;
pub use state::{Adoption, TreeOptions, Version};
pub(super) use statistics::LeafUses;
pub use statistics::{Memory, Stats};
pub(super) use stored::{Location, Stored, TrunkExtents};
pub(super) use stretch::{Reason, Stretch};
pub(super) use uses::{RunKey, Uses, key_of};
pub(super) use walk::{all_nodes, find, holds, leaf_for, longest_path, node_at, replace};
pub(super) use writer::{Trunk, TrunkWriter};
