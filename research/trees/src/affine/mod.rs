//! Dictionaries with proven costs in the affine model: a B-tree, and a Bε-tree with successive
//! improvements (Bender et al. 2021, §4).
//!
//! *Scope*: nodes of 512 bytes to 64 MiB, their messages, the placement of pivots, weights, a
//! space of extents with commits.
//!
//! *Must not depend on*: transactions, threads, clocks, sequence numbers.
//!
//! ```text
//!  a node u of V2 and V3, in one extent           a leaf, in one extent
//!  [ S1 | S2 | … | Sk ]                           [ sub-block | sub-block | … ]
//!    Si = index of child ci, messages for ci        pairs in key order, at most B/F bytes
//!  the index of u is in its parent's segment for u; that of the root in front of the root
//! ```
//!
//! - **AF1** The messages for a child occupy at most B/F bytes whenever a query can run.
//! - **AF2** With V2 and V3 the pivots of a node are in its parent, next to the messages for the
//!   node.
//! - **AF3** With V3 a node of height h has F^h(1 ± 1/log₂ F) leaves below it. A root may weigh
//!   more: it grows once its weight is a sum of weights in the band.
//! - **AF4** A node is written as a whole, to a location that the last commit does not reference.
//!   Its parent refers to the new location, up to the root, and a commit makes the root durable:
//!   a crash cannot tear a rebuilt subtree.
//! - **AF5** After a failed step the dictionary refuses all work until it is reopened: messages
//!   in transit are in neither node.
//!
//! Differences from the source:
//!
//! - A flush reads and writes only the child. Its parent is in memory and is written once, after
//!   all of its flushes, instead of one segment at a time in place.
//! - The source's upper limit for a root excludes some weights for which no tree exists: two
//!   children of F^h(1 − 1/log F) leaves are more than F^h(1 + 1/log F). AF3 closes such gaps.
//! - The part of the tree in memory consists of whole top levels, not of recently used nodes.

mod check;
mod counters;
mod decode;
mod error;
mod flush;
mod format;
mod lookup;
mod node;
mod node_io;
mod options;
mod rebuild;
mod resident;
mod scan;
mod space;
#[cfg(test)]
mod tests;
mod tree;

pub use check::{AffineCheckReport, AffineViolation};
pub use counters::AffineCounters;
pub use decode::{decode, examples};
pub use error::{Error, Result};
pub use options::{AffineOptions, AffineVariant, TuningGoal, checked_alpha};
pub use scan::PairVisitor;
pub use space::{FileSpace, MemorySpace, NodeSpace, RequestMeter, SpaceExtent, SpaceFault, SpaceRequest};
pub use tree::{AffineTree, FlushProgress};
