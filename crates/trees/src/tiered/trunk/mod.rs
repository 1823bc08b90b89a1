//! The trunk: which runs hold which keys, in which order they are newer, and the one writer that
//! changes it.
//!
//! *Knows*: nodes and what lies in their stacks; how a node flushes, splits and merges; which
//! extent is in use; which compactions are due; how a new version takes the place of the old one.
//!
//! *Does not know*: how records are compacted, looked up or scanned; how nodes are written.
//!
//! *Read in this order*: `stored.rs` (where a checkpoint has put a node), `node.rs`, `span.rs`,
//! `inflight.rs` (compactions that are due or under way), `walk.rs`, `uses.rs` (when an extent
//! dies), `shape.rs` (flush, split, merge), `stretch.rs` (what a compaction takes), `digest.rs`
//! (the filter over the root's bundles), `absent.rs` (whether lookups find nothing), `state.rs` (a
//! version, and what the writer keeps), `statistics.rs`, `writer.rs` (how a change is published).

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
