//! Routing trees of a bundle of trees, on the device: which leaves of a level may contain a hash.
//!
//! A leaf is a run that a merge has written from hash stores. It is not rewritten afterwards; only
//! hashes move from level to level. A *node* is a list of sketches that determines which of its
//! children may contain a hash. A *digest* is a list of the hashes of a leaf or of a tree, from
//! which the nodes above are built.
//!
//! *Scope*: prefixes, check characters and next characters of hashes; where nodes and digests are
//! stored; how a leaf is added to a tree; the search that keeps lists aligned.
//!
//! *Must not depend on*: when merges are due, how records are merged, the contents of a run except
//! hashes.
//!
//! Conway, "Understanding Dictionaries at the Intersection of Theory and Practice" (2020), §2.5 and
//! §2.7. Lists are read through the page cache and occupy memory only while they are used.
//!
//! Invariants:
//!
//! - **V1** The root of a level has fewer than λ children, every other node has λ. The tree of
//!   level i has height i.
//! - **V2** A node's list has an entry for each hash of each leaf below it, ordered by prefix, then
//!   by leaf, oldest first, then by hash. Therefore the entries of a parent that name a child and
//!   continue with a character are, in order, the child's entries with that next character.
//! - **V3** A digest has the same hashes, ordered by the prefix of its own length, then by leaf,
//!   then by hash.
//! - **V4** Every hash of a run is in all lists above it. After a repair lists may contain
//!   additional hashes.
//!
//! Differences from Conway's BOT:
//!
//! - A leaf is a run of many pages, made of λ hash stores, with its own index, so that a leaf below
//!   a node of height 1 costs one page read.
//! - The queue is that of the β-asymmetric BOT, because a write costs more than a read. Every β-th
//!   height rewrites the hashes, so that at most 256 lists are merged at once. It contains whole
//!   hashes instead of the remaining characters.
//! - Once a part is rebuilt, its run is *settled*: it is below all trees and has its own node.
//! - A node that cannot be read is dropped; the search then visits all of its children.

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
    /// Number of entries whose keys probably have a record in a newer leaf below.
    pub hidden: u64,
    pub(super) listing: PageListing,
}

/// A node or a digest.
pub type RoutingList = StoredList<RoutingListDescription>;
/// A list that is written but not yet part of a structure.
pub type WrittenRoutingList = lists::WrittenList<RoutingListDescription>;
/// Iterator over the entries of a list.
pub(super) type RoutingListCursor<'f> = lists::SketchCursor<'f, RoutingListDescription>;

impl StoredList<RoutingListDescription> {
    /// Checks that this is the expected list.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not.
    pub fn required(self, head: ListHeader) -> Result<RoutingList> {
        match self.meta.head == head {
            true => Ok(self),
            false => {
                let found = format!("{:?}", self.meta.head);
                Err(Error::corrupt(self.place(), format!("{head:?}"), found))
            }
        }
    }

    /// Returns the kind of the list.
    #[must_use]
    pub fn head(&self) -> ListHeader {
        self.meta.head
    }

    /// Returns the number of entries that probably belong to older records of a key.
    #[must_use]
    pub fn hidden(&self) -> u64 {
        self.meta.hidden
    }

    /// Returns the payloads of a prefix, in order. Pending if a page is missing.
    ///
    /// # Errors
    /// I/O errors; damage.
    pub fn payloads<F: NodeFetch>(&self, prefix: u64, fetch: &F) -> Poll<Result<Vec<u64>>> {
        let mut found = Vec::new();
        ready!(self.each_payload(prefix, fetch, &mut |payload| found.push(payload)))?;
        Poll::Ready(Ok(found))
    }
}
