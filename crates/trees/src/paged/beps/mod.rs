//! The page-buffered Bε-tree of Rotte's thesis. Inner nodes buffer messages, which move down to the
//! leaves in blocks.
//!
//! *Scope*: when messages move down; when nodes are split; the order in which latches are acquired.
//!
//! *Must not depend on*: node layout, where pages are stored, threads, clocks.
//!
//! Most messages are written to the buffer of a node one level below the root. The root has no
//! buffer, so writers latch it in shared mode unless one of its children must be split. Below the
//! root, a writer latches nodes exclusively, and latches each child before it releases the parent.
//!
//! The tree differs from the thesis in three ways. First, messages have no timestamps, because
//! messages in higher nodes are always newer, and latches preserve this order. Second, after a
//! split the flush is planned again for each half, so that a half with enough free space keeps its
//! messages. Third, if the page buffer has few frames, flushes proceed depth first, so that they
//! pin only one path.
//!
//! Invariants:
//!
//! - **PE1** A message for a key is newer than all messages for that key in lower nodes.
//! - **PE2** A block never has more messages than the smallest buffer can hold (b, if all nodes
//!   divide their space in the same way). Even after receiving a block, a node therefore never has
//!   more than 2 b messages.
//! - **PE3** A flush moves messages to at most ⌈(n + 1) / 2⌉ children, and its node has at least as
//!   many free pivots when the flush begins. Splitting a child therefore never forces its parent to
//!   split.
//! - **PE4** While messages are being moved, their source node stays latched exclusively until
//!   latched children contain them.
//! - **PE5** If an operation fails while it is moving messages, they are lost from memory, and only
//!   the last checkpoint still contains them. The tree then refuses all further reads and writes.

mod adapt;
mod drain;
mod flush;
mod grow;
mod plan;
mod write;

use super::buffer::PageBuffer;
use super::core::TreeCore;
use super::merge::UnderfullPolicy;
use super::node::{EpsilonMode, NodeMessage, NodeShape, ReplaceOperator, TreeSizes, UpdateOperator};
use super::store::StoredTreeKind;
use super::tree::{PagedTree, WritePath};
use alluvium_storage::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootStyle {
    /// The root has no buffer and many children. Writers latch it in shared mode.
    #[default]
    Separate,
    /// The root has a buffer, like other inner nodes. Each write latches it exclusively.
    Buffered,
}

/// The order in which the nodes of a subtree flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushOrder {
    /// Level by level, unless the page buffer has few frames.
    #[default]
    Automatic,
    /// Level by level. The latches of upper nodes are released early, but many nodes are pinned at
    /// the same time.
    Level,
    /// One child after another. Only one path is pinned at a time.
    Depth,
}

#[derive(Clone, Debug)]
pub struct BepsOptions {
    /// Limits for keys and values, and ε. They are stored with the tree.
    pub sizes: TreeSizes,
    /// Whether each node has its own ε, instead of the ε in `sizes`. This is stored with the tree.
    pub epsilon: EpsilonMode,
    /// The kind of root, which is stored with the tree.
    pub root: RootStyle,
    /// The order in which nodes flush, which is not stored.
    pub order: FlushOrder,
    /// What to do with nodes that deletes leave under-full. This is stored with the tree.
    pub merging: UnderfullPolicy,
    /// The operator that applies updates to values. It must be the same each time the tree is
    /// opened.
    pub operator: Arc<dyn UpdateOperator>,
}

impl BepsOptions {
    /// Returns options with the given length limits for keys and values in bytes, ε = 0.6, and an
    /// operator that replaces the previous value.
    #[must_use]
    pub fn new(key_limit: usize, value_limit: usize) -> BepsOptions {
        BepsOptions {
            sizes: TreeSizes {
                key_limit,
                value_limit,
                epsilon_percent: 60,
            },
            epsilon: EpsilonMode::Fixed,
            root: RootStyle::Separate,
            order: FlushOrder::Automatic,
            merging: UnderfullPolicy::Never,
            operator: Arc::new(ReplaceOperator),
        }
    }

    /// Computes the node layout for pages that offer `content_bytes` bytes to a node.
    pub(super) fn shape(&self, content_bytes: usize) -> Result<NodeShape> {
        match self.epsilon {
            EpsilonMode::Fixed => NodeShape::new(content_bytes, self.sizes),
            EpsilonMode::Adaptive => NodeShape::adaptive(content_bytes, self.sizes),
        }
    }
}

