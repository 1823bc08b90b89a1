//! Alternative ways to step from a node to its child: with one latch at a time, or without latches
//! on nodes that have a snapshot (thesis, section 8.1).
//!
//! Replaces `descent.rs` with the feature `couplings`.

use crate::paged::buffer::{
    FrameHint, OptimisticPage, PageBuffer, PageReadGuard, PageWriteGuard, UnlatchedPage,
};
use crate::paged::core::{TreeCore, TreeCounters};
use crate::paged::node::{
    ChildLookup, ChildReference, NodeWords, PageContentKind, kind, level, look, look_at,
};
use crate::paged::tree::{PagedTree, WritePath};
use alluvium_storage::Result;

/// How readers, and writers above the node that they change, step from a node to its child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatchCoupling {
    /// Latch the child before releasing the node, as in the thesis. While a thread waits for the
    /// child, others wait for the node.
    #[default]
    Latched,
    /// Release the node first, and check once the child is latched whether a writer has changed the
    /// node; if so, restart at the root. After several failed attempts, latch both.
    Optimistic,
    /// Read inner nodes with a snapshot without a latch or a pin, and validate the node's version
    /// afterwards. Leaves, and nodes that change too often, are latched as with `Optimistic`, with
    /// as many attempts. For a page buffer over a file, an eighth of the frames is used for
    /// snapshots. Requires pins without the mutex ([`PinPolicy`](crate::paged::buffer::PinPolicy)).
    /// Scans work as with `Optimistic`.
    Versions,
}

/// The number of attempts before both nodes are latched.
const ATTEMPTS: usize = 4;

/// The current node of a descent.
pub(in crate::paged) enum DescentNode<'b> {
    Latched(PageReadGuard<'b>),
    /// A snapshot of an inner node.
    Seen(OptimisticPage<'b>),
}

impl NodeWords for OptimisticPage<'_> {
    fn word(&self, at: usize) -> u64 {
        OptimisticPage::word(self, at)
    }
}

/// A node that a descent has released, and whose version it may validate.
enum ReleasedNode<'b> {
    Pinned(UnlatchedPage<'b>),
    Seen(OptimisticPage<'b>),
}

impl<'b> DescentNode<'b> {
    /// Returns the node if it is a leaf.
    pub(in crate::paged) fn leaf(&self) -> Option<&[u8]> {
        match self {
            DescentNode::Latched(node) if kind(node) == Some(PageContentKind::Leaf) => Some(node),
            DescentNode::Latched(_) | DescentNode::Seen(_) => None,
        }
    }

    /// Returns the node's page number.
    pub(in crate::paged) fn number(&self) -> u64 {
        match self {
            DescentNode::Latched(node) => node.number(),
            DescentNode::Seen(node) => node.number(),
        }
    }

    /// Releases the latch of the node.
    fn leave(self) -> ReleasedNode<'b> {
        match self {
            DescentNode::Latched(node) => ReleasedNode::Pinned(node.unlatch()),
            DescentNode::Seen(node) => ReleasedNode::Seen(node),
        }
    }
}

impl ReleasedNode<'_> {
    /// Returns `below`, unless a writer has changed the node since it was released.
    fn proven<T>(&self, below: Result<T>) -> Result<Option<T>> {
        let is_unchanged = match self {
            ReleasedNode::Pinned(node) => node.is_unchanged(),
            ReleasedNode::Seen(node) => node.is_unchanged(),
        };
        // If the node was changed, the page may be anything by now, so even an error is ignored.
        if is_unchanged { below.map(Some) } else { Ok(None) }
    }
}

impl<B: PageBuffer, W: WritePath> PagedTree<B, W> {
    /// Sets how threads step from a node to its child. The setting is not stored with the tree.
    #[must_use]
    pub fn coupled_by(mut self, coupling: LatchCoupling) -> PagedTree<B, W> {
        if coupling == LatchCoupling::Versions {
            self.core.buffer.keep_snapshots();
        }
        self.core.coupling = coupling;
        self
    }
}

impl<B: PageBuffer> TreeCore<B> {
    /// Walks from the root until `walk` returns a result. If a step failed its validation, `walk`
    /// returns `None` and is called again.
    pub(in crate::paged) fn descend<T>(
        &self,
        mut walk: impl FnMut(LatchCoupling) -> Result<Option<T>>,
    ) -> Result<T> {
        if self.coupling != LatchCoupling::Latched {
            for _ in 0..ATTEMPTS {
                if let Some(found) = walk(self.coupling)? {
                    return Ok(found);
                }
                TreeCounters::add(&self.counters.restarts, 1);
            }
        }
        let found = walk(LatchCoupling::Latched)?;
        Ok(found.expect("a node stays as it is while its child is latched (PR1)"))
    }

