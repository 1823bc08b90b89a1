//! Moves all messages to their leaves, so that the leaves alone hold the tree's content (thesis,
//! section 4.2). Several threads can share this work (thesis, section 8.3).

use super::BepsTree;
use crate::paged::buffer::{PageBuffer, PageWriteGuard};
use crate::paged::core::RESERVED;
use crate::paged::node::{MessageList, PageContentKind, child_at, child_index, kind, level};
use crate::paged::read::ScanBounds;
use alluvium_storage::Result;

impl<B: PageBuffer> BepsTree<B> {
    /// Moves every message to its leaf. Writers wait until this returns, but readers do not.
    ///
    /// # Errors
    /// The errors of [`BepsTree::insert`].
    pub fn flush_all(&self) -> Result<()> {
        let _alone = self.core.gate.write();
        self.core.readable()?;
        let mut key = Vec::new();
        while let Some(next) = self.drain_path(&key)? {
            assert!(next > key, "the walk goes on");
            key = next;
            // If this merges leaves, the next iteration continues at `key`, in the middle of the
            // merged leaf.
            self.merge_noted()?;
        }
        self.merge_noted()
    }

    /// Moves every message for a key in the range to its leaf. Writers are not blocked, so messages
    /// that are written concurrently may remain in inner nodes. Several threads may call this at
    /// the same time, preferably for disjoint ranges. Each descent starts at the root, so the
    /// threads take turns on the root's latch.
    ///
    /// ```
    /// use alluvium_trees::paged::beps::{BepsTree, BepsOptions};
    /// use alluvium_trees::paged::buffer::PageArena;
    /// use alluvium_trees::paged::read::ScanBounds;
    /// let tree = BepsTree::create(PageArena::new(4096)?, BepsOptions::new(8, 8))?;
    /// for number in 0..10_000u64 {
    ///     tree.insert(&number.to_be_bytes(), b"value")?;
    /// }
    /// let middle = Some(5_000u64.to_be_bytes().to_vec());
    /// std::thread::scope(|scope| {
    ///     let upper = ScanBounds { from: middle.clone(), below: None };
    ///     let upper = scope.spawn(|| tree.flush_within(upper));
    ///     tree.flush_within(ScanBounds { from: None, below: middle.clone() })?;
    ///     upper.join().unwrap()
    /// })?;
    /// assert_eq!(tree.examine()?.messages, 0);
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`BepsTree::insert`].
    pub fn flush_within(&self, bounds: ScanBounds) -> Result<()> {
        let mut next = Some(bounds.from.unwrap_or_default());
        while let Some(key) = next {
            if bounds.below.as_deref().is_some_and(|below| below <= &key[..]) {
                break;
            }
            let _writing = self.core.gate.read();
            self.core.readable()?;
            next = self.drain_path(&key)?;
            self.merge_noted()?;
            assert!(next.as_ref().is_none_or(|next| *next > key), "the walk goes on");
        }
        Ok(())
    }

    /// Moves the messages on the path to a key's leaf into that leaf, while writers wait. Returns
    /// the first key of the next leaf, or `None` if there is no next leaf.
    pub(in crate::paged) fn drain_at(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let _alone = self.core.gate.write();
        self.core.readable()?;
        let next = self.drain_path(key)?;
        self.merge_noted()?;
        Ok(next)
    }

    /// Moves the messages on the path to a key's leaf into that leaf. Returns the first key of the
    /// next leaf, or `None` if there is no next leaf.
    fn drain_path(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        loop {
            let (high, is_whole) = self.drain_once(key)?;
            if is_whole {
                return Ok(high);
            }
        }
    }

    /// Descends to a key's leaf once, and moves the messages on the path down as far as the free
    /// pivots allow. Returns the first key of the next leaf, if there is one, and whether all
    /// messages were moved.
    fn drain_once(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, bool)> {
        let (mut high, mut is_whole) = (None, true);
        let mut node = self.core.buffer.pin_exclusive(self.core.root)?;
        while level(&node) > 0 {
            self.core.buffer.reserve(RESERVED)?;
            let is_root = node.number() == self.core.root;
            // Two free pivots are required: a block of messages may split the child, and the next
            // step of the descent may split it again.
            if is_root && self.core.shape.pivots_of(&node).free(&node) < 2 {
                match kind(&node) {
                    Some(PageContentKind::Buffered) => {
                        self.core.divide_root(&mut node, PageContentKind::Buffered)?;
                    }
                    _ => self.grow(&mut node)?,
                }
                continue;
            }
            let is_empty;
            (node, is_empty) = self.drain_to_child(node, key, &mut high)?;
            is_whole &= is_empty;
        }
        Ok((high, is_whole))
    }

    /// Counts a node's messages for the child whose range contains a key.
    fn waiting(&self, node: &[u8], key: &[u8]) -> usize {
        let (pivots, buffer) = (self.core.shape.pivots_of(node), self.core.shape.buffer_of(node));
        let at = child_index(&pivots, node, key);
        let below = |pivot: usize| buffer.below(node, pivots.key(node, pivot));
        let from = at.checked_sub(1).map_or(0, below);
        let to = if at < pivots.len(node) {
            below(at)
        } else {
            buffer.len(node)
        };
        assert!(from <= to, "messages are in key order (PN1)");
        to - from
    }

    /// Moves a block of messages to the child at index `at`. This may split the child, so the node
    /// must have a free pivot.
    fn push_down(&self, node: &mut PageWriteGuard<'_>, at: usize) -> Result<()> {
        assert!(
            self.core.shape.pivots_of(node).free(node) > 0,
            "the child may be split (PE3)"
        );
        let (page, block) = self.take_block(node, at, &MessageList::new(), &mut []);
        if block.is_empty() {
            return Ok(());
        }
        let mut tasks = Vec::new();
        let child = self.core.exclusive(page, level(node));
        let received = child.and_then(|child| self.receive(node, child, &block, &mut tasks));
        received.inspect_err(|error| self.core.break_down(error))?;
        self.run(tasks)
    }

    /// Moves a node's messages to its children, until no messages are left or the node has no free
    /// pivot to split a child.
    pub(super) fn empty(&self, node: &mut PageWriteGuard<'_>) -> Result<()> {
        let shape = &self.core.shape;
        assert_eq!(kind(node), Some(PageContentKind::Buffered), "it has a buffer");
        loop {
            let (pivots, buffer) = (shape.pivots_of(node), shape.buffer_of(node));
            if buffer.is_empty(node) || pivots.free(node) == 0 {
                return Ok(());
            }
            self.core.buffer.reserve(RESERVED)?;
            let at = child_index(&pivots, node, buffer.key(node, 0));
            self.push_down(node, at)?;
        }
    }

    /// Moves a node's messages for the child whose range contains `key` to that child. Returns the
    /// child, which then has at least two free pivots, and whether all of these messages were
    /// moved. Some may remain, because they may form several blocks, and each block may split the
    /// child.
    fn drain_to_child<'b>(
        &'b self,
        mut node: PageWriteGuard<'b>,
        key: &[u8],
        high: &mut Option<Vec<u8>>,
    ) -> Result<(PageWriteGuard<'b>, bool)> {
        let shape = &self.core.shape;
        let pivots = shape.pivots_of(&node);
        assert!(pivots.free(&node) >= 2, "a child may be split twice (PE3)");
        let mut left = match kind(&node) {
            Some(PageContentKind::Buffered) => self.waiting(&node, key),
            _ => 0,
        };
        while left > 0 && pivots.free(&node) >= 2 {
            let at = child_index(&pivots, &node, key);
            self.push_down(&mut node, at)?;
            left = self.waiting(&node, key);
        }
        let at = child_index(&pivots, &node, key);
        let mut child = self.core.exclusive(child_at(&pivots, &node, at), level(&node))?;
        if level(&child) > 0 && shape.pivots_of(&child).free(&child) < 2 {
            let (pivot, right) = self.core.split_node(&mut node, &mut child)?;
            if key >= &pivot[..] {
                child = right;
            }
        }
        let at = child_index(&pivots, &node, key);
        if at < pivots.len(&node) {
            *high = Some(pivots.key(&node, at).to_vec());
        }
        Ok((child, left == 0))
    }
}
