//! The trunk: which runs hold which keys, in which order they are newer, and the one writer that
//! changes it.
//!
//! *Knows*: nodes and what lies in their stacks; how a node flushes, splits and merges; which
//! extent is in use; which compactions are due; how a new version takes the place of the old one.
//!
//! *Does not know*: how records are compacted, looked up or scanned; how nodes are written.
//!
//! *Read in this order*: `node.rs`, `span.rs`, `shape.rs` (flush, split, merge), `uses.rs` (when
//! an extent dies), `inflight.rs` (compactions that are due or under way).

mod inflight;
mod node;
mod shape;
mod span;
mod uses;

pub use inflight::Edge;
pub(super) use inflight::{Claim, Inflight, JobId, Why};
pub(super) use node::{Bundle, Group, Layer, Node, Owned, Part, Pivot};
pub use shape::Counts;
pub(super) use shape::{Rank, Shaper, leaf_view, neighbours, stale_percent};
pub(super) use uses::{RunKey, Uses, key_of};
