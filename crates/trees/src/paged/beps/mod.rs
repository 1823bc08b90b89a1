//! The page-buffered Bε-tree of Rotte's thesis: messages wait in nodes and move down in blocks.
//!
//! *Knows*: when messages move, when nodes are split, who latches which node.
//!
//! *Does not know*: bytes of nodes, where pages are, threads, clocks.
//!
//! *Read in this order*: this file, `plan.rs` (which messages move), `flush.rs` (how they do),
//! `write.rs` (where they come from), `grow.rs` (the root), `drain.rs` (all of them),
//! `adapt.rs` (nodes that are divided each in its own way).
//!
//! Most messages end in the buffer of a node of the second level. The root has no buffer: it is
//! latched shared, unless a child of it must be split. Below the root a writer latches nodes
//! exclusively, a child before it leaves the parent.
//!
//! Deviations from the thesis. Messages have no timestamps: what is higher in the tree is
//! younger, and latches keep it so. After a split, what moves is planned again for each half,
//! so that a half with space keeps its messages. With few frames, flushes go depth first, and
//! pin a path only.
//!
//! Invariants:
//!
//! - **PE1** A message about a key is younger than all below its node.
//! - **PE2** A block that moves has at most as many messages as the smallest buffer may have: b,
//!   where all are divided alike. A node never has over 2 b, its own included.
//! - **PE3** A flush addresses ⌈(n + 1) / 2⌉ children at most, and its node has as many free
//!   pivots when it begins. So no split goes up.
//! - **PE4** While messages move, the node that they come from is latched exclusively, until
//!   they have arrived in latched children.
//! - **PE5** A failure while messages move ends reading and writing: they are lost in memory,
//!   and the last checkpoint has their state before.

mod adapt;
mod drain;
mod flush;
mod grow;
mod plan;
mod write;

use super::buffer::PageBuffer;
use super::core::Core;
use super::merge::Merging;
use super::node::{Epsilon, Last, Message, Operator, Shape, TreeSizes};
use super::store::Sort;
use super::tree::{PagedTree, WritePath};
use alluvium_storage::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the root is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootStyle {
    /// A node without buffer, over many subtrees: writers share its latch.
    #[default]
    Separate,
    /// A node with a buffer, like the others: each write latches it exclusively.
    Buffered,
}

/// In which order nodes pass messages on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushOrder {
    /// By level, unless the buffer has few frames.
    #[default]
    Automatic,
    /// Level by level: upper latches are free early, and many nodes are pinned together.
    Level,
    /// One child after the other: a path is pinned.
    Depth,
}

/// How a tree is made.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Limits of keys and values, and ε. They are kept with the tree.
    pub sizes: TreeSizes,
    /// Whether each node has an ε of its own in place of that of `sizes`. It is kept with the tree.
    pub epsilon: Epsilon,
    /// What the root is. It is kept with the tree.
    pub root: RootStyle,
    /// In which order nodes pass messages on.
    pub order: FlushOrder,
    /// What becomes of nodes that deletes leave under-full. It is kept with the tree.
    pub merging: Merging,
    /// How updates change values: the same as long as the tree exists.
    pub operator: Arc<dyn Operator>,
}

impl TreeOptions {
    /// Returns options with limits for keys and values, ε = 0.6, and updates that replace
    /// values.
    #[must_use]
    pub fn new(key_limit: usize, value_limit: usize) -> TreeOptions {
        TreeOptions {
            sizes: TreeSizes {
                key_limit,
                value_limit,
                epsilon_percent: 60,
            },
            epsilon: Epsilon::Fixed,
            root: RootStyle::Separate,
            order: FlushOrder::Automatic,
            merging: Merging::Never,
            operator: Arc::new(Last),
        }
    }

    /// Computes the shape of nodes in pages with `content_bytes` for them.
    pub(super) fn shape(&self, content_bytes: usize) -> Result<Shape> {
        match self.epsilon {
            Epsilon::Fixed => Shape::new(content_bytes, self.sizes),
            Epsilon::Adaptive => Shape::adaptive(content_bytes, self.sizes),
        }
    }
}

/// What a tree has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStatistics {
    /// Writes that latched the root exclusively after they had tried with a shared latch.
    pub retries: u64,
    /// Nodes that passed messages on.
    pub flushes: u64,
    /// Messages that they passed on.
    pub moved: u64,
    /// Leaves that were split.
    pub splits_of_leaves: u64,
    /// Other nodes that were split.
    pub splits_of_nodes: u64,
    /// How often the tree became a level higher.
    pub growths: u64,
    /// The most nodes that a flush held latched together.
    pub most_held: u64,
    /// Nodes that lookups visited.
    pub visited: u64,
    /// Descents that began again, because a writer had a node that was left.
    pub restarts: u64,
    /// Nodes that were merged into a neighbour, so that their pages became free.
    pub merges: u64,
    /// Under-full nodes that got some of what a neighbour had.
    pub balances: u64,
    /// How often the tree became a level lower.
    pub lowerings: u64,
    /// Nodes whose space was divided again between pivots and messages.
    pub divisions: u64,
}

/// A Bε-tree over a page buffer. All methods may be called from any thread.
///
/// ```
/// use alluvium_trees::paged::beps::{BepsTree, TreeOptions};
/// use alluvium_trees::paged::buffer::Arena;
/// let tree = BepsTree::create(Arena::new(4096)?, TreeOptions::new(16, 32))?;
/// tree.insert(b"river", b"Elbe")?;
/// tree.insert(b"lake", b"Como")?;
/// tree.delete(b"lake")?;
/// assert_eq!(tree.get(b"river")?.as_deref(), Some(&b"Elbe"[..]));
/// assert_eq!(tree.get(b"lake")?, None);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
pub type BepsTree<B> = PagedTree<B, Beps>;

/// How a Bε-tree is written to.
#[derive(Debug)]
pub struct Beps {
    style: RootStyle,
    goes_by_level: bool,
}

impl WritePath for Beps {
    const HAS_BUFFERS: bool = true;

    fn write<B: PageBuffer>(tree: &BepsTree<B>, message: Message<'_>) -> Result<()> {
        tree.write(message)
    }

    fn sort(&self) -> Sort {
        match self.style {
            RootStyle::Separate => Sort::Beps,
            RootStyle::Buffered => Sort::BepsBufferedRoot,
        }
    }
}

impl<B: PageBuffer> BepsTree<B> {
    /// Creates an empty tree.
    ///
    /// # Errors
    /// Sizes that do not fit; a full disk.
    pub fn create(buffer: B, options: TreeOptions) -> Result<BepsTree<B>> {
        let shape = options.shape(buffer.content_bytes())?;
        let mut core = Core::create(buffer, shape, options.operator)?;
        core.merging = options.merging;
        Ok(BepsTree::of(core, options.root, options.order))
    }

    pub(super) fn of(core: Core<B>, style: RootStyle, order: FlushOrder) -> BepsTree<B> {
        // What a flush by level may pin: all addressed children of the nodes of two levels.
        let frontier = core.shape.most_addressed() + 4;
        let is_ample = core.buffer.frames().is_none_or(|frames| frames >= 32 * frontier);
        assert!(frontier > 4, "a flush addresses a child");
        let goes_by_level = order == FlushOrder::Level || (order == FlushOrder::Automatic && is_ample);
        let path = Beps { style, goes_by_level };
        PagedTree { core, path }
    }

    /// Returns how pages are divided.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.core.shape
    }

    /// Returns what was counted.
    #[must_use]
    pub fn statistics(&self) -> TreeStatistics {
        let counters = &self.core.counters;
        TreeStatistics {
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
