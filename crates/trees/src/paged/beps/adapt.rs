//! Adaptive division of nodes: the space of each node is divided between pivots and messages
//! according to an ε of its own (thesis, section 8.2).
//!
//! The division of a node is changed during a flush or after a split, under the exclusive latch
//! that is held then, and never by a lookup. If a node needs a larger buffer, the buffer is
//! enlarged before the node flushes. The node then still has enough free pivots for a flush, so
//! that no split becomes necessary (PE3). If a node needs more pivots, they are added after a
//! flush. To make space for them, that flush moves more messages than necessary, as far as the
//! number of free pivots allows.

use super::BepsTree;
use crate::paged::buffer::{PageBuffer, PageWriteGuard};
use crate::paged::core::TreeCounters;

impl<B: PageBuffer> BepsTree<B> {
    /// Returns the number of pivots for which a node has space, and the number for which it should
    /// have space. Returns `None` if the tree is not adaptive.
    fn pivots_wanted(&self, node: &PageWriteGuard<'_>) -> Option<(usize, usize)> {
        let watch = self.core.watch.as_ref()?;
        let shape = &self.core.shape;
        let now = shape.pivots_of(node).capacity();
        let b = shape.buffer_of(node).capacity();
        Some((now, watch.wanted(node.number(), now, b)))
    }

    fn divide(&self, node: &mut PageWriteGuard<'_>, now: usize, wanted: usize) {
        let n = self.core.shape.nearest(node, wanted);
        if n != now {
            self.core.shape.divide_node(node, n);
            TreeCounters::add(&self.core.counters.divisions, 1);
        }
    }

    /// Enlarges the buffer of a full node, if the node's access counts suggest it.
    pub(super) fn widen_buffer(&self, node: &mut PageWriteGuard<'_>) {
        if let Some((now, wanted)) = self.pivots_wanted(node)
            && wanted < now
        {
            self.divide(node, now, wanted);
        }
    }

    /// Makes space for more pivots in a node that has flushed, if the node's access counts suggest
    /// it.
    pub(super) fn widen_pivots(&self, node: &mut PageWriteGuard<'_>) {
        if let Some((now, wanted)) = self.pivots_wanted(node)
            && wanted > now
        {
            self.divide(node, now, wanted);
        }
    }

    /// Changes the division of one half of a split node to the one that the node's access counts
    /// suggest.
    pub(super) fn adapt(&self, node: &mut PageWriteGuard<'_>) {
        if let Some((now, wanted)) = self.pivots_wanted(node) {
            self.divide(node, now, wanted);
            let (pivots, addressed) = (
                self.core.shape.pivots_of(node),
                (self.core.shape.pivots_of(node).len(node) + 1).div_ceil(2),
            );
            assert!(
                pivots.free(node) >= addressed,
                "one split suffices for a flush (PE3)"
            );
        }
    }

    /// Returns the maximum number of messages that a node should keep in a flush.
    pub(super) fn messages_wanted(&self, node: &PageWriteGuard<'_>) -> usize {
        let b = self.core.shape.buffer_of(node).capacity();
        match self.pivots_wanted(node) {
            Some((now, wanted)) if wanted > now => self.core.shape.messages_beside(wanted).min(b),
            _ => b,
        }
    }

    /// Counts messages that have left a node.
    pub(super) fn note_passed(&self, node: &PageWriteGuard<'_>, messages: usize) {
        if let Some(watch) = &self.core.watch {
            watch.passed(node.number(), messages);
        }
    }
}
