//! Trees whose pages are hosted by another store, which makes their roots durable.

use super::Place;
use super::format::{Meta, Sort};
use crate::paged::buffer::{FreeLists, LastRoot, PageBuffer, Pool, PoolOptions};
use crate::paged::core::Core;
use crate::paged::error::hosted;
use crate::paged::merge::Merging;
use crate::paged::node::{Kind, Operator, Shape, kind};
use crate::paged::structure::is_apart;
use alluvium_storage::Result;
use std::sync::Arc;

/// Checks the content of a page: a node, or messages that do not fit into one.
pub(super) fn validate(shape: &Shape, content: &[u8]) -> std::result::Result<(), String> {
    match kind(content) {
        Some(Kind::Apart) if is_apart(content) => Ok(()),
        Some(Kind::Apart) => Err("messages that end behind their page".to_owned()),
        _ => shape.validate(content),
    }
}

impl Core<Pool> {
    /// Creates an empty tree. Files of an earlier tree with the same name are removed.
    pub(in crate::paged) fn create_hosted(
        place: Place<'_>,
        identity: u128,
        pool: PoolOptions,
        shape: Shape,
        operator: Arc<dyn Operator>,
        merging: Merging,
    ) -> Result<Core<Pool>> {
        let of = Arc::new(move |content: &[u8]| validate(&shape, content));
        let pool = Pool::create_hosted(place.directory, place.name, identity, pool, of)?;
        assert_eq!(
            pool.identity(),
            identity,
            "pages carry the store's identity (PB5)"
        );
        let mut core = Core::create(pool, shape, operator)?;
        core.merging = merging;
        Ok(core)
    }

    /// Opens the tree of a root, and returns its kind.
    pub(in crate::paged) fn open_hosted(
        place: Place<'_>,
        root: &[u8],
        pool: PoolOptions,
        operator: Arc<dyn Operator>,
        lists: FreeLists,
    ) -> Result<(Core<Pool>, Sort)> {
        let (core, Meta { sort, .. }) = Self::open_by(place.name, operator, |validate| {
            Pool::open_hosted(place.directory, place.name, root, pool, validate, lists)
        })
        .map_err(hosted)?;
        assert!(core.root < core.buffer.statistics().pages, "the root was read");
        Ok((core, sort))
    }

    /// Writes the tree and returns its root. Writers are blocked until it is written.
    pub(in crate::paged) fn stand(&self, sort: Sort, last: LastRoot) -> Result<Vec<u8>> {
        let _alone = self.gate.write();
        self.readable()?;
        self.buffer.writable()?;
        self.buffer.stand(&self.meta(sort, &[]).encode(), last)
    }
}
