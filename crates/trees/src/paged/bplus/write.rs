//! Writes messages to the tree. The first attempt latches inner nodes in shared mode; if it fails,
//! a second one splits nodes on the way down.

use super::BplusTree;
use crate::paged::buffer::{PageBuffer, PageWriteGuard};
use crate::paged::core::{RESERVED, TreeCounters};
use crate::paged::node::{MessageList, NodeMessage, PageContentKind, child, level};
use crate::paged::read::LatchCoupling;
use alluvium_storage::Result;

impl<B: PageBuffer> BplusTree<B> {
    /// Writes a message to the tree.
    pub(in crate::paged) fn write(&self, message: NodeMessage<'_>) -> Result<()> {
        self.core.writable(message)?;
        let _writing = self.core.gate.read();
        if !self.write_in_leaf(message)? {
            TreeCounters::add(&self.core.counters.retries, 1);
            self.write_with_splits(message)?;
        }
        self.merge_noted()
    }

    /// Merges nodes that writes have left under-full (PM1). The caller must be registered as a
    /// writer.
    pub(in crate::paged) fn merge_noted(&self) -> Result<()> {
        // No node has a buffer, so there are no messages to move.
        self.core.merge_noted(&|_| Ok(()))
    }

    /// Applies a message to its leaf, latching the inner nodes in shared mode. Returns `false`,
    /// without applying it, if the leaf has too little space or the root is a leaf.
    fn write_in_leaf(&self, message: NodeMessage<'_>) -> Result<bool> {
        self.core.descend(|coupling| self.try_in_leaf(message, coupling))
    }

    fn try_in_leaf(&self, message: NodeMessage<'_>, coupling: LatchCoupling) -> Result<Option<bool>> {
        let mut node = self.core.begin(coupling)?;
        if node.leaf().is_some() {
            return Ok(Some(false));
        }
        let mut leaf = loop {
            let Some(look) = self.core.look(&node, message.key, &mut Vec::new()) else {
                return Ok(None);
            };
            if look.level == 1 {
                let Some(leaf) = self.core.go_exclusive(node, look, coupling)? else {
                    return Ok(None);
                };
                break leaf;
            }
            let Some(next) = self.core.go(node, look, coupling)? else {
                return Ok(None);
            };
            node = next;
        };
        let takes = self.core.leaf_takes_one(&leaf, message);
        if takes {
            self.core.apply_one(&mut leaf, message)?;
            self.core.note_leaf(&leaf, message.key);
        }
        Ok(Some(takes))
    }

    /// Applies a message to its leaf. On the way down, splits every full node, so that each node
    /// has a free pivot when its child must be split.
    fn write_with_splits(&self, message: NodeMessage<'_>) -> Result<()> {
        self.core.buffer.reserve(RESERVED)?;
        let mut node = self.core.buffer.pin_exclusive(self.core.root)?;
        if level(&node) == 0 {
            if self.core.leaf_takes_one(&node, message) {
                return self.core.apply_one(&mut node, message);
            }
            self.core.raise_leaf(&mut node, PageContentKind::Wide)?;
        }
        if self.core.shape.wide.free(&node) == 0 {
            self.core.divide_root(&mut node, PageContentKind::Wide)?;
        }
        while level(&node) > 1 {
            node = self.child_with_space(node, message.key)?;
        }
        let page = child(&self.core.shape, &node, message.key);
        let mut leaf = self.core.exclusive(page, level(&node))?;
        if self.core.leaf_takes_one(&leaf, message) {
            self.core.apply_one(&mut leaf, message)?;
            self.core.note_leaf(&leaf, message.key);
            return Ok(());
        }
        let mut messages = MessageList::new();
        messages.push(message);
        let (median, mut right) = self.core.split_leaf(&mut node, &mut leaf, &messages)?;
        let target = if message.key < &median[..] {
            &mut leaf
        } else {
            &mut right
        };
        assert!(
            self.core.leaf_takes_one(target, message),
            "half of a leaf has space"
        );
        self.core.apply_one(target, message)
    }

    /// Latches the child whose range contains a key, and splits it if it is full. Returns the half
    /// that contains the key. The node itself must have a free pivot.
    fn child_with_space<'b>(
        &'b self,
        mut node: PageWriteGuard<'b>,
        key: &[u8],
    ) -> Result<PageWriteGuard<'b>> {
        let shape = &self.core.shape;
        assert!(shape.wide.free(&node) > 0, "a full node was split above");
        let mut next = self.core.exclusive(child(shape, &node, key), level(&node))?;
        if shape.wide.free(&next) > 0 {
            return Ok(next);
        }
        let (pivot, right) = self.core.split_node(&mut node, &mut next)?;
        Ok(if key < &pivot[..] { next } else { right })
    }
}
