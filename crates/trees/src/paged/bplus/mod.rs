//! A B⁺-tree with the same pages and latches as the Bε-tree: the baseline of the thesis (section
//! 6.2).
//!
//! *Scope*: when nodes are split; the order in which latches are acquired.
//!
//! *Must not depend on*: node layout, where pages are stored, threads, clocks.
//!
//! - **PT1** A writer first latches inner nodes in shared mode and the leaf exclusively, as
//!   described in `read/descent.rs`. If the leaf might overflow, the writer starts again with
//!   exclusive latches, and splits full nodes on the way down. It then holds two latches at a time,
//!   or three during a split, when it also latches the new right half.

mod write;

use super::buffer::PageBuffer;
use super::core::TreeCore;
use super::merge::UnderfullPolicy;
use super::node::{NodeMessage, NodeShape, TreeSizes, UpdateOperator};
use super::store::StoredTreeKind;
use super::tree::{PagedTree, WritePath};
use alluvium_storage::Result;
use std::sync::Arc;

/// A B⁺-tree in the pages of a page buffer. All methods may be called from any thread.
///
/// ```
/// use alluvium_trees::paged::bplus::BplusTree;
/// use alluvium_trees::paged::buffer::PageArena;
/// use alluvium_trees::paged::node::ReplaceOperator;
/// use std::sync::Arc;
/// let tree = BplusTree::create(PageArena::new(4096)?, 16, 32, Arc::new(ReplaceOperator))?;
/// tree.insert(b"river", b"Elbe")?;
/// tree.update(b"river", b"Labe")?;
/// assert_eq!(tree.get(b"river")?.as_deref(), Some(&b"Labe"[..]));
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
pub type BplusTree<B> = PagedTree<B, BplusWritePath>;

/// How a B⁺-tree processes the messages written to it.
#[derive(Debug)]
pub struct BplusWritePath;

impl WritePath for BplusWritePath {
    const HAS_BUFFERS: bool = false;

    fn write<B: PageBuffer>(tree: &BplusTree<B>, message: NodeMessage<'_>) -> Result<()> {
        tree.write(message)
    }

    fn sort(&self) -> StoredTreeKind {
        StoredTreeKind::Bplus
    }
}

/// Returns the sizes for a tree whose nodes have no buffers.
pub(super) fn sizes(key_limit: usize, value_limit: usize) -> TreeSizes {
    TreeSizes {
        key_limit,
        value_limit,
        // No node has a buffer, so the share of pivots has no effect.
        epsilon_percent: 100,
    }
}

impl<B: PageBuffer> BplusTree<B> {
    /// Creates an empty tree for keys and values up to the given lengths in bytes.
    ///
    /// # Errors
    /// An error if keys and values of these lengths do not fit into a page, or if the disk is full.
    pub fn create(
        buffer: B,
        key_limit: usize,
        value_limit: usize,
        operator: Arc<dyn UpdateOperator>,
    ) -> Result<BplusTree<B>> {
        Self::create_merging(buffer, (key_limit, value_limit), operator, UnderfullPolicy::Never)
    }

    /// Like [`BplusTree::create`], but lets the caller choose what happens to under-full nodes.
    ///
    /// ```
    /// use alluvium_trees::paged::UnderfullPolicy;
    /// use alluvium_trees::paged::bplus::BplusTree;
    /// use alluvium_trees::paged::buffer::PageArena;
    /// use alluvium_trees::paged::node::ReplaceOperator;
    /// use std::sync::Arc;
    /// let arena = PageArena::new(512)?;
    /// let tree = BplusTree::create_merging(
    ///     arena,
    ///     (8, 8),
    ///     Arc::new(ReplaceOperator),
    ///     UnderfullPolicy::UnderFull,
    /// )?;
    /// for number in 0..1000u64 {
    ///     tree.insert(&number.to_be_bytes(), b"value")?;
    /// }
    /// for number in 0..1000u64 {
    ///     tree.delete(&number.to_be_bytes())?;
    /// }
    /// assert_eq!(tree.buffer().pages_in_use(), 1);
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`BplusTree::create`].
    pub fn create_merging(
        buffer: B,
        (key_limit, value_limit): (usize, usize),
        operator: Arc<dyn UpdateOperator>,
        merging: UnderfullPolicy,
    ) -> Result<BplusTree<B>> {
        let shape = NodeShape::new(buffer.content_bytes(), sizes(key_limit, value_limit))?;
        assert!(shape.key_limit == key_limit, "the shape is as asked");
        let mut core = TreeCore::create(buffer, shape, operator)?;
        core.merging = merging;
        Ok(BplusTree::of(core))
    }

    pub(super) fn of(core: TreeCore<B>) -> BplusTree<B> {
        PagedTree {
            core,
            path: BplusWritePath,
        }
    }
}
