//! Creates, opens, checkpoints and checks trees in files.
//!
//! *Scope*: the metadata of a tree, which is stored with its pages.
//!
//! *Must not depend on*: how pages survive a crash (`buffer`), what happens between checkpoints.
//!
//! - **PS1** Opening a tree restores its last checkpoint and the data that the owner stored there.
//!   The owner must replay later writes from its own log.
//! - **PS2** No writer is active during a checkpoint.

mod format;
mod hosted;

pub(super) use format::{StoredTreeKind, example, reread};

use super::beps::{BepsOptions, BepsTree, FlushOrder, RootStyle};
use super::bplus::{self, BplusTree};
use super::buffer::{PAGE_HEADER, PagePool, PageValidator, PoolOptions};
use super::core::TreeCore;
use super::error::no_tree;
use super::merge::UnderfullPolicy;
use super::node::{EpsilonMode, NodeShape, PageContentKind, UpdateOperator, kind};
use super::read::TreeWalkReport;
use super::tree::WritePath;
use alluvium_device::Directory;
use alluvium_storage::{Error, Result};
use format::{MOST_OWN, TreeMetadata};
use std::sync::{Arc, OnceLock};

/// The location of a tree's files.
#[derive(Clone, Copy, Debug)]
pub struct TreeLocation<'d> {
    pub directory: &'d dyn Directory,
    /// The name of the page file. The journal file has the same name with the suffix `.journal`.
    pub name: &'d str,
}

/// Returns how many bytes of a page are available for a node.
fn content_bytes(pool: &PoolOptions) -> usize {
    pool.page_bytes.saturating_sub(PAGE_HEADER)
}

impl TreeCore<PagePool> {
    fn create_in(
        place: TreeLocation<'_>,
        identity: u128,
        pool: PoolOptions,
        shape: NodeShape,
        operator: Arc<dyn UpdateOperator>,
        (sort, merging): (StoredTreeKind, UnderfullPolicy),
    ) -> Result<TreeCore<PagePool>> {
        let validate = Arc::new(move |content: &[u8]| shape.validate(content));
        let pool = PagePool::create(place.directory, place.name, identity, pool, validate)?;
        let mut core = TreeCore::create(pool, shape, operator)?;
        core.merging = merging;
        core.checkpoint(sort, &[])?;
        assert!(core.height()? == 0, "a tree begins as a leaf");
        Ok(core)
    }

    /// Opens the tree as of the last checkpoint. Returns the tree and its metadata.
    fn open_in(
        place: TreeLocation<'_>,
        pool: PoolOptions,
        operator: Arc<dyn UpdateOperator>,
    ) -> Result<(TreeCore<PagePool>, TreeMetadata)> {
        Self::open_by(place.name, operator, |validate| {
            PagePool::open(place.directory, place.name, pool, validate)
        })
    }

    /// Opens a tree from the pages and metadata that `open` returns.
    fn open_by(
        name: &str,
        operator: Arc<dyn UpdateOperator>,
        open: impl FnOnce(Arc<PageValidator>) -> Result<(PagePool, Vec<u8>)>,
    ) -> Result<(TreeCore<PagePool>, TreeMetadata)> {
        let shape: Arc<OnceLock<NodeShape>> = Arc::default();
        let known = Arc::clone(&shape);
        // Until the node layout is known, only free pages may be read.
        let validate = Arc::new(move |content: &[u8]| match known.get() {
            Some(shape) => hosted::validate(shape, content),
            None if kind(content) == Some(PageContentKind::Free) => Ok(()),
            None => Err("a page that is not free".to_owned()),
        });
        let (pool, meta) = open(validate)?;
        let refused = |why: String| no_tree(name, why);
        let meta =
            TreeMetadata::decode(&meta).ok_or_else(|| refused("its creation was not finished".to_owned()))?;
        let limits = (usize::from(meta.key_limit), usize::from(meta.value_limit));
        let counts = (usize::from(meta.n), usize::from(meta.b));
        let content = super::buffer::PageBuffer::content_bytes(&pool);
        let of = NodeShape::of(content, limits.0, limits.1, counts.0, counts.1);
        let of = of.and_then(|shape| match meta.epsilon {
            EpsilonMode::Fixed => Ok(shape),
            EpsilonMode::Adaptive => shape.divided_by_nodes(),
        });
        let of = of.map_err(|error| refused(format!("its shape does not fit: {error}")))?;
        shape.get_or_init(|| of);
        let mut core = TreeCore::of(pool, of, meta.root, operator);
        core.merging = meta.merging;
        core.height()?;
        assert!(core.shape == of, "nodes are checked by the tree's shape (PB5)");
        Ok((core, meta))
    }

