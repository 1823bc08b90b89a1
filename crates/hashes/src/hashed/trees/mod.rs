//! Routing trees of a bundle of trees, on the device: which leaves of a level may have a hash.
//!
//! A leaf is a run that a merge has written of hash stores. It stays where it is: what goes from
//! level to level are hashes. A *node* is a list of sketches, which says which of its children may
//! have a hash. A *digest* is a list of the hashes of a leaf, or of a tree, of which the nodes
//! above are made.
//!
//! *Knows*: prefixes, check characters and next characters of hashes; where nodes and digests are;
//! how a tree grows by a leaf; the search that keeps lists aligned.
//!
//! *Does not know*: when merges are due, how records are merged, what is in a run beside hashes.
//!
//! *Read in this order*: `cut.rs`, this file, `format.rs`, `list.rs` (writing), `hashes.rs`
//! (digests in the order of the log), `tree.rs`, `grow.rs`, `leaf.rs`, `search.rs`, `names.rs`,
//! `check.rs`.
//!
//! Conway, "Understanding Dictionaries at the Intersection of Theory and Practice" (2020), §2.5 and
//! §2.7. Lists are read through the cache of pages: they take memory only while they are used.
//!
//! Invariants:
//!
//! - **V1** The root of a level has fewer than λ children, the other nodes have λ. The tree of
//!   level i has height i.
//! - **V2** A node's list has an entry for each hash of each leaf below it: by prefix, then by
//!   leaf, the oldest first, then by hash. So the entries of a parent that name a child and
//!   continue with a character are, in order, the child's entries with that character next.
//! - **V3** A digest has the same hashes: by the prefix of its order, then by leaf, then by hash.
//! - **V4** Every hash of a run is in all lists above it. After a repair lists may have more.
//!
//! Where this differs from Conway's BOT:
//!
//! - A leaf is a run of many pages, of λ hash stores, and has an index of its own: what a node of
//!   height 1 leads to costs one page.
//! - The queue is that of the β-asymmetric BOT: a write costs more than a read. Every β-th height
//!   writes hashes again, so that no more than 256 lists are merged at once. It has whole hashes in
//!   place of the characters that are left.
//! - Once a part is rebuilt, its run is *settled*: below all trees, with a node of its own.
//! - A node that cannot be read is left out: the search goes to all of its children.

mod check;
mod cut;
pub mod format;
mod grow;
mod hashes;
mod leaf;
mod list;
pub mod names;
mod search;
#[cfg(test)]
mod tests;
mod tree;

pub use cut::Cut;
pub(super) use grow::{Growing, Grown, install};
pub(super) use leaf::{LeafWriter, is_spent};
pub use list::{Head, Writer};
pub(super) use search::Descent;
pub(super) use tree::Planted;
#[cfg(test)]
pub(super) use tree::{Child, Tree};

use super::lists::{self, Listing, Stored};
use alluvium_dictionary::fetch::Fetch;
use alluvium_storage::{Error, Result};
use std::task::{Poll, ready};

/// What a list consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it is a list of.
    pub head: Head,
    /// How many entries it has.
    pub entries: u64,
    /// How many of them are probably of keys of which a newer leaf below has a record.
    pub hidden: u64,
    pub(super) listing: Listing,
}

/// A node or a digest.
pub type List = Stored<Meta>;
/// A list that is written, and not yet part of a structure.
pub type Written = lists::Written<Meta>;
/// The entries of a list, in order.
pub(super) type Cursor<'f> = lists::Cursor<'f, Meta>;

impl Stored<Meta> {
    /// Fails unless it is the list that is expected there.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn required(self, head: Head) -> Result<List> {
        match self.meta.head == head {
            true => Ok(self),
            false => {
                let found = format!("{:?}", self.meta.head);
                Err(Error::corrupt(self.place(), format!("{head:?}"), found))
            }
        }
    }

    /// Returns what it is a list of.
    #[must_use]
    pub fn head(&self) -> Head {
        self.meta.head
    }

    /// Returns how many of its entries are probably of older records of a key.
    #[must_use]
    pub fn hidden(&self) -> u64 {
        self.meta.hidden
    }

    /// Returns the payloads of a prefix, in their order. Pending where a page is missing.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn payloads<F: Fetch>(&self, prefix: u64, fetch: &F) -> Poll<Result<Vec<u64>>> {
        let mut found = Vec::new();
        ready!(self.each_payload(prefix, fetch, &mut |payload| found.push(payload)))?;
        Poll::Ready(Ok(found))
    }
}
