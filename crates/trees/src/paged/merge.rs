//! Merges nodes that deletes have left under-full with their neighbours, where a tree is made so.
//!
//! A writer that leaves a leaf under-full notes a key of it. When its own write is done, and it
//! holds no latch any more, it walks down to that key: each node on the way is latched before its
//! parent is left, and put together with a neighbour if it is under-full. So a merge is one more
//! change of the tree, under the latches of a split; no block of messages is on its way to a page
//! that goes. Between checkpoints it is in memory only, or in pages whose old images are kept.
//!
//! - **PM1** While no writer is in the tree, a leaf has a quarter of its pairs at least, and
//!   another node an eighth of its pivots, but for the root. A root with children has two at
//!   least.
//! - **PM2** Messages of both nodes fit into the buffer of one. Else those of the under-full node
//!   move down first: its children are few, so that each may be split.
//! - **PM3** Who merges holds the parent exclusively, then the left node, then the right one. A
//!   page is free once its parent does not lead to it.

use super::buffer::{Exclusive, PageBuffer};
use super::core::{Core, Counters};
use super::node::{
    Kind, Shape, add_pivot, child, child_at, child_index, is_under_full, join, kind, level, move_node,
    without_buffer,
};
use alluvium_storage::Result;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What becomes of nodes that deletes leave under-full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Merging {
    /// They stay: later inserts fill them.
    #[default]
    Never,
    /// They are merged with a neighbour, or get some of what it has. Pages become free.
    UnderFull,
}

/// Walks for one key. Each makes a level higher up sound, and a tree has few levels.
const MOST_WALKS: usize = 64;
const _: () = assert!(MOST_WALKS > 1, "a merge may leave the parent under-full");

/// Keys of leaves that are under-full.
#[derive(Debug, Default)]
pub(super) struct Noted {
    keys: Mutex<Vec<Vec<u8>>>,
    /// How many they are, for those who look without the mutex.
    count: AtomicUsize,
}

impl Noted {
    fn add(&self, key: &[u8]) {
        let mut keys = self.keys.lock();
        if !keys.iter().any(|noted| noted == key) {
            keys.push(key.to_vec());
        }
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    fn take(&self) -> Option<Vec<u8>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut keys = self.keys.lock();
        let key = keys.pop();
        self.count.store(keys.len(), Ordering::Relaxed);
        key
    }
}

fn pivots_len(shape: &Shape, node: &[u8]) -> usize {
    shape.pivots_of(node).len(node)
}

