//! The public type of a paged tree, with the operations shared by Bε-trees and B⁺-trees.

use super::buffer::{PageBuffer, PagePool};
use super::core::TreeCore;
use super::node::{MessageAction, NodeMessage};
use super::read::{PagedTreeScan, ScanBounds, TreeWalkReport};
use super::store::StoredTreeKind;
use alluvium_storage::Result;
use std::fmt;

/// A tree in the pages of a page buffer. All methods may be called from any thread.
#[derive(Debug)]
pub struct PagedTree<B, W> {
    pub(super) core: TreeCore<B>,
    pub(super) path: W,
}

/// How a kind of tree processes the messages written to it.
pub trait WritePath: fmt::Debug + Send + Sync + Sized + 'static {
    /// Whether inner nodes have buffers for messages.
    const HAS_BUFFERS: bool;

    /// Writes a message to a tree.
    ///
    /// # Errors
    /// A key or a value that is too long; an error if the disk is full; I/O errors.
    fn write<B: PageBuffer>(tree: &PagedTree<B, Self>, message: NodeMessage<'_>) -> Result<()>;

    /// Returns the kind of tree, as stored in the page file.
    fn sort(&self) -> StoredTreeKind;
}

impl<B: PageBuffer, W: WritePath> PagedTree<B, W> {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// A key or a value that is too long; an error if the disk is full; I/O errors.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let action = MessageAction::Insert;
        let operand = value;
        W::write(self, NodeMessage { key, action, operand })
    }

    /// Combines a key's value with an operand, using the tree's update operator. If the key has no
    /// value, nothing changes.
    ///
    /// # Errors
    /// The errors of [`PagedTree::insert`].
    pub fn update(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let action = MessageAction::Update;
        W::write(self, NodeMessage { key, action, operand })
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    /// The errors of [`PagedTree::insert`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let (action, operand) = (MessageAction::Delete, &[][..]);
        W::write(self, NodeMessage { key, action, operand })
    }

    /// Returns the value of a key, or `None` if the key does not exist.
    ///
    /// # Errors
    /// I/O errors, or an error if a page is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.core.get(key, &mut value)?.then_some(value))
    }

    /// Copies the value of a key into `value`. Returns whether the key has a value.
    ///
    /// # Errors
    /// The errors of [`PagedTree::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.core.get(key, value)
    }

    /// Returns a double-ended iterator over the keys in a range.
    ///
    /// ```
    /// use alluvium_trees::paged::beps::{BepsTree, BepsOptions};
    /// use alluvium_trees::paged::buffer::PageArena;
    /// use alluvium_trees::paged::read::ScanBounds;
    /// let tree = BepsTree::create(PageArena::new(4096)?, BepsOptions::new(16, 32))?;
    /// for key in [b"a", b"b", b"c"] {
    ///     tree.insert(key, b"1")?;
    /// }
    /// let pairs: Result<Vec<_>, _> = tree.scan(ScanBounds::default()).rev().collect();
    /// assert_eq!(pairs?[0], (b"c".to_vec(), b"1".to_vec()));
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn scan(&self, bounds: ScanBounds) -> PagedTreeScan<'_, B> {
        PagedTreeScan::new(&self.core, bounds)
    }

    /// Visits all nodes of the tree and returns the errors found in them. Writers wait until the
    /// visit ends.
    ///
    /// # Errors
    /// I/O errors, or an error if damage prevents further nodes from being visited.
    pub fn examine(&self) -> Result<TreeWalkReport> {
        let examined = self.core.examine()?;
        assert!(
            W::HAS_BUFFERS || examined.messages == 0,
            "no node of this tree has a buffer"
        );
        Ok(examined)
    }

    #[must_use]
    pub fn buffer(&self) -> &B {
        &self.core.buffer
    }
}

impl<W: WritePath> PagedTree<PagePool, W> {
    /// Makes the current state of the tree durable, and with it up to 512 bytes of the caller's own
    /// data. A crash restores the tree to its latest checkpoint.
    ///
    /// # Errors
    /// I/O errors. After any error except a full disk, the tree refuses further changes.
    pub fn checkpoint(&self, own: &[u8]) -> Result<()> {
        self.core.checkpoint(self.path.sort(), own)
    }

    /// Visits all nodes of the tree, and checks that every page of the file is either free or used
    /// exactly once.
    ///
    /// # Errors
    /// I/O errors, or an error if damage prevents further nodes from being visited.
    pub fn check(&self) -> Result<TreeWalkReport> {
        self.core.check()
    }
}
