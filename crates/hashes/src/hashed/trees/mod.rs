//! Routing trees on the device. Each level of a bundle of trees has one, which finds the leaves
//! that may contain a hash.
//!
//! A leaf is a run that a merge has written from hash stores. It is never rewritten: merges move
//! only its hashes from level to level. A *node* is a list of sketches that determines which
//! children may contain a hash. A *digest* is a list of all hashes of a leaf or a tree, from which
//! the nodes above it are built.
//!
//! *Scope*: how a hash is divided into a prefix, a check digit and a next digit; where nodes and
//! digests are stored; how a leaf is added to a tree; how a search matches a node's entries with
//! those of its parent.
//!
//! *Must not depend on*: when merges are due, how records are merged, what a run contains besides
//! hashes.
//!
//! Source: Conway, "Understanding Dictionaries at the Intersection of Theory and Practice" (2020),
//! §2.5 and §2.7. Lists are read through the page cache, so they take up memory only while they are
//! in use.
//!
//! Invariants:
//!
//! - **V1** The root of a level's tree has fewer than λ children, and every other node has λ. The
//!   tree of level i has height i.
//! - **V2** A node's list has an entry for each hash of each leaf below the node. Entries are
//!   ordered by prefix, then by leaf, oldest first, then by hash. As a result, the parent's entries
//!   that have a given prefix and refer to a child correspond one to one, in the same order, to
//!   those of the child's entries whose prefix and next digit form that prefix.
//! - **V3** A digest has all hashes of its leaf or tree, ordered by the digest's prefix, then by
//!   leaf, then by hash.
//! - **V4** Every hash of a run is in all lists above the run. After a repair, lists may contain
//!   extra hashes.
//!
//! A bundle of trees differs from Conway's BOT as follows:
//!
//! - A leaf is a run of many pages, made from λ hash stores, with its own index. A search below a
//!   node of height 1 therefore reads one page of each leaf that it visits.
//! - The queue is that of the β-asymmetric BOT, because a write costs more than a read. Hashes are
//!   rewritten at every β-th height, so that at most 256 lists are merged at once. The queue
//!   contains complete hashes instead of the remaining characters.
//! - Rebuilding a part produces a *settled* run, which is older than all trees of the part and has
//!   its own node.
//! - A node that cannot be read is dropped. Searches then visit all of its children.

mod check;
pub mod format;
mod hash_layout;
mod hashes;
mod leaf;
mod list;
pub mod names;
mod search;
#[cfg(test)]
mod tests;
mod tree;
mod tree_builder;

pub use hash_layout::HashLayout;
pub(super) use leaf::{LeafWriter, is_spent};
pub use list::{ListHeader, RoutingListWriter};
pub(super) use search::TreeDescent;
pub(super) use tree::LevelTree;
#[cfg(test)]
pub(super) use tree::{RoutingChild, RoutingNode};
pub(super) use tree_builder::{RoutingTree, RoutingTreeBuilder, install};

use super::lists::{self, PageListing, StoredList};
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_storage::{Error, Result};
use std::task::{Poll, ready};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingListDescription {
    pub head: ListHeader,
    pub entries: u64,
    /// Number of entries that probably belong to records superseded by a newer leaf below the list.
    pub hidden: u64,
    pub(super) listing: PageListing,
}

/// A routing tree list: a node's list or a digest.
pub type RoutingList = StoredList<RoutingListDescription>;
/// A routing tree list that has been written but is not part of a structure yet.
pub type WrittenRoutingList = lists::WrittenList<RoutingListDescription>;
/// Cursor over the entries of a routing tree list.
pub(super) type RoutingListCursor<'f> = lists::SketchCursor<'f, RoutingListDescription>;

impl StoredList<RoutingListDescription> {
    /// Checks that the list has the expected header, and returns the list.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the list has a different header.
    pub fn required(self, head: ListHeader) -> Result<RoutingList> {
        match self.meta.head == head {
            true => Ok(self),
            false => {
                let found = format!("{:?}", self.meta.head);
                Err(Error::corrupt(self.place(), format!("{head:?}"), found))
            }
        }
    }

    /// Returns the list's header.
    #[must_use]
    pub fn head(&self) -> ListHeader {
        self.meta.head
    }

    /// Returns the number of entries that probably belong to superseded records.
    #[must_use]
    pub fn hidden(&self) -> u64 {
        self.meta.hidden
    }

    /// Returns the payloads of all entries with a prefix, in order. Pending if a page must be read
    /// from the device first.
    ///
    /// # Errors
    /// I/O errors; damaged pages.
    pub fn payloads<F: NodeFetch>(&self, prefix: u64, fetch: &F) -> Poll<Result<Vec<u64>>> {
        let mut found = Vec::new();
        ready!(self.each_payload(prefix, fetch, &mut |payload| found.push(payload)))?;
        Poll::Ready(Ok(found))
    }
}
