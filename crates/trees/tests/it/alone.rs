//! A store with a single tree, whose root is the store's payload.

use alluvium_storage::Result;
use alluvium_storage::store::Store;
use alluvium_trees::tiered::{CheckLevel, CompactionJob, TieredTree, TreeOptions};
use std::sync::Arc;

/// What the owner of a store does with its tree.
pub(crate) trait Alone: Sized {
    /// Opens the tree of the durable generation, or creates an empty one.
    fn open_alone(store: Arc<Store>, options: TreeOptions) -> Result<Self>;

    /// Writes a durable generation that contains the tree.
    fn checkpoint(&self) -> Result<u64>;

    /// Returns all violations found in the tree and the store.
    fn check_with(&self, depth: CheckLevel, jobs: &[&CompactionJob]) -> Result<Vec<String>>;
}

impl Alone for TieredTree {
    fn open_alone(store: Arc<Store>, options: TreeOptions) -> Result<TieredTree> {
        let superblock = store.superblock();
        match superblock.payload.is_empty() {
            true => Ok(TieredTree::create(store, options)),
            false => TieredTree::open(store, options, &superblock.payload, superblock.cut),
        }
    }

    fn checkpoint(&self) -> Result<u64> {
        self.prepare()?;
        let cut = self.checkpoint_root()?;
        let begun = self.store().begin_checkpoint()?;
        let (root, at) = (cut.root.clone(), cut.at);
        drop(cut);
        begun.finish(&root, at)
    }

    fn check_with(&self, depth: CheckLevel, jobs: &[&CompactionJob]) -> Result<Vec<String>> {
        let payload = self.store().superblock().payload;
        let durable = Some(&payload[..]).filter(|payload| !payload.is_empty());
        let examined = self.examine(depth, jobs, durable, &mut |_| Ok(()))?;
        let mut found = self.store().check(examined.reachable.into_iter())?;
        found.extend(examined.findings.into_sentences());
        Ok(found)
    }
}
