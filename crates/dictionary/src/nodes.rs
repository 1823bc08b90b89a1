//! Where the nodes of something long come from: the cache under a guard, or the tiers themselves.

use alluvium_base::Purpose;
use alluvium_storage::node::read_node;
use alluvium_storage::{Cache, Guard, NodePointer, PageSize, Residence, Result, Tiers};

/// A source of nodes.
pub trait Nodes {
    /// Hands the bytes of each node to `visit`, in order.
    fn each(&self, pointers: &[NodePointer], visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Returns the page size of the store.
    fn page_size(&self) -> PageSize;
}

/// Nodes from the cache.
pub struct Cached<'g> {
    /// The cache.
    pub cache: &'g Cache,
    /// What is reachable under it stays.
    pub guard: &'g Guard,
    /// What reads are counted as.
    pub purpose: Purpose,
    /// Whether what is read stays in the cache.
    pub residence: Residence,
}

impl Nodes for Cached<'_> {
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

/// Nodes from the tiers, past the cache.
pub struct Direct<'t> {
    /// The data files.
    pub tiers: &'t Tiers,
    /// The store's page size.
    pub page_size: PageSize,
    /// What reads are counted as.
    pub purpose: Purpose,
}

impl Nodes for Direct<'_> {
    fn each(&self, pointers: &[NodePointer], visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        pointers
            .iter()
            .try_for_each(|pointer| visit(&read_node(self.tiers, pointer, self.page_size, self.purpose)?))
    }

    fn page_size(&self) -> PageSize {
        self.page_size
    }
}
