//! Moves every message to its leaf: afterwards the leaves alone have the state (thesis, 4.2). Parts
//! of it can be done by several threads at once (thesis, section 8.3).

use super::BepsTree;
use crate::paged::buffer::{Exclusive, PageBuffer};
use crate::paged::core::RESERVED;
use crate::paged::error::Result;
use crate::paged::node::{Kind, Messages, child_at, child_index, kind, level};
use crate::paged::read::Bounds;

impl<B: PageBuffer> BepsTree<B> {
    /// Moves every message to its leaf. Writers wait meanwhile; readers go on.
    ///
    /// # Errors
    /// As [`BepsTree::insert`].
    pub fn flush_all(&self) -> Result<()> {
        let _alone = self.core.gate.write();
        self.core.readable()?;
        let mut key = Vec::new();
        while let Some(next) = self.drain_path(&key)? {
            assert!(next > key, "the walk goes on");
            key = next;
        }
        Ok(())
    }

    /// Moves every message about keys of a range to its leaf, while writers go on: what they write
    /// meanwhile may stay above. Several threads may do so at once, best for ranges of their own;
    /// each path begins at the root, whose latch they take turns for.
    ///
    /// ```
    /// use alluvium_trees::paged::beps::{BepsTree, TreeOptions};
    /// use alluvium_trees::paged::buffer::Arena;
    /// use alluvium_trees::paged::read::Bounds;
    /// let tree = BepsTree::create(Arena::new(4096)?, TreeOptions::new(8, 8))?;
    /// for number in 0..10_000u64 {
    ///     tree.insert(&number.to_be_bytes(), b"value")?;
    /// }
    /// let middle = Some(5_000u64.to_be_bytes().to_vec());
    /// std::thread::scope(|scope| {
    ///     let upper = Bounds { from: middle.clone(), below: None };
    ///     let upper = scope.spawn(|| tree.flush_within(upper));
    ///     tree.flush_within(Bounds { from: None, below: middle.clone() })?;
    ///     upper.join().unwrap()
    /// })?;
    /// assert_eq!(tree.examine()?.messages, 0);
    /// # Ok::<(), alluvium_trees::paged::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`BepsTree::insert`].
    pub fn flush_within(&self, bounds: Bounds) -> Result<()> {
        let mut next = Some(bounds.from.unwrap_or_default());
        while let Some(key) = next {
            if bounds.below.as_deref().is_some_and(|below| below <= &key[..]) {
                break;
            }
            let _writing = self.core.gate.read();
            self.core.readable()?;
            next = self.drain_path(&key)?;
            assert!(next.as_ref().is_none_or(|next| *next > key), "the walk goes on");
        }
        Ok(())
    }

    /// Moves what is on the path to a key's leaf to that leaf, and returns where the next leaf
    /// begins.
    pub(in crate::paged) fn drain_at(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let _alone = self.core.gate.write();
        self.core.readable()?;
        self.drain_path(key)
    }

    /// Moves what is on the path to a key's leaf for that leaf, and returns where the next leaf
    /// begins.
    fn drain_path(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut high = None;
        let mut node = self.core.buffer.pin_exclusive(self.core.root)?;
        while level(&node) > 0 {
            self.core.buffer.reserve(RESERVED)?;
            let is_root = node.number() == self.core.root;
            // A block may split the child, and so may the next step.
            if is_root && self.core.shape.pivots_of(&node).free(&node) < 2 {
                match kind(&node) {
                    Some(Kind::Buffered) => self.core.divide_root(&mut node, Kind::Buffered)?,
                    _ => self.grow(&mut node)?,
                }
                continue;
            }
            node = self.drain_to_child(node, key, &mut high)?;
        }
        Ok(high)
    }

    /// Moves what a node has for a key's child, and returns that child, with two free pivots.
    fn drain_to_child<'b>(
        &'b self,
        mut node: Exclusive<'b>,
        key: &[u8],
        high: &mut Option<Vec<u8>>,
    ) -> Result<Exclusive<'b>> {
        let shape = &self.core.shape;
        let pivots = *shape.pivots_of(&node);
        assert!(pivots.free(&node) >= 2, "a child may be split twice (PE3)");
        if kind(&node) == Some(Kind::Buffered) {
            let at = child_index(&pivots, &node, key);
            let (page, block) = self.take_block(&mut node, at, &Messages::new(), &mut []);
            if !block.is_empty() {
                let mut tasks = Vec::new();
                let child = self.core.exclusive(page, level(&node));
                let received = child.and_then(|child| self.receive(&mut node, child, &block, &mut tasks));
                received.inspect_err(|error| self.core.break_down(error))?;
                self.run(tasks)?;
            }
        }
        let at = child_index(&pivots, &node, key);
        let mut child = self.core.exclusive(child_at(&pivots, &node, at), level(&node))?;
        if level(&child) > 0 && shape.pivots.free(&child) < 2 {
            let (pivot, right) = self.core.split_node(&mut node, &mut child)?;
            if key >= &pivot[..] {
                child = right;
            }
        }
        let at = child_index(&pivots, &node, key);
        if at < pivots.len(&node) {
            *high = Some(pivots.key(&node, at).to_vec());
        }
        Ok(child)
    }
}
