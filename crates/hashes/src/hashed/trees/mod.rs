//! Routing trees, stored on the device. In a bundle of trees, each level has one, which finds the
//! leaves that may contain a hash.
//!
//! A leaf is a run that a merge has written from hash stores. It is not rewritten later: merges
//! move only its hashes from level to level. A *node* is a list of sketches, which determines the
//! children that may contain a hash. A *digest* is a list of all hashes of a leaf or of a tree,
//! from which the nodes above it are built.
//!
//! *Scope*: how a hash is divided into a prefix, a check digit and a next digit; where nodes and
//! digests are stored; how a leaf is added to a tree; how a search matches the entries of a node to
//! those of its parent.
//!
//! *Must not depend on*: when merges are due, how records are merged, the contents of a run except
//! hashes.
//!
//! Source: Conway, "Understanding Dictionaries at the Intersection of Theory and Practice" (2020),
//! §2.5 and §2.7. Lists are read through the page cache, so they occupy memory only while they are
//! used.
//!
//! Invariants:
//!
//! - **V1** The root of a level's tree has fewer than λ children, and every other node has λ. The
//!   tree of level i has height i.
//! - **V2** The list of a node has an entry for each hash of each leaf below the node. Entries are
//!   ordered by prefix, then by leaf, oldest first, then by hash. Therefore some entries of a
//!   parent and of its child correspond one to one, in the same order: the parent's entries with a
//!   given prefix that refer to the child, and the child's entries whose prefix and next digit form
//!   that prefix.
//! - **V3** A digest has all hashes of the leaf or tree to which it belongs. They are ordered by
//!   the prefix of the digest, then by leaf, then by hash.
//! - **V4** Every hash of a run is in all lists above the run. After a repair, lists may contain
//!   additional hashes.
//!
//! A bundle of trees differs from Conway's BOT in the following points:
//!
//! - A leaf is a run of many pages, which is made from λ hash stores and has its own index. A
//!   search below a node of height 1 therefore reads one page of each leaf that it visits.
//! - The queue is the one of the β-asymmetric BOT, because a write costs more than a read. At every
//!   β-th height the hashes are rewritten, so that at most 256 lists are merged at once. The queue
//!   contains complete hashes instead of the remaining characters.
//! - When a part is rebuilt, the resulting run is *settled*: it is older than all trees of the part
//!   and has a node of its own.
//! - A node that cannot be read is dropped. The search then visits all children of the node.

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

/// A list of a routing tree: the list of a node, or a digest.
pub type RoutingList = StoredList<RoutingListDescription>;
/// A list of a routing tree that is written but not yet part of a structure.
pub type WrittenRoutingList = lists::WrittenList<RoutingListDescription>;
/// Cursor over the entries of a list of a routing tree.
pub(super) type RoutingListCursor<'f> = lists::SketchCursor<'f, RoutingListDescription>;

impl StoredList<RoutingListDescription> {
    /// Checks that the list has the expected header, and returns the list.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the list has another header.
    pub fn required(self, head: ListHeader) -> Result<RoutingList> {
        match self.meta.head == head {
            true => Ok(self),
            false => {
                let found = format!("{:?}", self.meta.head);
                Err(Error::corrupt(self.place(), format!("{head:?}"), found))
            }
        }
    }

    /// Returns the header of the list.
    #[must_use]
    pub fn head(&self) -> ListHeader {
        self.meta.head
    }

    /// Returns the number of entries that probably belong to superseded records of their key.
    #[must_use]
    pub fn hidden(&self) -> u64 {
        self.meta.hidden
    }

    /// Returns the payloads of all entries with a prefix, in order. Pending if a page must first be
    /// read from the device.
    ///
    /// # Errors
    /// I/O errors; damaged pages.
    pub fn payloads<F: NodeFetch>(&self, prefix: u64, fetch: &F) -> Poll<Result<Vec<u64>>> {
        let mut found = Vec::new();
        ready!(self.each_payload(prefix, fetch, &mut |payload| found.push(payload)))?;
        Poll::Ready(Ok(found))
    }
}
