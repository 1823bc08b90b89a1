//! Trees in files: created, opened after a crash, checkpointed, checked.
//!
//! *Knows*: what of a tree is kept beside its pages.
//!
//! *Does not know*: how pages survive a crash (`buffer`), what happens between checkpoints.
//!
//! *Read in this order*: this file, `format.rs`.
//!
//! - **PS1** A tree that is opened is that of its last checkpoint, with what its owner kept
//!   there: the owner repeats later writes from a log of its own.
//! - **PS2** No writer is in the tree while a checkpoint is made.

mod format;
mod hosted;

pub(super) use format::{Sort, example, reread};

use super::beps::{BepsTree, FlushOrder, RootStyle, TreeOptions};
use super::bplus::{self, BplusTree};
use super::buffer::{PAGE_HEADER, Pool, PoolOptions, Validate};
use super::core::Core;
use super::error::no_tree;
use super::merge::Merging;
use super::node::{Epsilon, Kind, Operator, Shape, kind};
use super::read::Examined;
use super::tree::WritePath;
use alluvium_device::Directory;
use alluvium_storage::{Error, Result};
use format::{MOST_OWN, Meta};
use std::sync::{Arc, OnceLock};

/// Where a tree is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'d> {
    /// The directory.
    pub directory: &'d dyn Directory,
    /// The name of the file in it. Its journal has this name with `.journal` behind it.
    pub name: &'d str,
}

/// Returns how many bytes of a page are for its node.
fn content_bytes(pool: &PoolOptions) -> usize {
    pool.page_bytes.saturating_sub(PAGE_HEADER)
}

impl Core<Pool> {
    fn create_in(
        place: Place<'_>,
        identity: u128,
        pool: PoolOptions,
        shape: Shape,
        operator: Arc<dyn Operator>,
        (sort, merging): (Sort, Merging),
    ) -> Result<Core<Pool>> {
        let validate = Arc::new(move |content: &[u8]| shape.validate(content));
        let pool = Pool::create(place.directory, place.name, identity, pool, validate)?;
        let mut core = Core::create(pool, shape, operator)?;
        core.merging = merging;
        core.checkpoint(sort, &[])?;
        assert!(core.height()? == 0, "a tree begins as a leaf");
        Ok(core)
    }

    /// Opens the tree of the last checkpoint, and returns which it is and what its owner kept.
    fn open_in(
        place: Place<'_>,
        pool: PoolOptions,
        operator: Arc<dyn Operator>,
    ) -> Result<(Core<Pool>, Meta)> {
        Self::open_by(place.name, operator, |validate| {
            Pool::open(place.directory, place.name, pool, validate)
        })
    }

    /// Opens the tree in the pages that `open` returns with what is kept there.
    fn open_by(
        name: &str,
        operator: Arc<dyn Operator>,
        open: impl FnOnce(Arc<Validate>) -> Result<(Pool, Vec<u8>)>,
    ) -> Result<(Core<Pool>, Meta)> {
        let shape: Arc<OnceLock<Shape>> = Arc::default();
        let known = Arc::clone(&shape);
        // While the shape is not known, free lists are walked.
        let validate = Arc::new(move |content: &[u8]| match known.get() {
            Some(shape) => hosted::validate(shape, content),
            None if kind(content) == Some(Kind::Free) => Ok(()),
            None => Err("a page that is not free".to_owned()),
        });
        let (pool, meta) = open(validate)?;
        let refused = |why: String| no_tree(name, why);
        let meta = Meta::decode(&meta).ok_or_else(|| refused("its creation was not finished".to_owned()))?;
        let limits = (usize::from(meta.key_limit), usize::from(meta.value_limit));
        let counts = (usize::from(meta.n), usize::from(meta.b));
        let content = super::buffer::PageBuffer::content_bytes(&pool);
        let of = Shape::of(content, limits.0, limits.1, counts.0, counts.1);
        let of = of.and_then(|shape| match meta.epsilon {
            Epsilon::Fixed => Ok(shape),
            Epsilon::Adaptive => shape.divided_by_nodes(),
        });
        let of = of.map_err(|error| refused(format!("its shape does not fit: {error}")))?;
        shape.get_or_init(|| of);
        let mut core = Core::of(pool, of, meta.root, operator);
        core.merging = meta.merging;
        core.height()?;
        assert!(core.shape == of, "nodes are checked by the tree's shape (PB5)");
        Ok((core, meta))
    }

    pub(super) fn checkpoint(&self, sort: Sort, own: &[u8]) -> Result<()> {
        if own.len() > MOST_OWN {
            return Err(Error::BadOption {
                option: "own",
                why: format!("{} bytes are over {MOST_OWN}", own.len()),
            });
        }
        // Most is written before writers have to wait.
        self.buffer.write_dirty()?;
        let _alone = self.gate.write();
        self.readable()?;
        self.buffer.checkpoint(&self.meta(sort, own).encode())
    }