    pub(super) fn checkpoint(&self, sort: StoredTreeKind, own: &[u8]) -> Result<()> {
        if own.len() > MOST_OWN {
            return Err(Error::BadOption {
                option: "own",
                why: format!("{} bytes exceed the limit of {MOST_OWN}", own.len()),
            });
        }
        // Write most pages first, while writers can still continue.
        self.buffer.write_dirty()?;
        let _alone = self.gate.write();
        self.readable()?;
        self.buffer.checkpoint(&self.meta(sort, own).encode())
    }

    fn meta(&self, sort: StoredTreeKind, own: &[u8]) -> TreeMetadata {
        let shape = &self.shape;
        let meta = TreeMetadata {
            sort,
            merging: self.merging,
            epsilon: match shape.own {
                None => EpsilonMode::Fixed,
                Some(_) => EpsilonMode::Adaptive,
            },
            key_limit: shape.key_limit as u16,
            value_limit: shape.value_limit as u16,
            n: shape.pivots.capacity() as u16,
            b: shape.buffer.capacity() as u16,
            root: self.root,
            own: own.to_vec(),
        };
        assert!(
            usize::from(meta.value_limit) == shape.value_limit,
            "sizes of a page have two bytes"
        );
        meta
    }

    /// Visits all nodes of the tree. Reports pages that are neither reachable nor free, and pages
    /// that are both.
    pub(super) fn check(&self) -> Result<TreeWalkReport> {
        let mut examined = self.examine()?;
        let free = self.buffer.free_pages();
        let pages = self.buffer.statistics().pages;
        let both = free.iter().filter(|page| examined.pages.contains(page)).count();
        let accounted = examined.pages.len() as u64 + free.len() as u64;
        if both > 0 || accounted != pages {
            let text = format!("of {pages} pages, {accounted} are in use or free, and {both} are both (PB7)");
            examined.found.push(text);
        }
        Ok(examined)
    }
}

impl BepsTree<PagePool> {
    /// Creates a tree in a file. When this returns, the empty tree is durable. `identity` must
    /// differ from the identity of every other store.
    ///
    /// ```
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_trees::paged::TreeLocation;
    /// use alluvium_trees::paged::beps::{BepsTree, FlushOrder, BepsOptions};
    /// use alluvium_trees::paged::buffer::PoolOptions;
    /// let directory = MemoryDirectory::new();
    /// let place = TreeLocation { directory: &directory, name: "rivers" };
    /// let (pool, options) = (PoolOptions::default(), BepsOptions::new(16, 32));
    /// let operator = options.operator.clone();
    /// let tree = BepsTree::create_in(place, 7, pool, options)?;
    /// tree.insert(b"river", b"Elbe")?;
    /// tree.checkpoint(b"commit 1")?;
    /// tree.insert(b"river", b"Oder")?;
    /// drop(tree);
    /// let (tree, kept) = BepsTree::open_in(place, pool, FlushOrder::Automatic, operator)?;
    /// assert_eq!(kept, b"commit 1");
    /// assert_eq!(tree.get(b"river")?.as_deref(), Some(&b"Elbe"[..]));
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error if files with these names already exist or if keys and values of these lengths do
    /// not fit into a page; I/O errors.
    pub fn create_in(
        place: TreeLocation<'_>,
        identity: u128,
        pool: PoolOptions,
        options: BepsOptions,
    ) -> Result<BepsTree<PagePool>> {
        let sort = match options.root {
            RootStyle::Separate => StoredTreeKind::Beps,
            RootStyle::Buffered => StoredTreeKind::BepsBufferedRoot,
        };
        let kept = (sort, options.merging);
        let shape = options.shape(content_bytes(&pool))?;
        let core = TreeCore::create_in(place, identity, pool, shape, options.operator, kept)?;
        Ok(BepsTree::of(core, options.root, options.order))
    }

