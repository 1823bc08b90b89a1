//! Lookups: each tree is searched along the entries that are alive, and the lists of parent and
//! child are kept aligned.
//!
//! A node returns all entries of the key's prefix. In a root, an entry is alive if its check
//! character matches the key's. Below, the entries that continue as the key does are the parent's
//! entries for this node, in the same order (T3): an entry is alive if it was alive in the parent
//! and its own check character matches the key's. The parent also passes down the entries that
//! are not alive, since the lists would not align otherwise.

use super::node::{BotNode, ChildExtent, child_at};
use super::table::{BotCounters, BotState, BotTable};
use crate::blocks::{BlockExtent, BlockSpace, Error, Result};
use crate::records::{KeyLookup, RecordSource as _, decode};

impl<S: BlockSpace> BotTable<S> {
    /// Returns the value of a key; `None` if it was never inserted, or deleted since.
    ///
    /// The search ends at the newest record of the key.
    ///
    /// # Errors
    /// When a read fails, or the bytes are damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.search(key, false)?.into_iter().next().flatten())
    }

    /// Returns all records of a key that still exist, the newest first; `None` represents a
    /// delete.
    ///
    /// # Errors
    /// The errors of [`BotTable::get`].
    pub fn history(&self, key: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
        self.search(key, true)
    }

    fn search(&self, key: &[u8], all: bool) -> Result<Vec<Option<Vec<u8>>>> {
        let mut wanted = KeyLookup::new(key, self.state.family.of(key), all);
        wanted.search_buffer(&self.state.buffer, &self.space)?;
        let mut figures = self.figures.take();
        let mut searched = Ok(());
        for (above, root) in self.state.roots.iter().enumerate() {
            let Some(root) = root.filter(|_| !wanted.is_done() && searched.is_ok()) else {
                continue;
            };
            let height = above as u32 + 1;
            searched =
                self.state
                    .search_node(&self.space, root.extent, height, None, &mut wanted, &mut figures);
        }
        self.figures.replace(figures);
        searched.map(|()| wanted.found)
    }
}

impl BotState {
    /// Searches a node and its subtree. `parent` has a flag for each of the parent's entries for
    /// this node: whether it is alive.
    fn search_node(
        &self,
        space: &dyn BlockSpace,
        extent: BlockExtent,
        height: u32,
        parent: Option<&[bool]>,
        wanted: &mut KeyLookup<'_>,
        figures: &mut BotCounters,
    ) -> Result<()> {
        let cut = self.sketch_extractor();
        let node = BotNode::read(space, extent, height, self.options.growth)?;
        if node.head.geometry.prefix_bits() != cut.prefix_bits(height).max(1) {
            let found = node.head.geometry.prefix_bits();
            return Err(Error::damaged(
                extent.at,
                "prefix of a node",
                cut.prefix_bits(height),
                found,
            ));
        }
        let prefix = self.alphabet.prefix(wanted.fingerprint, cut.prefix_bits(height));
        let entries = node.lookup(space, prefix)?;
        figures.nodes_read += 1;
        let character = self.alphabet.character_bits();
        let sketch = cut.sketch(wanted.fingerprint, height);
        let Some(alive) = self.alive(&entries, sketch, parent, figures) else {
            let expected = format!("as many as its parent's {} (T3)", parent.map_or(0, <[bool]>::len));
            return Err(Error::damaged(
                extent.at,
                "entries of a node",
                expected,
                "another number",
            ));
        };
        // Children from the newest to the oldest, each with the flags of its entries.
        let child_of = |entry: u32| entry >> (2 * character);
        for index in (0..node.children.len() as u32).rev() {
            let of_child = || {
                entries
                    .iter()
                    .zip(&alive)
                    .filter(|(entry, _)| child_of(**entry) == index)
            };
            if !of_child().any(|(_, alive)| *alive) {
                continue;
            }
            let child = child_at(&node.children, index, extent.at)?;
            if height == 1 {
                figures.leaves_searched += 1;
                self.search_leaf(space, child, wanted)?;
            } else {
                let flags: Vec<bool> = of_child().map(|(_, alive)| *alive).collect();
                self.search_node(space, child, height - 1, Some(&flags), wanted, figures)?;
            }
            if wanted.is_done() {
                break;
            }
        }
        Ok(())
    }

    /// Returns which of a node's entries are alive; `None` if they do not match those of its
    /// parent.
    fn alive(
        &self,
        entries: &[u32],
        sketch: u32,
        parent: Option<&[bool]>,
        figures: &mut BotCounters,
    ) -> Option<Vec<bool>> {
        let (character, mask) = (self.alphabet.character_bits(), self.alphabet.characters() - 1);
        let (check, next) = (sketch & mask, sketch >> character);
        let passes = |entry: u32| entry & mask == check;
        let Some(parent) = parent else {
            let alive: Vec<bool> = entries.iter().map(|&entry| passes(entry)).collect();
            figures.root_entries += alive.len() as u64;
            figures.root_passes += alive.iter().filter(|alive| **alive).count() as u64;
            return Some(alive);
        };
        let mut flags = parent.iter();
        let mut alive = Vec::with_capacity(entries.len());
        for &entry in entries {
            let continues = entry >> character & mask == next;
            let flag = continues && *flags.next()?;
            figures.inner_entries += u64::from(flag);
            figures.inner_passes += u64::from(flag && passes(entry));
            alive.push(flag && passes(entry));
        }
        flags.next().is_none().then_some(alive)
    }

    /// Compares the records of a leaf with the key, the newest first.
    fn search_leaf(
        &self,
        space: &dyn BlockSpace,
        leaf: ChildExtent,
        wanted: &mut KeyLookup<'_>,
    ) -> Result<()> {
        let end = leaf.end().unwrap_or(u64::MAX);
        let mut reader = self.log.reader(space, self.options.machine, leaf.at..end)?;
        let mut found = Vec::new();
        while reader.left() > 0 {
            let entry = decode(&mut reader, self.family.width())?;
            if entry.fingerprint == wanted.fingerprint {
                found.extend(entry.value_of(wanted.key, space)?);
            }
        }
        wanted.found.extend(found.into_iter().rev());
        Ok(())
    }
}
