//! The public type of a tree in pages: operations common to Bε-trees and B⁺-trees.

use super::buffer::{PageBuffer, PagePool};
use super::core::TreeCore;
use super::node::{MessageAction, NodeMessage};
use super::read::{PagedTreeScan, ScanBounds, TreeWalkReport};
use super::store::StoredTreeKind;
use alluvium_storage::Result;
use std::fmt;

/// A tree over a page buffer. All methods may be called from any thread.
#[derive(Debug)]
pub struct PagedTree<B, W> {
    pub(super) core: TreeCore<B>,
    pub(super) path: W,
}

/// The way in which messages are written to a tree.
pub trait WritePath: fmt::Debug + Send + Sync + Sized + 'static {
    /// Whether nodes have buffers for messages.
    const HAS_BUFFERS: bool;

    /// Writes a message to a tree.
    ///
    /// # Errors
    /// A key or a value that is too long; a full disk; I/O errors.
    fn write<B: PageBuffer>(tree: &PagedTree<B, Self>, message: NodeMessage<'_>) -> Result<()>;

    /// Returns the kind of tree that a file records.
    fn sort(&self) -> StoredTreeKind;
}

impl<B: PageBuffer, W: WritePath> PagedTree<B, W> {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// A key or a value that is too long; a full disk; I/O errors.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let action = MessageAction::Insert;
        let operand = value;
        W::write(self, NodeMessage { key, action, operand })
    }

    /// Combines the value of a key with an operand, by the tree's operator. A key without a value
    /// is not changed.
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

    /// Returns the value of a key.
    ///
    /// # Errors
    /// I/O errors; damage.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.core.get(key, &mut value)?.then_some(value))
    }

    /// Copies the value of a key into `value`, and returns whether the key has one.
    ///
    /// # Errors
    /// The errors of [`PagedTree::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.core.get(key, value)
    }

    /// Returns an iterator over the keys of a range. It is double-ended.
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

    /// Walks all nodes and reports errors in them. Writers wait until it is done.
    ///
    /// # Errors
    /// I/O errors; damage that ends the walk.
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
    /// Makes the current state of the tree durable, with up to 512 bytes of its owner's data. A
    /// crash restores this state.
    ///
    /// # Errors
    /// I/O errors. After any error except a full disk, the tree refuses changes.
    pub fn checkpoint(&self, own: &[u8]) -> Result<()> {
        self.core.checkpoint(self.path.sort(), own)
    }

    /// Walks all nodes, and accounts for all pages of the file.
    ///
    /// # Errors
    /// I/O errors; damage that ends the walk.
    pub fn check(&self) -> Result<TreeWalkReport> {
        self.core.check()
    }
}