    /// Opens the tree as of the last checkpoint. Returns the tree, and the data that the owner
    /// stored with the checkpoint.
    ///
    /// # Errors
    /// An error if the tree does not exist or is damaged; I/O errors.
    pub fn open_in(
        place: TreeLocation<'_>,
        pool: PoolOptions,
        order: FlushOrder,
        operator: Arc<dyn UpdateOperator>,
    ) -> Result<(BepsTree<PagePool>, Vec<u8>)> {
        let (core, meta) = TreeCore::open_in(place, pool, operator)?;
        let style = match meta.sort {
            StoredTreeKind::Beps => RootStyle::Separate,
            StoredTreeKind::BepsBufferedRoot => RootStyle::Buffered,
            StoredTreeKind::Bplus => {
                return Err(no_tree(place.name, "it holds a B⁺-tree"));
            }
        };
        let tree = BepsTree::of(core, style, order);
        assert!(tree.path.sort() == meta.sort, "the tree is of its sort");
        Ok((tree, meta.own))
    }
}

impl BplusTree<PagePool> {
    /// Creates a tree in a file. When this returns, the empty tree is durable. `identity` must
    /// differ from the identity of every other store.
    ///
    /// # Errors
    /// An error if files with these names already exist or if keys and values of these lengths do
    /// not fit into a page; I/O errors.
    pub fn create_in(
        place: TreeLocation<'_>,
        identity: u128,
        pool: PoolOptions,
        limits: (usize, usize),
        operator: Arc<dyn UpdateOperator>,
    ) -> Result<BplusTree<PagePool>> {
        Self::create_merging_in(place, identity, pool, limits, operator, UnderfullPolicy::Never)
    }

    /// Like [`BplusTree::create_in`], but lets the caller choose what happens to under-full nodes.
    /// The choice is stored with the tree.
    ///
    /// # Errors
    /// The errors of [`BplusTree::create_in`].
    pub fn create_merging_in(
        place: TreeLocation<'_>,
        identity: u128,
        pool: PoolOptions,
        (key_limit, value_limit): (usize, usize),
        operator: Arc<dyn UpdateOperator>,
        merging: UnderfullPolicy,
    ) -> Result<BplusTree<PagePool>> {
        let sizes = bplus::sizes(key_limit, value_limit);
        let shape = NodeShape::new(content_bytes(&pool), sizes)?;
        let core = TreeCore::create_in(
            place,
            identity,
            pool,
            shape,
            operator,
            (StoredTreeKind::Bplus, merging),
        )?;
        Ok(BplusTree::of(core))
    }

    /// Opens the tree as of the last checkpoint. Returns the tree, and the data that the owner
    /// stored with the checkpoint.
    ///
    /// # Errors
    /// An error if the tree does not exist or is damaged; I/O errors.
    pub fn open_in(
        place: TreeLocation<'_>,
        pool: PoolOptions,
        operator: Arc<dyn UpdateOperator>,
    ) -> Result<(BplusTree<PagePool>, Vec<u8>)> {
        let (core, meta) = TreeCore::open_in(place, pool, operator)?;
        if meta.sort != StoredTreeKind::Bplus {
            return Err(no_tree(place.name, "it holds a Bε-tree"));
        }
        Ok((BplusTree::of(core), meta.own))
    }
}
