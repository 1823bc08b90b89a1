//! What a page of a tree holds: pairs, or pivots with children, or those and a buffer of
//! messages.
//!
//! *Knows*: bytes of nodes, how many entries fit, how a node is divided in two.
//!
//! *Does not know*: where pages are, latches, when messages move.
//!
//! *Read in this order*: `layout.rs` (how a page is divided), `message.rs` (what messages mean
//! together), `format.rs` (bytes), `format/look.rs`, `format/words.rs` (nodes that may change
//! while they are read),
//! `split.rs`, `join.rs`, `division.rs` (nodes that are divided each in its own way).
//!
//! Each array of a node has slots of one size, made for the longest key and value of the tree,
//! and a directory in key order that says which slot is where. An insertion moves entries of
//! ten bytes, not slots; the first eight bytes of each key stand in the directory, so that a
//! search seldom looks at slots. That is a deviation from the thesis, which moves whole
//! messages in a sorted array. Slots of one size keep its counting argument exact: a buffer
//! holds a number of messages, whatever their lengths.
//!
//! Invariants:
//!
//! - **PN1** The keys of an array ascend, and the first `len` slots are those in use.
//! - **PN2** Child i of a node holds keys from pivot i − 1 on, and below pivot i.
//! - **PN3** A buffer holds one message per key at most.
//! - **PN4** n, the number of pivots of a buffered node, is odd, b ≥ 1 and b ≤ s.

mod division;
mod format;
mod join;
mod layout;
mod message;
mod split;

pub use division::{Epsilon, PivotBounds};
pub use format::{Kind, Table, child_of_value, value_of_child};
pub(in crate::paged) use format::{
    Look, Reference, add_pivot, child, child_at, child_index, kind, level, look, reference_at,
    set_first_child, set_head,
};
#[cfg(feature = "couplings")]
pub(in crate::paged) use format::{Words, look_at};
pub(in crate::paged) use join::{is_under_full, join, without_buffer};
pub use layout::{Shape, TreeSizes, divide};
pub(in crate::paged) use message::fold;
pub use message::{Action, Last, Message, Messages, Operator, merge};
pub(in crate::paged) use split::{move_node, split_inner, split_leaf, union_median};
