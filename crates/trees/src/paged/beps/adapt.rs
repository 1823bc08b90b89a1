//! Adaptive division: each node divides its space between pivots and messages according to an ε of
//! its own (thesis, section 8.2).
//!
//! A node's division is changed during a flush or after a split, under the exclusive latch that is
//! held anyway, and never by a lookup. A node that needs a larger buffer gets it before it flushes,
//! and still keeps enough free pivots for the flush, so that no split becomes necessary (PE3). A
//! node that needs more pivots gets them after a flush. To free the space for them, that flush
//! moves more messages than necessary, as far as the number of free pivots allows.

use super::BepsTree;
use crate::paged::buffer::{PageBuffer, PageWriteGuard};
use crate::paged::core::TreeCounters;

impl<B: PageBuffer> BepsTree<B> {
    /// Returns the number of pivots that a node has space for, and the number that it should have
    /// space for. Returns `None` if the tree is not adaptive.
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

    /// Enlarges a full node's buffer if its access counts suggest it.
    pub(super) fn widen_buffer(&self, node: &mut PageWriteGuard<'_>) {
        if let Some((now, wanted)) = self.pivots_wanted(node)
            && wanted < now
        {
            self.divide(node, now, wanted);
        }
    }

    /// Makes space for more pivots in a node that has just flushed, if its access counts suggest
    /// it.
    pub(super) fn widen_pivots(&self, node: &mut PageWriteGuard<'_>) {
        if let Some((now, wanted)) = self.pivots_wanted(node)
            && wanted > now
        {
            self.divide(node, now, wanted);
        }
    }

    /// Divides the space of one half of a split node as its access counts suggest.
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
