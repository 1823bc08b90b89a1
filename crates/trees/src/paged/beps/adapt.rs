//! Adaptive division of nodes: each node has its own ε (thesis, section 8.2).
//!
//! A node is divided again in a flush or after a split, under the exclusive latch held there, and
//! never by a lookup. A node that needs a larger buffer gets it before it flushes; it keeps enough
//! free pivots for a flush, so that no split becomes necessary (PE3). A node that needs more pivots
//! gets them after a flush that moved more messages than it had to, as far as its free pivots
//! allowed.

use super::BepsTree;
use crate::paged::buffer::{PageBuffer, PageWriteGuard};
use crate::paged::core::TreeCounters;

impl<B: PageBuffer> BepsTree<B> {
    /// Returns the number of pivots for which a node has space, and the number that it should have.
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

    /// Gives a full node a larger buffer, if its counts ask for one.
    pub(super) fn widen_buffer(&self, node: &mut PageWriteGuard<'_>) {
        if let Some((now, wanted)) = self.pivots_wanted(node)
            && wanted < now
        {
            self.divide(node, now, wanted);
        }
    }

    /// Gives a node that has flushed space for more pivots, if its counts ask for it.
    pub(super) fn widen_pivots(&self, node: &mut PageWriteGuard<'_>) {
        if let Some((now, wanted)) = self.pivots_wanted(node)
            && wanted > now
        {
            self.divide(node, now, wanted);
        }
    }

    /// Divides a half of a split node as its counts ask.
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

    /// Returns how many messages a node should keep in a flush.
    pub(super) fn messages_wanted(&self, node: &PageWriteGuard<'_>) -> usize {
        let b = self.core.shape.buffer_of(node).capacity();
        match self.pivots_wanted(node) {
            Some((now, wanted)) if wanted > now => self.core.shape.messages_beside(wanted).min(b),
            _ => b,
        }
    }

    /// Counts messages that leave a node.
    pub(super) fn note_passed(&self, node: &PageWriteGuard<'_>, messages: usize) {
        if let Some(watch) = &self.core.watch {
            watch.passed(node.number(), messages);
        }
    }
}
