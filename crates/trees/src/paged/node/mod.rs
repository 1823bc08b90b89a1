//! The content of a tree's pages. A leaf contains key-value pairs. An inner node contains pivots
//! and children, and may have a buffer of messages.
//!
//! *Scope*: node layout; how many entries fit; how a node is split.
//!
//! *Must not depend on*: where pages are stored, latches, when messages move.
//!
//! Each array of a node consists of equally large slots and a directory. A slot can hold the
//! longest key and value that the tree allows. The directory lists the slots in key order, so an
//! insertion moves directory entries of ten bytes, but no slots. A directory entry also contains
//! the first eight bytes of its key, so a search seldom reads slots. In the thesis, by contrast, an
//! insertion moves whole messages in a sorted array. Because all slots are equally large, a buffer
//! has space for a fixed number of messages, whatever their lengths, so the counting argument of
//! the thesis stays exact.
//!
//! Invariants:
//!
//! - **PN1** The keys of an array are in ascending order, and exactly its first `len` slots are in
//!   use.
//! - **PN2** Child i of a node contains the keys from pivot i − 1 (inclusive) to pivot i
//!   (exclusive).
//! - **PN3** A buffer has at most one message for each key.
//! - **PN4** The capacities satisfy three conditions: n, the number of pivots in a node with a
//!   buffer, is odd; b ≥ 1; b ≤ s.

mod division;
mod format;
mod join;
mod layout;
mod message;
mod split;

pub use division::{EpsilonMode, PivotBounds};
pub(in crate::paged) use format::{
    ChildLookup, ChildReference, add_pivot, child, child_at, child_index, kind, level, look, reference_at,
    set_first_child, set_head,
};
pub use format::{NodeArray, PageContentKind, child_of_value, value_of_child};
#[cfg(feature = "couplings")]
pub(in crate::paged) use format::{NodeWords, look_at};
pub(in crate::paged) use join::{is_under_full, join, without_buffer};
pub use layout::{NodeShape, TreeSizes, divide};
pub(in crate::paged) use message::fold;
pub use message::{MessageAction, MessageList, NodeMessage, ReplaceOperator, UpdateOperator, merge};
pub(in crate::paged) use split::{move_node, split_inner, split_leaf, union_median};