    /// Begins a descent at the root, without a latch if `coupling` and a snapshot permit it.
    pub(in crate::paged) fn begin(&self, coupling: LatchCoupling) -> Result<DescentNode<'_>> {
        let way = Some(&self.root_way);
        if coupling == LatchCoupling::Versions
            && let Some(peek) = self.buffer.peek(self.root, way)
        {
            return Ok(DescentNode::Seen(peek));
        }
        Ok(DescentNode::Latched(self.buffer.pin_shared_by(self.root, way)?))
    }

    /// Searches a key in an inner node; the operand of its message is copied into `operand`.
    /// Returns `None` if the node was changed during the search.
    pub(in crate::paged) fn look(
        &self,
        stop: &DescentNode<'_>,
        key: &[u8],
        operand: &mut Vec<u8>,
    ) -> Option<ChildLookup> {
        match stop {
            DescentNode::Latched(node) => Some(look(&self.shape, node, key, operand)),
            DescentNode::Seen(peek) => {
                let look = look_at(&self.shape, peek, key, operand);
                let is_proven = peek.is_unchanged();
                assert!(
                    !is_proven
                        || matches!(look.kind, Some(PageContentKind::Wide | PageContentKind::Buffered)),
                    "nodes with children have snapshots"
                );
                is_proven.then_some(look)
            }
        }
    }

    /// Steps from a node to the child found by `look`, for reading. Returns `None` if a writer has
    /// changed the node before the child was latched or its version was read.
    pub(in crate::paged) fn go<'b>(
        &'b self,
        stop: DescentNode<'b>,
        look: ChildLookup,
        coupling: LatchCoupling,
    ) -> Result<Option<DescentNode<'b>>> {
        let (to, above) = (look.to, look.level);
        let stop = match (stop, coupling) {
            (DescentNode::Latched(node), LatchCoupling::Latched) => {
                return Ok(self.step(node, to, coupling)?.map(DescentNode::Latched));
            }
            (stop, _) => stop,
        };
        self.note_read(&stop, coupling);
        let way = self.way(&stop, to);
        let left = stop.leave();
        if coupling == LatchCoupling::Versions
            && above > 1
            && let Some(next) = self.buffer.peek(to.page, way)
            // Any other page is read under a latch, which reports the error.
            && (next.word(0) >> 8) as u8 == above - 1
        {
            // The node is validated after the child's version was read: messages in the child that
            // were moved before that are noticed.
            return left.proven(Ok(DescentNode::Seen(next)));
        }
        left.proven(self.shared_by(to.page, way, above).map(DescentNode::Latched))
    }

    /// Steps from a node to the child found by `look`, for writing. Returns `None` as
    /// [`TreeCore::go`] does.
    pub(in crate::paged) fn go_exclusive<'b>(
        &'b self,
        stop: DescentNode<'b>,
        look: ChildLookup,
        coupling: LatchCoupling,
    ) -> Result<Option<PageWriteGuard<'b>>> {
        let (to, above) = (look.to, look.level);
        let stop = match (stop, coupling) {
            (DescentNode::Latched(node), LatchCoupling::Latched) => {
                let child = self.exclusive_by(to.page, self.buffer.way(&node, to.place), above)?;
                drop(node);
                return Ok(Some(child));
            }
            (stop, _) => stop,
        };
        self.note_read(&stop, coupling);
        let way = self.way(&stop, to);
        let left = stop.leave();
        left.proven(self.exclusive_by(to.page, way, above))
    }

    /// Returns the hint to the child's frame that is stored with the node's reference to the child.
    fn way(&self, stop: &DescentNode<'_>, to: ChildReference) -> Option<&FrameHint> {
        match stop {
            DescentNode::Latched(node) => self.buffer.way(node, to.place),
            DescentNode::Seen(node) => self.buffer.way_seen(node, to.place),
        }
    }

    /// Offers a latched node for a snapshot, if it is read often.
    fn note_read(&self, stop: &DescentNode<'_>, coupling: LatchCoupling) {
        if let (DescentNode::Latched(node), LatchCoupling::Versions) = (stop, coupling) {
            self.buffer.offer(node);
        }
    }

    /// Steps from a node to its child, for reading. Returns `None` if a writer has changed the node
    /// before the child was latched, because messages may have been missed then.
    ///
    /// A writer that moves messages holds the node until they are in latched children, and raises
    /// the node's version before that. So any thread that then latches such a child sees the new
    /// version.
    pub(in crate::paged) fn step<'b>(
        &'b self,
        node: PageReadGuard<'b>,
        to: ChildReference,
        coupling: LatchCoupling,
    ) -> Result<Option<PageReadGuard<'b>>> {
        let (above, way) = (level(&node), self.buffer.way(&node, to.place));
        assert!(above > 0, "a leaf has no child");
        if coupling == LatchCoupling::Latched {
            let child = self.shared_by(to.page, way, above)?;
            drop(node);
            return Ok(Some(child));
        }
        let left = ReleasedNode::Pinned(node.unlatch());
        left.proven(self.shared_by(to.page, way, above))
    }

    /// Latches a child of a node at level `above` for reading, with the hint to the child's frame.
    fn shared_by(&self, page: u64, way: Option<&FrameHint>, above: u8) -> Result<PageReadGuard<'_>> {
        let child = self.buffer.pin_shared_by(page, way)?;
        Self::check_child(page, above, &child)?;
        Ok(child)
    }

    /// Latches a child of a node at level `above` for writing, with the hint to the child's frame.
    fn exclusive_by(&self, page: u64, way: Option<&FrameHint>, above: u8) -> Result<PageWriteGuard<'_>> {
        let child = self.buffer.pin_exclusive_by(page, way)?;
        Self::check_child(page, above, &child)?;
        Ok(child)
    }
}