    fn meta(&self, sort: Sort, own: &[u8]) -> Meta {
        let shape = &self.shape;
        let meta = Meta {
            sort,
            merging: self.merging,
            epsilon: match shape.own {
                None => Epsilon::Fixed,
                Some(_) => Epsilon::Adaptive,
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

    /// Walks the tree, and finds pages that it does not lead to and that are not free.
    pub(super) fn check(&self) -> Result<Examined> {
        let mut examined = self.examine()?;
        let free = self.buffer.free_pages();
        let pages = self.buffer.statistics().pages;
        let both = free.iter().filter(|page| examined.pages.contains(page)).count();
        let accounted = examined.pages.len() as u64 + free.len() as u64;
        if both > 0 || accounted != pages {
            let text = format!("of {pages} pages {accounted} are in use or free, {both} of them both (PB7)");
            examined.found.push(text);
        }
        Ok(examined)
    }
}

impl BepsTree<Pool> {
    /// Creates a tree in a file. It is durable, without keys, when this returns. `identity` is
    /// one that no other store has.
    ///
    /// ```
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_trees::paged::Place;
    /// use alluvium_trees::paged::beps::{BepsTree, FlushOrder, TreeOptions};
    /// use alluvium_trees::paged::buffer::PoolOptions;
    /// let directory = MemoryDirectory::new();
    /// let place = Place { directory: &directory, name: "rivers" };
    /// let (pool, options) = (PoolOptions::default(), TreeOptions::new(16, 32));
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
    /// Files of that name; sizes that do not fit; as the device says.
    pub fn create_in(
        place: Place<'_>,
        identity: u128,
        pool: PoolOptions,
        options: TreeOptions,
    ) -> Result<BepsTree<Pool>> {
        let sort = match options.root {
            RootStyle::Separate => Sort::Beps,
            RootStyle::Buffered => Sort::BepsBufferedRoot,
        };
        let kept = (sort, options.merging);
        let shape = options.shape(content_bytes(&pool))?;
        let core = Core::create_in(place, identity, pool, shape, options.operator, kept)?;
        Ok(BepsTree::of(core, options.root, options.order))
    }

    /// Opens the tree of the last checkpoint, and returns what its owner kept with that.
    ///
    /// # Errors
    /// No such tree; damage; as the device says.
    pub fn open_in(
        place: Place<'_>,
        pool: PoolOptions,
        order: FlushOrder,
        operator: Arc<dyn Operator>,
    ) -> Result<(BepsTree<Pool>, Vec<u8>)> {
        let (core, meta) = Core::open_in(place, pool, operator)?;
        let style = match meta.sort {
            Sort::Beps => RootStyle::Separate,
            Sort::BepsBufferedRoot => RootStyle::Buffered,
            Sort::Bplus => {
                return Err(no_tree(place.name, "it holds a B⁺-tree"));
            }
        };
        let tree = BepsTree::of(core, style, order);
        assert!(tree.path.sort() == meta.sort, "the tree is of its sort");
        Ok((tree, meta.own))
    }
}

impl BplusTree<Pool> {
    /// Creates a tree in a file. It is durable, without keys, when this returns. `identity` is
    /// one that no other store has.
    ///
    /// # Errors
    /// Files of that name; sizes that do not fit; as the device says.
    pub fn create_in(
        place: Place<'_>,
        identity: u128,
        pool: PoolOptions,
        limits: (usize, usize),
        operator: Arc<dyn Operator>,
    ) -> Result<BplusTree<Pool>> {
        Self::create_merging_in(place, identity, pool, limits, operator, Merging::Never)
    }

    /// The same, and says what becomes of its under-full nodes. It is kept with the tree.
    ///
    /// # Errors
    /// As [`BplusTree::create_in`].
    pub fn create_merging_in(
        place: Place<'_>,
        identity: u128,
        pool: PoolOptions,
        (key_limit, value_limit): (usize, usize),
        operator: Arc<dyn Operator>,
        merging: Merging,
    ) -> Result<BplusTree<Pool>> {
        let sizes = bplus::sizes(key_limit, value_limit);
        let shape = Shape::new(content_bytes(&pool), sizes)?;
        let core = Core::create_in(place, identity, pool, shape, operator, (Sort::Bplus, merging))?;
        Ok(BplusTree::of(core))
    }

    /// Opens the tree of the last checkpoint, and returns what its owner kept with that.
    ///
    /// # Errors
    /// No such tree; damage; as the device says.
    pub fn open_in(
        place: Place<'_>,
        pool: PoolOptions,
        operator: Arc<dyn Operator>,
    ) -> Result<(BplusTree<Pool>, Vec<u8>)> {
        let (core, meta) = Core::open_in(place, pool, operator)?;
        if meta.sort != Sort::Bplus {
            return Err(no_tree(place.name, "it holds a Bε-tree"));
        }
        Ok((BplusTree::of(core), meta.own))
    }
}
