//! The page-buffered Bε-tree of Rotte's thesis: messages wait in nodes and move down in blocks.
//!
//! *Scope*: when messages move, when nodes are split, the order of latches.
//!
//! *Must not depend on*: the layout of nodes, where pages are stored, threads, clocks.
//!
//! Most messages are written to the buffer of a node of the second level. The root has no buffer,
//! so it is latched shared, unless one of its children must be split. Below the root a writer
//! latches nodes exclusively, each child before it releases the parent.
//!
//! Deviations from the thesis: messages have no timestamps, because messages higher in the tree are
//! younger and latches preserve that order. After a split, the flush is planned again for each
//! half, so that a half with free space keeps its messages. With few frames, flushes go depth first
//! and pin only one path.
//!
//! Invariants:
//!
//! - **PE1** A message about a key is younger than all messages about it below its node.
//! - **PE2** A block has at most as many messages as the smallest buffer: b, if all nodes are
//!   divided alike. With an incoming block, a node never has more than 2 b messages.
//! - **PE3** A flush addresses at most ⌈(n + 1) / 2⌉ children, and its node has as many free pivots
//!   when it begins. So a split never propagates upwards.
//! - **PE4** While messages move, their source node is latched exclusively until they have arrived
//!   in latched children.
//! - **PE5** A failure while messages move ends all reading and writing: the messages are lost in
//!   memory, and only the last checkpoint has the state before them.

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
    /// A node without a buffer, over many subtrees: writers share its latch.
    #[default]
    Separate,
    /// A node with a buffer, like other inner nodes: each write latches it exclusively.
    Buffered,
}

/// The order in which nodes flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushOrder {
    /// By level, unless the buffer has few frames.
    #[default]
    Automatic,
    /// Level by level: upper latches are released early, but many nodes are pinned at once.
    Level,
    /// One child after the other: only one path is pinned.
    Depth,
}

#[derive(Clone, Debug)]
pub struct BepsOptions {
    /// Limits of keys and values, and ε; stored with the tree.
    pub sizes: TreeSizes,
    /// Whether each node has its own ε in place of that of `sizes`; stored with the tree.
    pub epsilon: EpsilonMode,
    /// The kind of root; stored with the tree.
    pub root: RootStyle,
    /// The order in which nodes flush; not stored.
    pub order: FlushOrder,
    /// The treatment of nodes that deletes leave under-full; stored with the tree.
    pub merging: UnderfullPolicy,
    /// The operator that applies updates to values. It must be the same at each opening.
    pub operator: Arc<dyn UpdateOperator>,
}

impl BepsOptions {
    /// Returns options with these limits for keys and values, ε = 0.6, and updates that replace
    /// values.
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

    /// Computes the shape of nodes for pages with `content_bytes` bytes of content.
    pub(super) fn shape(&self, content_bytes: usize) -> Result<NodeShape> {
        match self.epsilon {
            EpsilonMode::Fixed => NodeShape::new(content_bytes, self.sizes),
            EpsilonMode::Adaptive => NodeShape::adaptive(content_bytes, self.sizes),
        }
    }
}

/// Counters since the tree was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BepsStatistics {
    /// Writes that latched the root exclusively, after an attempt with a shared latch.
    pub retries: u64,
    pub flushes: u64,
    /// Messages that flushes moved to children.
    pub moved: u64,
    pub splits_of_leaves: u64,
    /// Splits of nodes that are not leaves.
    pub splits_of_nodes: u64,
    /// How often the tree grew by a level.
    pub growths: u64,
    /// The most nodes that a flush held latched at once.
    pub most_held: u64,
    /// Nodes that lookups visited.
    pub visited: u64,
    /// Descents that were restarted because a writer had changed a node in the meantime.
    pub restarts: u64,
    /// Nodes that were merged into a neighbour, which freed their pages.
    pub merges: u64,
    /// Under-full nodes that received content of a neighbour.
    pub balances: u64,
    /// How often the tree became a level lower.
    pub lowerings: u64,
    /// Nodes whose space was divided again between pivots and messages.
    pub divisions: u64,
}

/// A Bε-tree over a page buffer. All methods may be called from any thread.
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

/// The write path of a Bε-tree.
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
    /// Sizes that do not fit; a full disk.
    pub fn create(buffer: B, options: BepsOptions) -> Result<BepsTree<B>> {
        let shape = options.shape(buffer.content_bytes())?;
        let mut core = TreeCore::create(buffer, shape, options.operator)?;
        core.merging = options.merging;
        Ok(BepsTree::of(core, options.root, options.order))
    }

    pub(super) fn of(core: TreeCore<B>, style: RootStyle, order: FlushOrder) -> BepsTree<B> {
        // A flush by level may pin all addressed children of the nodes of two levels.
        let frontier = core.shape.most_addressed() + 4;
        let is_ample = core.buffer.frames().is_none_or(|frames| frames >= 32 * frontier);
        assert!(frontier > 4, "a flush addresses a child");
        let goes_by_level = order == FlushOrder::Level || (order == FlushOrder::Automatic && is_ample);
        let path = BepsWritePath { style, goes_by_level };
        PagedTree { core, path }
    }

    /// Returns the layout of the tree's pages.
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
