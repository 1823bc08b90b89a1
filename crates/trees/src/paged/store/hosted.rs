//! Trees in hosted pages, whose roots another store makes durable.

use super::TreeLocation;
use super::format::{StoredTreeKind, TreeMetadata};
use crate::paged::buffer::{FreeLists, LastRoot, PageBuffer, PagePool, PoolOptions};
use crate::paged::core::TreeCore;
use crate::paged::error::hosted;
use crate::paged::merge::UnderfullPolicy;
use crate::paged::node::{NodeShape, PageContentKind, UpdateOperator, kind};
use crate::paged::structure::is_apart;
use alluvium_storage::Result;
use std::sync::Arc;

/// Checks a page's content. It must be either a node, or messages that did not fit into their node
/// and are stored outside of it.
pub(super) fn validate(shape: &NodeShape, content: &[u8]) -> std::result::Result<(), String> {
    match kind(content) {
        Some(PageContentKind::Apart) if is_apart(content) => Ok(()),
        Some(PageContentKind::Apart) => Err("messages that end after their page".to_owned()),
        _ => shape.validate(content),
    }
}

impl TreeCore<PagePool> {
    /// Creates an empty tree. Removes the files of an earlier tree with the same name.
    pub(in crate::paged) fn create_hosted(
        place: TreeLocation<'_>,
        identity: u128,
        pool: PoolOptions,
        shape: NodeShape,
        operator: Arc<dyn UpdateOperator>,
        merging: UnderfullPolicy,
    ) -> Result<TreeCore<PagePool>> {
        let of = Arc::new(move |content: &[u8]| validate(&shape, content));
        let pool = PagePool::create_hosted(place.directory, place.name, identity, pool, of)?;
        assert_eq!(
            pool.identity(),
            identity,
            "pages carry the store's identity (PB5)"
        );
        let mut core = TreeCore::create(pool, shape, operator)?;
        core.merging = merging;
        Ok(core)
    }

    /// Opens the tree with the given root. Returns the tree and its kind.
    pub(in crate::paged) fn open_hosted(
        place: TreeLocation<'_>,
        root: &[u8],
        pool: PoolOptions,
        operator: Arc<dyn UpdateOperator>,
        lists: FreeLists,
    ) -> Result<(TreeCore<PagePool>, StoredTreeKind)> {
        let (core, TreeMetadata { sort, .. }) = Self::open_by(place.name, operator, |validate| {
            PagePool::open_hosted(place.directory, place.name, root, pool, validate, lists)
        })
        .map_err(hosted)?;
        assert!(core.root < core.buffer.statistics().pages, "the root was read");
        Ok((core, sort))
    }

    /// Writes all changed pages of the tree and returns its root. Writers wait until the pages are
    /// written.
    pub(in crate::paged) fn write_root(&self, sort: StoredTreeKind, last: LastRoot) -> Result<Vec<u8>> {
        let _alone = self.gate.write();
        self.readable()?;
        self.buffer.writable()?;
        self.buffer.write_root(&self.meta(sort, &[]).encode(), last)
    }
}
