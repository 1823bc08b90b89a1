//! Splits inner nodes, and adds a level when the root is full. The root keeps its page number, so
//! its content moves to new nodes instead.

use super::buffer::{PageBuffer, PageWriteGuard};
use super::core::{MOST_LEVELS, TreeCore, TreeCounters};
use super::node::{PageContentKind, add_pivot, level, move_node, set_first_child, set_head, split_inner};
use alluvium_storage::Result;

impl<B: PageBuffer> TreeCore<B> {
    /// Moves the pairs of a full root leaf to a new leaf. The root becomes an inner node of the
    /// given kind, and the new leaf its only child. The next message splits that leaf.
    pub(super) fn raise_leaf(&self, root: &mut PageWriteGuard<'_>, kind: PageContentKind) -> Result<()> {
        let mut leaf = self.buffer.allocate()?;
        move_node(&self.shape, root, &mut leaf);
        set_head(root, kind, 1);
        set_first_child(root, leaf.number());
        assert_eq!(level(root), 1, "the tree has two levels");
        if !self.shape.pairs.is_empty(&leaf) {
            // If splitting the leaf fails, the root keeps a single child, so note the leaf for a
            // later merge.
            self.note(self.shape.pairs.key(&leaf, 0));
        }
        TreeCounters::add(&self.counters.growths, 1);
        Ok(())
    }

    /// Moves the content of an inner root of the given kind to two new nodes of the same kind,
    /// which become the root's children.
    pub(super) fn divide_root(&self, root: &mut PageWriteGuard<'_>, kind: PageContentKind) -> Result<()> {
        let above = level(root) + 1;
        assert!(above < MOST_LEVELS, "a tree of pages has few levels");
        let mut left = self.buffer.allocate()?;
        let mut right = match self.buffer.allocate() {
            Ok(right) => right,
            Err(error) => {
                self.buffer.free(left);
                return Err(error);
            }
        };
        move_node(&self.shape, root, &mut left);
        let pivot = split_inner(&self.shape, &mut left, &mut right);
        set_head(root, kind, above);
        set_first_child(root, left.number());
        add_pivot(&self.shape, root, &pivot, right.number());
        TreeCounters::add(&self.counters.growths, 1);
        Ok(())
    }

    /// Splits an inner node at its middle pivot, and moves that pivot to the parent. Returns the
    /// pivot's key and the right half. The parent must have a free pivot.
    pub(super) fn split_node(
        &self,
        parent: &mut PageWriteGuard<'_>,
        node: &mut PageWriteGuard<'_>,
    ) -> Result<(Vec<u8>, PageWriteGuard<'_>)> {
        let free = self.shape.pivots_of(parent).free(parent);
        assert!(free > 0, "the parent has a free pivot (PE3)");
        let mut right = self.buffer.allocate()?;
        let pivot = split_inner(&self.shape, node, &mut right);
        add_pivot(&self.shape, parent, &pivot, right.number());
        if let Some(watch) = &self.watch {
            watch.inherit(node.number(), right.number());
        }
        TreeCounters::add(&self.counters.splits_of_nodes, 1);
        Ok((pivot, right))
    }
}
