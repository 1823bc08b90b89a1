//! A B⁺-tree on the pages and latches of the Bε-tree: its reference in the thesis (section
//! 6.2).
//!
//! *Knows*: when nodes are split, who latches which node.
//!
//! *Does not know*: bytes of nodes, where pages are, threads, clocks.
//!
//! *Read in this order*: this file, `write.rs`.
//!
//! - **PT1** A writer latches nodes shared on its way and the leaf exclusively, each as
//!   `read/descent.rs` has it. Where the leaf may overflow, it begins again: it splits full nodes
//!   on the way down, and latches two of them at a time, and the right half of a split.

mod write;

use super::buffer::PageBuffer;
use super::core::Core;
use super::error::Result;
use super::merge::Merging;
use super::node::{Action, Message, Operator, Shape, TreeSizes};
use super::read::{Bounds, Coupling, Examined, Scan};
use std::sync::Arc;

/// A B⁺-tree over a page buffer. All methods may be called from any thread.
///
/// ```
/// use alluvium_trees::paged::bplus::BplusTree;
/// use alluvium_trees::paged::buffer::Arena;
/// use alluvium_trees::paged::node::Last;
/// use std::sync::Arc;
/// let tree = BplusTree::create(Arena::new(4096)?, 16, 32, Arc::new(Last))?;
/// tree.insert(b"river", b"Elbe")?;
/// tree.update(b"river", b"Labe")?;
/// assert_eq!(tree.get(b"river")?.as_deref(), Some(&b"Labe"[..]));
/// # Ok::<(), alluvium_trees::paged::Error>(())
/// ```
#[derive(Debug)]
pub struct BplusTree<B> {
    pub(super) core: Core<B>,
}

/// Returns the sizes of a tree without buffers.
pub(super) fn sizes(key_limit: usize, value_limit: usize) -> TreeSizes {
    TreeSizes {
        key_limit,
        value_limit,
        // Nodes with buffers do not occur; any share of pivots will do.
        epsilon_percent: 100,
    }
}

impl<B: PageBuffer> BplusTree<B> {
    /// Creates an empty tree for keys and values up to these lengths in bytes.
    ///
    /// # Errors
    /// Sizes that do not fit; a full disk.
    pub fn create(
        buffer: B,
        key_limit: usize,
        value_limit: usize,
        operator: Arc<dyn Operator>,
    ) -> Result<BplusTree<B>> {
        Self::create_merging(buffer, (key_limit, value_limit), operator, Merging::Never)
    }

    /// Creates an empty tree, and says what becomes of its under-full nodes.
    ///
    /// ```
    /// use alluvium_trees::paged::Merging;
    /// use alluvium_trees::paged::bplus::BplusTree;
    /// use alluvium_trees::paged::buffer::Arena;
    /// use alluvium_trees::paged::node::Last;
    /// use std::sync::Arc;
    /// let arena = Arena::new(512)?;
    /// let tree = BplusTree::create_merging(arena, (8, 8), Arc::new(Last), Merging::UnderFull)?;
    /// for number in 0..1000u64 {
    ///     tree.insert(&number.to_be_bytes(), b"value")?;
    /// }
    /// for number in 0..1000u64 {
    ///     tree.delete(&number.to_be_bytes())?;
    /// }
    /// assert_eq!(tree.buffer().pages_in_use(), 1);
    /// # Ok::<(), alluvium_trees::paged::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`BplusTree::create`].
    pub fn create_merging(
        buffer: B,
        (key_limit, value_limit): (usize, usize),
        operator: Arc<dyn Operator>,
        merging: Merging,
    ) -> Result<BplusTree<B>> {
        let shape = Shape::new(buffer.content_bytes(), sizes(key_limit, value_limit))?;
        assert!(shape.key_limit == key_limit, "the shape is as asked");
        let mut core = Core::create(buffer, shape, operator)?;
        core.merging = merging;
        Ok(BplusTree { core })
    }

    /// Sets how readers and writers go from a node to its child. It is not kept with the tree.
    #[must_use]
    pub fn coupled_by(mut self, coupling: Coupling) -> BplusTree<B> {
        self.core.coupling = coupling;
        self
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// A key or a value that is too long; a full disk; as the device says.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(Message {
            key,
            action: Action::Insert,
            operand: value,
        })
    }

    /// Combines the value of a key with another, by the operator. A key without a value stays
    /// so.
    ///
    /// # Errors
    /// As [`BplusTree::insert`].
    pub fn update(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.write(Message {
            key,
            action: Action::Update,
            operand,
        })
    }

    /// Takes a key away, if it is there.
    ///
    /// # Errors
    /// As [`BplusTree::insert`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(Message {
            key,
            action: Action::Delete,
            operand: &[],
        })
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
    /// As [`BplusTree::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.core.get(key, value)
    }

    /// Begins a walk over the keys of a range, which can be taken from both ends.
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
        assert_eq!(examined.messages, 0, "no node has a buffer");
        Ok(examined)
    }

    /// Returns the page buffer.
    #[must_use]
    pub fn buffer(&self) -> &B {
        &self.core.buffer
    }
}
