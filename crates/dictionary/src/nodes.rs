//! Sources of nodes for multi-node objects: the cache under a guard, or the tiers directly.

use alluvium_base::Purpose;
use alluvium_storage::node::read_node;
use alluvium_storage::{CacheRetention, EpochGuard, NodeCache, NodePointer, PageSize, Result, TierFiles};

/// Reads nodes, through the cache or directly from the tiers.
pub trait NodeReader {
    /// Passes the bytes of each node to `visit`, in order.
    fn each(&self, pointers: &[NodePointer], visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Returns the page size of the store.
    fn page_size(&self) -> PageSize;
}

/// Reads nodes through the cache.
pub struct CachedNodeReader<'g> {
    pub cache: &'g NodeCache,
    /// Pinned epoch; nodes reachable under it are not reused.
    pub guard: &'g EpochGuard,
    /// Purpose that reads are accounted to.
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

/// Reads nodes from the tiers, bypassing the cache.
pub struct DirectNodeReader<'t> {
    pub tiers: &'t TierFiles,
    pub page_size: PageSize,
    /// Purpose that reads are accounted to.
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