/// Counters of a Bε-tree, which start at zero when the tree is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BepsStatistics {
    /// Number of writes that first latched the root in shared mode, but then had to latch it
    /// exclusively.
    pub retries: u64,
    pub flushes: u64,
    /// Number of messages that flushes moved to children.
    pub moved: u64,
    pub splits_of_leaves: u64,
    /// Number of inner nodes that were split.
    pub splits_of_nodes: u64,
    /// Number of times that the tree gained a level.
    pub growths: u64,
    /// Maximum number of nodes that a flush held latched at the same time.
    pub most_held: u64,
    /// Number of nodes that lookups visited.
    pub visited: u64,
    /// Number of descents that had to start again because a writer had changed a node in the
    /// meantime.
    pub restarts: u64,
    /// Number of nodes that were merged into a neighbour, each of which freed a page.
    pub merges: u64,
    /// Number of under-full nodes that received part of a neighbour's content.
    pub balances: u64,
    /// Number of times that the tree lost a level.
    pub lowerings: u64,
    /// Number of times that a node's space was redivided between pivots and messages.
    pub divisions: u64,
}

/// A Bε-tree in the pages of a page buffer. All methods may be called from any thread.
///
/// ```
/// use alluvium_trees::paged::beps::{BepsTree, BepsOptions};
/// use alluvium_trees::paged::buffer::PageArena;
/// let tree = BepsTree::create(PageArena::new(4096)?, BepsOptions::new(16, 32))?;
/// tree.insert(b"river", b"Elbe")?;
/// tree.insert(b"lake", b"Como")?;
/// tree.delete(b"lake")?;
/// assert_eq!(tree.get(b"river")?.as_deref(), Some(&b"Elbe"[..]));
/// assert_eq!(tree.get(b"lake")?, None);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
pub type BepsTree<B> = PagedTree<B, BepsWritePath>;

/// How a Bε-tree processes the messages written to it.
#[derive(Debug)]
pub struct BepsWritePath {
    style: RootStyle,
    goes_by_level: bool,
}

impl WritePath for BepsWritePath {
    const HAS_BUFFERS: bool = true;

    fn write<B: PageBuffer>(tree: &BepsTree<B>, message: NodeMessage<'_>) -> Result<()> {
        tree.write(message)
    }

    fn sort(&self) -> StoredTreeKind {
        match self.style {
            RootStyle::Separate => StoredTreeKind::Beps,
            RootStyle::Buffered => StoredTreeKind::BepsBufferedRoot,
        }
    }
}

impl<B: PageBuffer> BepsTree<B> {
    /// Creates an empty tree.
    ///
    /// # Errors
    /// An error if keys and values of these lengths do not fit into a page, or if the disk is full.
    pub fn create(buffer: B, options: BepsOptions) -> Result<BepsTree<B>> {
        let shape = options.shape(buffer.content_bytes())?;
        let mut core = TreeCore::create(buffer, shape, options.operator)?;
        core.merging = options.merging;
        Ok(BepsTree::of(core, options.root, options.order))
    }

    pub(super) fn of(core: TreeCore<B>, style: RootStyle, order: FlushOrder) -> BepsTree<B> {
        // A flush by level may have two levels of nodes pinned while it moves messages to their
        // children.
        let frontier = core.shape.most_addressed() + 4;
        let is_ample = core.buffer.frames().is_none_or(|frames| frames >= 32 * frontier);
        assert!(frontier > 4, "a flush addresses a child");
        let goes_by_level = order == FlushOrder::Level || (order == FlushOrder::Automatic && is_ample);
        let path = BepsWritePath { style, goes_by_level };
        PagedTree { core, path }
    }

    /// Returns the layout of the tree's nodes.
    #[must_use]
    pub fn shape(&self) -> &NodeShape {
        &self.core.shape
    }

    /// Returns the counters of the tree.
    #[must_use]
    pub fn statistics(&self) -> BepsStatistics {
        let counters = &self.core.counters;
        BepsStatistics {
            retries: counters.retries.load(Ordering::Relaxed),
            flushes: counters.flushes.load(Ordering::Relaxed),
            moved: counters.moved.load(Ordering::Relaxed),
            splits_of_leaves: counters.splits_of_leaves.load(Ordering::Relaxed),
            splits_of_nodes: counters.splits_of_nodes.load(Ordering::Relaxed),
            growths: counters.growths.load(Ordering::Relaxed),
            most_held: counters.most_held.load(Ordering::Relaxed),
            visited: counters.visited.load(Ordering::Relaxed),
            restarts: counters.restarts.load(Ordering::Relaxed),
            merges: counters.merges.load(Ordering::Relaxed),
            balances: counters.balances.load(Ordering::Relaxed),
            lowerings: counters.lowerings.load(Ordering::Relaxed),
            divisions: counters.divisions.load(Ordering::Relaxed),
        }
    }
}
