//! How a root becomes a level higher: its page stays, its content moves to new nodes.

use super::buffer::{Exclusive, PageBuffer};
use super::core::{Core, Counters, MOST_LEVELS};
use super::node::{Kind, add_pivot, level, move_node, set_first_child, set_head, split_inner};
use alluvium_storage::Result;

impl<B: PageBuffer> Core<B> {
    /// Makes a root that is a full leaf a node of a kind above one leaf with its pairs: the
    /// next message splits that.
    pub(super) fn raise_leaf(&self, root: &mut Exclusive<'_>, kind: Kind) -> Result<()> {
        let mut leaf = self.buffer.allocate()?;
        move_node(&self.shape, root, &mut leaf);
        set_head(root, kind, 1);
        set_first_child(root, leaf.number());
        assert_eq!(level(root), 1, "the tree has two levels");
        if !self.shape.pairs.is_empty(&leaf) {
            // Should the split fail that follows, the root has one child only.
            self.note(self.shape.pairs.key(&leaf, 0));
        }
        Counters::add(&self.counters.growths, 1);
        Ok(())
    }

    /// Moves the content of a root of a kind to two new nodes of that kind.
    pub(super) fn divide_root(&self, root: &mut Exclusive<'_>, kind: Kind) -> Result<()> {
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
        Counters::add(&self.counters.growths, 1);
        Ok(())
    }

    /// Splits a node at its middle pivot, which its parent gets, and returns the right half.
    pub(super) fn split_node(
        &self,
        parent: &mut Exclusive<'_>,
        node: &mut Exclusive<'_>,
    ) -> Result<(Vec<u8>, Exclusive<'_>)> {
        let free = self.shape.pivots_of(parent).free(parent);
        assert!(free > 0, "the parent has a free pivot (PE3)");
        let mut right = self.buffer.allocate()?;
        let pivot = split_inner(&self.shape, node, &mut right);
        add_pivot(&self.shape, parent, &pivot, right.number());
        if let Some(watch) = &self.watch {
            watch.inherit(node.number(), right.number());
        }
        Counters::add(&self.counters.splits_of_nodes, 1);
        Ok((pivot, right))
    }
}
