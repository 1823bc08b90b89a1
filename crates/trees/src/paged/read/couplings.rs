//! Alternative ways to descend from a node to its child: with one latch at a time, or, where nodes
//! have snapshots, without latches (thesis, section 8.1).
//!
//! With the feature `couplings`, this module replaces `descent.rs`.

use crate::paged::buffer::{
    FrameHint, OptimisticPage, PageBuffer, PageReadGuard, PageWriteGuard, UnlatchedPage,
};
use crate::paged::core::{TreeCore, TreeCounters};
use crate::paged::node::{
    ChildLookup, ChildReference, NodeWords, PageContentKind, kind, level, look, look_at,
};
use crate::paged::tree::{PagedTree, WritePath};
use alluvium_storage::Result;

/// How a thread descends from a node to its child. This applies to readers, and to writers above
/// the node that they change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatchCoupling {
    /// Latch the child before releasing the node, as in the thesis. While a thread waits for the
    /// child, other threads wait for the node.
    #[default]
    Latched,
    /// Release the node first. Once the child is latched, check whether a writer has changed the
    /// node in the meantime, and if so, start again at the root. After several failed attempts,
    /// latch the child before releasing the node.
    Optimistic,
    /// Read an inner node that has a snapshot without a latch or a pin, and validate the node's
    /// version afterwards. Leaves, and nodes that change too often, are latched as with
    /// `Optimistic`, with the same number of attempts. A page buffer over a file sets an eighth of
    /// its frames aside for snapshots. This requires pins without the mutex
    /// ([`PinPolicy`](crate::paged::buffer::PinPolicy)). Scans work as with `Optimistic`.
    Versions,
}

/// Number of failed attempts after which the child is latched before the node is released.
const ATTEMPTS: usize = 4;

/// The node that a descent has reached.
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

/// A node that a descent has released. Its version can still be validated.
enum ReleasedNode<'b> {
    Pinned(UnlatchedPage<'b>),
    Seen(OptimisticPage<'b>),
}

impl<'b> DescentNode<'b> {
    /// Returns the node's content if the node is a leaf, and `None` otherwise.
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

    /// Releases the node's latch.
    fn leave(self) -> ReleasedNode<'b> {
        match self {
            DescentNode::Latched(node) => ReleasedNode::Pinned(node.unlatch()),
            DescentNode::Seen(node) => ReleasedNode::Seen(node),
        }
    }
}

impl ReleasedNode<'_> {
    /// Returns `below`, or `None` if a writer has changed the node since it was released.
    fn proven<T>(&self, below: Result<T>) -> Result<Option<T>> {
        let is_unchanged = match self {
            ReleasedNode::Pinned(node) => node.is_unchanged(),
            ReleasedNode::Seen(node) => node.is_unchanged(),
        };
        // If the node was changed, the child's page may hold anything by now, so even an error is
        // ignored.
        if is_unchanged { below.map(Some) } else { Ok(None) }
    }
}

impl<B: PageBuffer, W: WritePath> PagedTree<B, W> {
    /// Sets how threads descend from a node to its child. The setting is not stored with the tree.
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
    /// Runs a descent from the root and returns its result. If a step of the descent fails its
    /// validation, `walk` returns `None` and is called again.
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

    /// Starts a descent at the root. If `coupling` permits it and the root has a snapshot, the root
    /// is not latched.
    pub(in crate::paged) fn begin(&self, coupling: LatchCoupling) -> Result<DescentNode<'_>> {
        let way = Some(&self.root_way);
        if coupling == LatchCoupling::Versions
            && let Some(peek) = self.buffer.peek(self.root, way)
        {
            return Ok(DescentNode::Seen(peek));
        }
        Ok(DescentNode::Latched(self.buffer.pin_shared_by(self.root, way)?))
    }

    /// Looks up a key in an inner node. If the node's buffer has a message for the key, copies its
    /// operand into `operand`. Returns `None` if the node changed during the lookup.
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

    /// Descends from a node to the child that `look` found, for reading. Returns `None` if a writer
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
            // Read a page of any other level under a latch, so that the error is reported.
            && (next.word(0) >> 8) as u8 == above - 1
        {
            // Validate the node after reading the child's version. If messages were moved to the
            // child before that, the validation detects the change of the node.
            return left.proven(Ok(DescentNode::Seen(next)));
        }
        left.proven(self.shared_by(to.page, way, above).map(DescentNode::Latched))
    }

    /// Descends from a node to the child that `look` found, for writing. Returns `None` in the same
    /// cases as [`TreeCore::go`].
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

    /// Returns the hint to the child's frame that is stored for the node's reference to the child.
    fn way(&self, stop: &DescentNode<'_>, to: ChildReference) -> Option<&FrameHint> {
        match stop {
            DescentNode::Latched(node) => self.buffer.way(node, to.place),
            DescentNode::Seen(node) => self.buffer.way_seen(node, to.place),
        }
    }

    /// Records that a latched node was read, so that a snapshot is made if it is read often.
    fn note_read(&self, stop: &DescentNode<'_>, coupling: LatchCoupling) {
        if let (DescentNode::Latched(node), LatchCoupling::Versions) = (stop, coupling) {
            self.buffer.offer(node);
        }
    }

    /// Descends from a node to its child, for reading. Returns `None` if a writer changed the node
    /// before the child was latched, because the reader may then have missed messages.
    ///
    /// A writer that moves messages increments the node's version first, and keeps the node latched
    /// until latched children contain the messages. A thread that latches such a child afterwards
    /// therefore sees the node's new version.
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

    /// Latches a child of a node on level `above` for reading. `way` is the hint to the child's
    /// frame.
    fn shared_by(&self, page: u64, way: Option<&FrameHint>, above: u8) -> Result<PageReadGuard<'_>> {
        let child = self.buffer.pin_shared_by(page, way)?;
        Self::check_child(page, above, &child)?;
        Ok(child)
    }

    /// Latches a child of a node on level `above` for writing. `way` is the hint to the child's
    /// frame.
    fn exclusive_by(&self, page: u64, way: Option<&FrameHint>, above: u8) -> Result<PageWriteGuard<'_>> {
        let child = self.buffer.pin_exclusive_by(page, way)?;
        Self::check_child(page, above, &child)?;
        Ok(child)
    }
}
