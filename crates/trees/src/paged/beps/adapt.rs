//! When a node is divided again, where each is in its own way (thesis, section 8.2).
//!
//! It is divided in a flush or after a split, under the latch that these have, and never by a
//! lookup. A node that wants a larger buffer gets it before it passes messages on: it keeps enough
//! free pivots for a flush, so that no split becomes necessary (PE3). One that wants more pivots
//! gets them after it has passed on more than it had to, as far as its free pivots allow.

use super::BepsTree;
use crate::paged::buffer::{Exclusive, PageBuffer};
use crate::paged::core::Counters;

impl<B: PageBuffer> BepsTree<B> {
    /// Returns how many pivots a node has places for, and how many it should have.
    fn pivots_wanted(&self, node: &Exclusive<'_>) -> Option<(usize, usize)> {
        let watch = self.core.watch.as_ref()?;
        let shape = &self.core.shape;
        let now = shape.pivots_of(node).capacity();
        let b = shape.buffer_of(node).capacity();
        Some((now, watch.wanted(node.number(), now, b)))
    }

    fn divide(&self, node: &mut Exclusive<'_>, now: usize, wanted: usize) {
        let n = self.core.shape.nearest(node, wanted);
        if n != now {
            self.core.shape.divide_node(node, n);
            Counters::add(&self.core.counters.divisions, 1);
        }
    }

    /// Gives a node that is full a larger buffer, if it wants one.
    pub(super) fn widen_buffer(&self, node: &mut Exclusive<'_>) {
        if let Some((now, wanted)) = self.pivots_wanted(node)
            && wanted < now
        {
            self.divide(node, now, wanted);
        }
    }

    /// Gives a node that has passed messages on places for more pivots, if it wants them.
    pub(super) fn widen_pivots(&self, node: &mut Exclusive<'_>) {
        if let Some((now, wanted)) = self.pivots_wanted(node)
            && wanted > now
        {
            self.divide(node, now, wanted);
        }
    }

    /// Divides a half of a split node as it wants.
    pub(super) fn adapt(&self, node: &mut Exclusive<'_>) {
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

    /// Returns how many messages a node should keep when it passes some on.
    pub(super) fn messages_wanted(&self, node: &Exclusive<'_>) -> usize {
        let b = self.core.shape.buffer_of(node).capacity();
        match self.pivots_wanted(node) {
            Some((now, wanted)) if wanted > now => self.core.shape.messages_beside(wanted).min(b),
            _ => b,
        }
    }

    /// Counts messages that leave a node.
    pub(super) fn note_passed(&self, node: &Exclusive<'_>, messages: usize) {
        if let Some(watch) = &self.core.watch {
            watch.passed(node.number(), messages);
        }
    }
}
