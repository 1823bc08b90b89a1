//! The content of a page of a tree: pairs in a leaf; pivots with children, and possibly a buffer of
//! messages, in an inner node.
//!
//! *Scope*: the layout of nodes, how many entries fit, how a node is split.
//!
//! *Must not depend on*: where pages are stored, latches, when messages move.
//!
//! Each array of a node has slots of one size, large enough for the longest key and value of the
//! tree, and a directory in key order that lists the slots. An insertion moves directory entries of
//! ten bytes, not slots. The directory also has the first eight bytes of each key, so that a search
//! seldom reads slots. This differs from the thesis, which moves whole messages in a sorted array.
//! Slots of one size keep the counting argument of the thesis exact: a buffer holds a fixed number
//! of messages, whatever their lengths.
//!
//! Invariants:
//!
//! - **PN1** The keys of an array ascend, and exactly the first `len` slots are in use.
//! - **PN2** Child i of a node holds the keys from pivot i − 1 up to, but not including, pivot i.
//! - **PN3** A buffer holds at most one message for each key.
//! - **PN4** n, the number of pivots of a buffered node, is odd, b ≥ 1 and b ≤ s.

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
