//! Writes messages to the tree (thesis, section 5.5 and listing 5.4).

use super::plan::{FlushPlan, MessageBlock, RequiredAction};
use super::{BepsTree, RootStyle};
use crate::paged::buffer::{PageBuffer, PageWriteGuard};
use crate::paged::core::{RESERVED, TreeCounters};
use crate::paged::node::{MessageList, NodeMessage, PageContentKind, child, kind, level};
use crate::paged::read::LatchCoupling;
use alluvium_storage::Result;

/// Returns a list that contains a single message.
fn alone(message: NodeMessage<'_>) -> MessageList {
    let mut messages = MessageList::new();
    messages.push(message);
    assert_eq!(messages.len(), 1, "it is alone");
    messages
}

impl<B: PageBuffer> BepsTree<B> {
    /// Writes a message to the tree.
    pub(in crate::paged) fn write(&self, message: NodeMessage<'_>) -> Result<()> {
        self.core.writable(message)?;
        let _writing = self.core.gate.read();
        self.write_at_root(message)?;
        self.merge_noted()
    }

    /// Merges nodes that writes have left under-full (PM1). The caller must be registered as a
    /// writer, and must not hold any latch.
    pub(in crate::paged) fn merge_noted(&self) -> Result<()> {
        self.core.merge_noted(&|node| self.empty(node))
    }

    fn write_at_root(&self, message: NodeMessage<'_>) -> Result<()> {
        if self.path.style == RootStyle::Separate {
            let is_done = self
                .core
                .descend(|coupling| self.write_shared(message, coupling))?;
            if is_done {
                return Ok(());
            }
        }
        // The tree may have changed since the shared latch was released, so examine the root again.
        let mut root = self.core.buffer.pin_exclusive(self.core.root)?;
        loop {
            root = match kind(&root) {
                Some(PageContentKind::Wide) => match self.write_exclusive(root, message)? {
                    Some(grown) => grown,
                    None => return Ok(()),
                },
                Some(PageContentKind::Buffered) => return self.write_in_root(root, message),
                _ => match self.write_in_leaf(root, message)? {
                    Some(grown) => grown,
                    None => return Ok(()),
                },
            };
        }
    }

    /// Tries to write a message with only a shared latch on the root. Returns `Some(true)` if the
    /// message was written. Returns `Some(false)` if an exclusive latch is needed, because the root
    /// has a buffer or is a leaf, or because a child must be split. Returns `None` if the descent
    /// must start again.
    fn write_shared(&self, message: NodeMessage<'_>, coupling: LatchCoupling) -> Result<Option<bool>> {
        let root = self.core.begin(coupling)?;
        if root.leaf().is_some() {
            return Ok(Some(false));
        }
        let Some(look) = self.core.look(&root, message.key, &mut Vec::new()) else {
            return Ok(None);
        };
        if look.kind != Some(PageContentKind::Wide) {
            return Ok(Some(false));
        }
        // The root's latch is no longer needed.
        let Some(node) = self.core.go_exclusive(root, look, coupling)? else {
            return Ok(None);
        };
        let is_done = self.write_below(node, message)?;
        if !is_done {
            TreeCounters::add(&self.core.counters.retries, 1);
        }
        Ok(Some(is_done))
    }

    /// Writes a message to a node below the root. Returns `false`, without writing, if the node
    /// must be split first.
    fn write_below<'b>(&'b self, mut node: PageWriteGuard<'b>, message: NodeMessage<'_>) -> Result<bool> {
        if level(&node) == 0 {
            let takes = self.core.leaf_takes_one(&node, message);
            if takes {
                self.core.apply_one(&mut node, message)?;
                self.core.note_leaf(&node, message.key);
            }
            return Ok(takes);
        }
        if self.core.has_place(&node, message) {
            self.core.deposit(&mut node, message)?;
            return Ok(true);
        }
        self.widen_buffer(&mut node);
        if self.core.has_place(&node, message) {
            self.core.deposit(&mut node, message)?;
            return Ok(true);
        }
        let messages = alone(message);
        let RequiredAction::Flush(plan) = self.need(&node, &messages) else {
            return Ok(false);
        };
        self.core.buffer.reserve(RESERVED)?;
        let blocks = self.take_or_break(&mut node, &messages, &plan)?;
        self.run(vec![(node, blocks)])?;
        Ok(true)
    }

    /// Takes the planned blocks out of a node. If this fails halfway, messages are lost, and the
    /// tree is marked as broken (PE5).
    pub(super) fn take_or_break(
        &self,
        node: &mut PageWriteGuard<'_>,
        messages: &MessageList,
        plan: &FlushPlan,
    ) -> Result<Vec<MessageBlock>> {
        assert!(!plan.children.is_empty(), "a full node passes messages on");
        let blocks = self.take(node, messages, plan);
        blocks.inspect_err(|error| self.core.break_down(error))
    }

    /// Writes a message while the root is latched exclusively. If a split is necessary but the root
    /// has no free pivot for it, adds a level to the tree instead, and returns the root, so that
    /// the caller can try again.
    fn write_exclusive<'b>(
        &'b self,
        mut root: PageWriteGuard<'b>,
        message: NodeMessage<'_>,
    ) -> Result<Option<PageWriteGuard<'b>>> {
        let messages = alone(message);
        let page = child(&self.core.shape, &root, message.key);
        let node = self.core.exclusive(page, level(&root))?;
        self.core.buffer.reserve(RESERVED)?;
        if self.must_split(&node, &messages) && self.core.shape.wide.free(&root) == 0 {
            drop(node);
            self.grow(&mut root)?;
            return Ok(Some(root));
        }
        let mut tasks = Vec::new();
        // An error here does not break the tree, because no messages are being moved yet.
        self.receive(&mut root, node, &messages, &mut tasks)?;
        drop(root);
        self.run(tasks)?;
        Ok(None)
    }

    /// Writes a message to a root that has a buffer.
    fn write_in_root(&self, mut root: PageWriteGuard<'_>, message: NodeMessage<'_>) -> Result<()> {
        if !self.core.has_place(&root, message) {
            self.widen_buffer(&mut root);
        }
        if self.core.has_place(&root, message) {
            return self.core.deposit(&mut root, message);
        }
        let messages = alone(message);
        self.core.buffer.reserve(RESERVED)?;
        let RequiredAction::Flush(plan) = self.need(&root, &messages) else {
            self.core.divide_root(&mut root, PageContentKind::Buffered)?;
            assert!(
                self.core.has_place(&root, message),
                "a divided root has an empty buffer"
            );
            return self.core.deposit(&mut root, message);
        };
        let blocks = self.take_or_break(&mut root, &messages, &plan)?;
        self.run(vec![(root, blocks)])
    }

    /// Writes a message to a root that is a leaf. If the leaf is full, moves its pairs to a new
    /// leaf below the root instead, and returns the root, so that the caller can try again.
    fn write_in_leaf<'b>(
        &'b self,
        mut root: PageWriteGuard<'b>,
        message: NodeMessage<'_>,
    ) -> Result<Option<PageWriteGuard<'b>>> {
        if self.core.leaf_takes_one(&root, message) {
            self.core.apply_one(&mut root, message)?;
            return Ok(None);
        }
        self.core.buffer.reserve(RESERVED)?;
        let kind = match self.path.style {
            RootStyle::Separate => PageContentKind::Wide,
            RootStyle::Buffered => PageContentKind::Buffered,
        };
        self.core.raise_leaf(&mut root, kind)?;
        Ok(Some(root))
    }
}