/// Moves the messages of a node to its children, as far as these may be split.
pub(super) type Empty<'e> = &'e dyn Fn(&mut Exclusive<'_>) -> Result<()>;

impl<B: PageBuffer> Core<B> {
    /// Notes a key of a leaf below the root, if the leaf is under-full. The note is of a latched
    /// leaf: who holds it calls [`Core::merge_noted`] later.
    pub(super) fn note_leaf(&self, leaf: &[u8], key: &[u8]) {
        debug_assert_eq!(level(leaf), 0, "it is a leaf");
        if self.merging == Merging::UnderFull && is_under_full(&self.shape, leaf) {
            self.noted.add(key);
        }
    }

    /// Notes a key below which the tree may be under-full.
    pub(super) fn note(&self, key: &[u8]) {
        if self.merging == Merging::UnderFull {
            self.noted.add(key);
        }
    }

    /// Merges what was noted (PM1). The caller is counted as a writer, and holds no latch.
    ///
    /// What fails stays noted: the next write tries again.
    pub(super) fn merge_noted(&self, empty: Empty<'_>) -> Result<()> {
        while let Some(key) = self.noted.take() {
            let merged = self.merge_at(&key, empty);
            merged.inspect_err(|_| self.noted.add(&key))?;
        }
        Ok(())
    }

    fn merge_at(&self, key: &[u8], empty: Empty<'_>) -> Result<()> {
        // Mostly the leaf alone is under-full, and its parent has other children.
        if self.merge_leaf(key, empty)? {
            return Ok(());
        }
        for _ in 0..MOST_WALKS {
            if self.merge_path(key, empty)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Merges the leaf of a key, and returns whether nothing is left to do.
    fn merge_leaf(&self, key: &[u8], empty: Empty<'_>) -> Result<bool> {
        let Some(mut parent) = self.parent_of_leaf(key)? else {
            return Ok(true);
        };
        let leaf = self.merged_child(&mut parent, key, empty)?;
        assert_eq!(level(&leaf), 0, "a leaf is below the lowest node");
        Ok(self.is_sound(&leaf) && self.is_sound(&parent))
    }

    /// Latches the parent of a key's leaf, under shared latches above, each taken before the one
    /// above it is left; none if the root is a leaf.
    fn parent_of_leaf(&self, key: &[u8]) -> Result<Option<Exclusive<'_>>> {
        let mut node = loop {
            let root = self.buffer.pin_shared(self.root)?;
            if level(&root) > 1 {
                break root;
            }
            drop(root);
            // The tree may be another one behind the other latch.
            let root = self.buffer.pin_exclusive(self.root)?;
            match level(&root) {
                0 => return Ok(None),
                1 => return Ok(Some(root)),
                _ => {}
            }
        };
        while level(&node) > 2 {
            let below = self.shared(child(&self.shape, &node, key), level(&node))?;
            node = below;
        }
        let parent = self.exclusive(child(&self.shape, &node, key), level(&node))?;
        assert_eq!(level(&parent), 1, "leaves are below it");
        Ok(Some(parent))
    }

    /// Merges every node on the way to a key's leaf that is under-full, and returns whether all
    /// are sound then: a merge may leave the parent under-full.
    fn merge_path(&self, key: &[u8], empty: Empty<'_>) -> Result<bool> {
        let mut node = self.lowered_root(empty)?;
        let mut is_sound = true;
        while level(&node) > 0 {
            let child = self.merged_child(&mut node, key, empty)?;
            is_sound &= self.is_sound(&node);
            node = child;
        }
        Ok(is_sound && self.is_sound(&node))
    }

    /// Returns whether a node has as much as it should (PM1).
    pub(super) fn is_sound(&self, node: &Exclusive<'_>) -> bool {
        match node.number() == self.root {
            true => level(node) == 0 || !self.shape.pivots_of(node).is_empty(node),
            false => !is_under_full(&self.shape, node),
        }
    }

    /// Latches the child of a key, and puts it together with neighbours while it is under-full and
    /// there are any.
    fn merged_child<'b>(
        &'b self,
        node: &mut Exclusive<'_>,
        key: &[u8],
        empty: Empty<'_>,
    ) -> Result<Exclusive<'b>> {
        loop {
            let pivots = self.shape.pivots_of(node);
            let at = child_index(&pivots, node, key);
            let child = self.exclusive(child_at(&pivots, node, at), level(node))?;
            // A node may have one child only, where three pivots are the most. On this way it gets
            // more: the child needs a neighbour.
            let has_one = level(&child) > 0 && self.shape.pivots_of(&child).is_empty(&child);
            if (self.is_sound(&child) && !has_one) || pivots.is_empty(node) {
                return Ok(child);
            }
            // Both are latched from the left to the right (PM3). No other writer comes by:
            // it needs the parent.
            drop(child);
            self.join_at(node, at.min(pivots.len(node) - 1), empty)?;
        }
    }

    /// Puts the children on both sides of a pivot together.
    fn join_at(&self, node: &mut Exclusive<'_>, at: usize, empty: Empty<'_>) -> Result<()> {
        let pivots = self.shape.pivots_of(node);
        let mut left = self.exclusive(child_at(&pivots, node, at), level(node))?;
        let mut right = self.exclusive(child_at(&pivots, node, at + 1), level(node))?;
        if kind(&left) == Some(Kind::Buffered) {
            // Which is under-full has the fewer children.
            match pivots_len(&self.shape, &left) <= pivots_len(&self.shape, &right) {
                true => self.fit(&mut left, &right, empty)?,
                false => self.fit(&mut right, &left, empty)?,
            }
        }
        // Nothing fails from here on.
        let before = pivots.key(node, at).to_vec();
        let between = join(&self.shape, &mut left, &before, &mut right);
        pivots.remove(node, at);
        match between {
            Some(pivot) => {
                add_pivot(&self.shape, node, &pivot, right.number());
                Counters::add(&self.counters.balances, 1);
            }
            None => {
                self.buffer.free(right);
                Counters::add(&self.counters.merges, 1);
            }
        }
        Ok(())
    }

    /// Prepares an under-full node for being put together with another: the messages of both fit
    /// into one buffer, and both are divided alike (PM2).
    fn fit(&self, node: &mut Exclusive<'_>, other: &[u8], empty: Empty<'_>) -> Result<()> {
        let (own, shared) = (self.shape.buffer_of(node), self.shape.buffer_of(other));
        if own.len(node) + shared.len(other) > shared.capacity() {
            empty(node)?;
            assert!(
                own.is_empty(node),
                "an under-full node can pass on all messages (PM2)"
            );
        }
        if own != shared {
            let n = self.shape.pivots_of(other).capacity();
            self.shape.divide_node(node, n);
        }
        Ok(())
    }

    /// Latches the root. While it has one child, that child's content takes its place, and the
    /// tree is a level lower.
    fn lowered_root<'b>(&'b self, empty: Empty<'_>) -> Result<Exclusive<'b>> {
        let mut root = self.buffer.pin_exclusive(self.root)?;
        while level(&root) > 0 && self.shape.pivots_of(&root).is_empty(&root) {
            if kind(&root) == Some(Kind::Buffered) && !self.shape.buffer_of(&root).is_empty(&root) {
                // What is above is younger. It may split the child.
                empty(&mut root)?;
                continue;
            }
            let page = child_at(&self.shape.pivots_of(&root), &root, 0);
            let mut child = self.exclusive(page, level(&root))?;
            if kind(&root) == Some(Kind::Wide) && kind(&child) == Some(Kind::Buffered) {
                empty(&mut child)?;
                if !self.shape.buffer_of(&child).is_empty(&child) {
                    // It has as many children as it may have: two nodes are needed.
                    self.split_node(&mut root, &mut child)?;
                    break;
                }
                without_buffer(&self.shape, &child, &mut root);
            } else {
                move_node(&self.shape, &mut child, &mut root);
            }
            self.buffer.free(child);
            Counters::add(&self.counters.lowerings, 1);
        }
        Ok(root)
    }
}
