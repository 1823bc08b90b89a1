//! Merges nodes that deletes have left under-full with their neighbours. Each tree can turn merging
//! on or off.
//!
//! A writer that leaves a leaf under-full records one of the leaf's keys. After its own write, when
//! it holds no latch, it descends to that key. On the way it latches each child before it releases
//! the parent, and merges under-full nodes with a neighbour. A merge thus holds the same latches as
//! a split, and cannot free a page while another writer moves messages to it. Until the next
//! checkpoint, a merge exists only in memory, or in pages whose old images are in the journal.
//!
//! Invariants:
//!
//! - **PM1** While no writer is active, every leaf except the root is at least a quarter full, and
//!   every inner node except the root has at least an eighth of the maximum number of pivots. A
//!   root that is an inner node has at least two children.
//! - **PM2** The messages of two nodes must fit into one buffer before the nodes are merged. If
//!   they do not, the under-full node's messages are moved to its children first. This is always
//!   possible, because the node has few children and enough free pivots to split each of them.
//! - **PM3** A merge latches the parent exclusively, then the left node, and then the right node. A
//!   page is freed only after its parent no longer refers to it.

use super::buffer::{PageBuffer, PageWriteGuard};
use super::core::{TreeCore, TreeCounters};
use super::node::{
    NodeShape, PageContentKind, add_pivot, child, child_at, child_index, is_under_full, join, kind, level,
    move_node, without_buffer,
};
use alluvium_storage::Result;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What to do with nodes that deletes leave under-full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnderfullPolicy {
    /// Leave under-full nodes as they are, until later inserts fill them.
    #[default]
    Never,
    /// Merge an under-full node with a neighbour, which frees a page. If the contents do not fit
    /// into one node, move some of the neighbour's content to the under-full node instead.
    UnderFull,
}

/// Maximum number of descents that merge the nodes on one key's path. Each descent repairs at least
/// one more level, and a tree has few levels.
const MOST_WALKS: usize = 64;
const _: () = assert!(MOST_WALKS > 1, "a merge may leave the parent under-full");

/// Keys of the leaves that writers have left under-full.
#[derive(Debug, Default)]
pub(super) struct UnderfullKeys {
    keys: Mutex<Vec<Vec<u8>>>,
    /// The number of keys, which can be read without the mutex.
    count: AtomicUsize,
}

