//! The front of a tree in pages: what a Bε-tree and a B⁺-tree do alike.

use super::buffer::{PageBuffer, Pool};
use super::core::Core;
use super::node::{Action, Message};
use super::read::{Bounds, Examined, Scan};
use super::store::Sort;
use alluvium_storage::Result;
use std::fmt;

/// A tree over a page buffer. All methods may be called from any thread.
#[derive(Debug)]
pub struct PagedTree<B, W> {
    pub(super) core: Core<B>,
    pub(super) path: W,
}

/// How messages are written to a tree.
pub trait WritePath: fmt::Debug + Send + Sync + Sized + 'static {
    /// Whether nodes have buffers for messages.
    const HAS_BUFFERS: bool;

    /// Writes a message to a tree.
    ///
    /// # Errors
    /// A key or a value that is too long; a full disk; I/O errors.
    fn write<B: PageBuffer>(tree: &PagedTree<B, Self>, message: Message<'_>) -> Result<()>;

    /// Returns which tree it is in a file.
    fn sort(&self) -> Sort;
}

impl<B: PageBuffer, W: WritePath> PagedTree<B, W> {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// A key or a value that is too long; a full disk; as the device says.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let action = Action::Insert;
        let operand = value;
        W::write(self, Message { key, action, operand })
    }

    /// Combines the value of a key with another, by the operator. A key without a value stays
    /// so.
    ///
    /// # Errors
    /// As [`PagedTree::insert`].
    pub fn update(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let action = Action::Update;
        W::write(self, Message { key, action, operand })
    }

    /// Takes a key away, if it is there.
    ///
    /// # Errors
    /// As [`PagedTree::insert`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let (action, operand) = (Action::Delete, &[][..]);
        W::write(self, Message { key, action, operand })
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.core.get(key, &mut value)?.then_some(value))
    }

    /// Puts the value of a key into `value`, and returns whether the key has one.
    ///
    /// # Errors
    /// As [`PagedTree::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.core.get(key, value)
    }

    /// Begins a walk over the keys of a range, which can be taken from both ends.
    ///
    /// ```
    /// use alluvium_trees::paged::beps::{BepsTree, TreeOptions};
    /// use alluvium_trees::paged::buffer::Arena;
    /// use alluvium_trees::paged::read::Bounds;
    /// let tree = BepsTree::create(Arena::new(4096)?, TreeOptions::new(16, 32))?;
    /// for key in [b"a", b"b", b"c"] {
    ///     tree.insert(key, b"1")?;
    /// }
    /// let pairs: Result<Vec<_>, _> = tree.scan(Bounds::default()).rev().collect();
    /// assert_eq!(pairs?[0], (b"c".to_vec(), b"1".to_vec()));
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn scan(&self, bounds: Bounds) -> Scan<'_, B> {
        Scan::new(&self.core, bounds)
    }

    /// Walks all nodes and returns what is wrong with them. Writers wait meanwhile.
    ///
    /// # Errors
    /// As the device says; damage that ends the walk.
    pub fn examine(&self) -> Result<Examined> {
        let examined = self.core.examine()?;
        assert!(
            W::HAS_BUFFERS || examined.messages == 0,
            "no node of this tree has a buffer"
        );
        Ok(examined)
    }

    /// Returns the page buffer.
    #[must_use]
    pub fn buffer(&self) -> &B {
        &self.core.buffer
    }
}

impl<W: WritePath> PagedTree<Pool, W> {
    /// Makes the tree, and up to 512 bytes of its owner, the state that a crash leaves.
    ///
    /// # Errors
    /// As the device says. Unless it is a full disk, changes are refused from then on.
    pub fn checkpoint(&self, own: &[u8]) -> Result<()> {
        self.core.checkpoint(self.path.sort(), own)
    }

    /// Walks all nodes, and accounts for all pages of the file.
    ///
    /// # Errors
    /// As the device says; damage that ends the walk.
    pub fn check(&self) -> Result<Examined> {
        self.core.check()
    }
}
