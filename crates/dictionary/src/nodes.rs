//! Node readers, which read the nodes of a multi-node object either through the cache or directly
//! from the tiers.

use alluvium_base::Purpose;
use alluvium_storage::node::read_node;
use alluvium_storage::{CacheRetention, EpochGuard, NodeCache, NodePointer, PageSize, Result, TierFiles};

/// A reader of nodes, through the cache or directly from the tiers.
pub trait NodeReader {
    /// Reads the nodes at `pointers` and passes the bytes of each to `visit`, in order.
    fn each(&self, pointers: &[NodePointer], visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Returns the page size of the store.
    fn page_size(&self) -> PageSize;
}

/// A reader that reads nodes through the cache.
pub struct CachedNodeReader<'g> {
    pub cache: &'g NodeCache,
    /// The pinned epoch, which protects the nodes that are reachable in it from being overwritten.
    pub guard: &'g EpochGuard,
    /// The purpose under which the reads are counted.
    pub purpose: Purpose,
    /// Whether nodes read from the device stay in the cache.
    pub residence: CacheRetention,
}

impl NodeReader for CachedNodeReader<'_> {
    fn each(&self, pointers: &[NodePointer], visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let nodes = self
            .cache
            .get_many(pointers, self.guard, self.purpose, self.residence)?;
        nodes.iter().try_for_each(|node| visit(node))
    }

    fn page_size(&self) -> PageSize {
        self.cache.page_size()
    }
}

/// A reader that reads nodes from the tiers, bypassing the cache.
pub struct DirectNodeReader<'t> {
    pub tiers: &'t TierFiles,
    pub page_size: PageSize,
    /// The purpose under which the reads are counted.
    pub purpose: Purpose,
}

impl NodeReader for DirectNodeReader<'_> {
    fn each(&self, pointers: &[NodePointer], visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        pointers
            .iter()
            .try_for_each(|pointer| visit(&read_node(self.tiers, pointer, self.page_size, self.purpose)?))
    }

    fn page_size(&self) -> PageSize {
        self.page_size
    }
}