impl UnderfullKeys {
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

fn pivots_len(shape: &NodeShape, node: &[u8]) -> usize {
    shape.pivots_of(node).len(node)
}

/// A callback that moves a node's messages to its children, as far as the node has free pivots to
/// split them.
pub(super) type DrainCallback<'e> = &'e dyn Fn(&mut PageWriteGuard<'_>) -> Result<()>;

impl<B: PageBuffer> TreeCore<B> {
    /// If a leaf below the root is under-full, records a key of that leaf for a later merge. The
    /// caller must hold the leaf's latch, and must call [`TreeCore::merge_noted`] later.
    pub(super) fn note_leaf(&self, leaf: &[u8], key: &[u8]) {
        debug_assert_eq!(level(leaf), 0, "it is a leaf");
        if self.merging == UnderfullPolicy::UnderFull && is_under_full(&self.shape, leaf) {
            self.noted.add(key);
        }
    }

    /// Records a key whose path may contain under-full nodes.
    pub(super) fn note(&self, key: &[u8]) {
        if self.merging == UnderfullPolicy::UnderFull {
            self.noted.add(key);
        }
    }

    /// Merges the under-full leaves whose keys were noted (PM1). The caller must be registered as a
    /// writer, and must not hold any latch.
    ///
    /// If merging at a key fails, the key is put back so that the next write retries it.
    pub(super) fn merge_noted(&self, empty: DrainCallback<'_>) -> Result<()> {
        while let Some(key) = self.noted.take() {
            let merged = self.merge_at(&key, empty);
            merged.inspect_err(|_| self.noted.add(&key))?;
        }
        Ok(())
    }

    fn merge_at(&self, key: &[u8], empty: DrainCallback<'_>) -> Result<()> {
        // Usually only the leaf is under-full, and its parent has other children.
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

    /// Merges a key's leaf if it is under-full. Returns `true` if nothing is left to merge, because
    /// the leaf and its parent are full enough or the root is a leaf.
    fn merge_leaf(&self, key: &[u8], empty: DrainCallback<'_>) -> Result<bool> {
        let Some(mut parent) = self.parent_of_leaf(key)? else {
            return Ok(true);
        };
        let leaf = self.merged_child(&mut parent, key, empty)?;
        assert_eq!(level(&leaf), 0, "a leaf is below the lowest node");
        Ok(self.is_sound(&leaf) && self.is_sound(&parent))
    }

    /// Descends to the parent of a key's leaf, and returns it latched exclusively. The nodes above
    /// are latched in shared mode, and each child is latched before its parent is released. Returns
    /// `None` if the root is a leaf.
    fn parent_of_leaf(&self, key: &[u8]) -> Result<Option<PageWriteGuard<'_>>> {
        let mut node = loop {
            let root = self.buffer.pin_shared(self.root)?;
            if level(&root) > 1 {
                break root;
            }
            drop(root);
            // The tree may have changed since the shared latch was released, so check the level
            // again.
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

    /// Merges every under-full node on the path to a key's leaf. Returns whether all nodes on the
    /// path are full enough afterwards. A merge may leave the parent under-full, so they may not
    /// be.
    fn merge_path(&self, key: &[u8], empty: DrainCallback<'_>) -> Result<bool> {
        let mut node = self.lowered_root(empty)?;
        let mut is_sound = true;
        while level(&node) > 0 {
            let child = self.merged_child(&mut node, key, empty)?;
            is_sound &= self.is_sound(&node);
            node = child;
        }
        Ok(is_sound && self.is_sound(&node))
    }

    /// Returns whether a node is full enough (PM1).
    pub(super) fn is_sound(&self, node: &PageWriteGuard<'_>) -> bool {
        match node.number() == self.root {
            true => level(node) == 0 || !self.shape.pivots_of(node).is_empty(node),
            false => !is_under_full(&self.shape, node),
        }
    }

    /// Latches the child whose range contains a key, and merges it with a neighbour as long as it
    /// is under-full and has one. Returns the resulting child.
    fn merged_child<'b>(
        &'b self,
        node: &mut PageWriteGuard<'_>,
        key: &[u8],
        empty: DrainCallback<'_>,
    ) -> Result<PageWriteGuard<'b>> {
        loop {
            let pivots = self.shape.pivots_of(node);
            let at = child_index(&pivots, node, key);
            let child = self.exclusive(child_at(&pivots, node, at), level(node))?;
            // If nodes can have at most three pivots, a node with only one child is not under-full.
            // Here it must be merged all the same, because its own child is under-full and needs a
            // neighbour.
            let has_one = level(&child) > 0 && self.shape.pivots_of(&child).is_empty(&child);
            if (self.is_sound(&child) && !has_one) || pivots.is_empty(node) {
                return Ok(child);
            }
            // Both nodes must be latched from left to right (PM3), so the child is released first.
            // No other writer can change it in the meantime, because a writer would need the
            // parent's latch.
            drop(child);
            self.join_at(node, at.min(pivots.len(node) - 1), empty)?;
        }
    }

    /// Merges the children on the two sides of a pivot.
    fn join_at(&self, node: &mut PageWriteGuard<'_>, at: usize, empty: DrainCallback<'_>) -> Result<()> {
        let pivots = self.shape.pivots_of(node);
        let mut left = self.exclusive(child_at(&pivots, node, at), level(node))?;
        let mut right = self.exclusive(child_at(&pivots, node, at + 1), level(node))?;
        if kind(&left) == Some(PageContentKind::Buffered) {
            // Move the messages of the node with fewer children, which is the under-full one.
            match pivots_len(&self.shape, &left) <= pivots_len(&self.shape, &right) {
                true => self.fit(&mut left, &right, empty)?,
                false => self.fit(&mut right, &left, empty)?,
            }
        }
        // Nothing after this point can fail.
        let before = pivots.key(node, at).to_vec();
        let between = join(&self.shape, &mut left, &before, &mut right);
        pivots.remove(node, at);
        match between {
            Some(pivot) => {
                add_pivot(&self.shape, node, &pivot, right.number());
                TreeCounters::add(&self.counters.balances, 1);
            }
            None => {
                self.buffer.free(right);
                TreeCounters::add(&self.counters.merges, 1);
            }
        }
        Ok(())
    }

    /// Prepares an under-full node for a merge: makes the messages of both nodes fit into one
    /// buffer, and divides the space of both nodes in the same way (PM2).
    fn fit(&self, node: &mut PageWriteGuard<'_>, other: &[u8], empty: DrainCallback<'_>) -> Result<()> {
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

    /// Latches the root exclusively, and returns it. As long as the root has only one child,
    /// replaces the root's content with the child's content, which removes a level from the tree.
    fn lowered_root<'b>(&'b self, empty: DrainCallback<'_>) -> Result<PageWriteGuard<'b>> {
        let mut root = self.buffer.pin_exclusive(self.root)?;
        while level(&root) > 0 && self.shape.pivots_of(&root).is_empty(&root) {
            if kind(&root) == Some(PageContentKind::Buffered) && !self.shape.buffer_of(&root).is_empty(&root)
            {
                // The root's messages are newer than the child's, so they must move down before the
                // child's content is moved up. This may split the child.
                empty(&mut root)?;
                continue;
            }
            let page = child_at(&self.shape.pivots_of(&root), &root, 0);
            let mut child = self.exclusive(page, level(&root))?;
            if kind(&root) == Some(PageContentKind::Wide) && kind(&child) == Some(PageContentKind::Buffered) {
                empty(&mut child)?;
                if !self.shape.buffer_of(&child).is_empty(&child) {
                    // The child already has the maximum number of children, so move its pivots into
                    // two nodes.
                    self.split_node(&mut root, &mut child)?;
                    break;
                }
                without_buffer(&self.shape, &child, &mut root);
            } else {
                move_node(&self.shape, &mut child, &mut root);
            }
            self.buffer.free(child);
            TreeCounters::add(&self.counters.lowerings, 1);
        }
        Ok(root)
    }
}
