//! Alternative ways to step from a node to its child: with one latch at a time, or without latches
//! on nodes that have a snapshot (thesis, section 8.1).
//!
//! Replaces `descent.rs` with the feature `couplings`.

use crate::paged::buffer::{Exclusive, PageBuffer, Peek, Shared, Unlatched, Way};
use crate::paged::core::{Core, Counters};
use crate::paged::node::{Kind, Look, Reference, Words, kind, level, look, look_at};
use crate::paged::tree::{PagedTree, WritePath};
use alluvium_storage::Result;

/// How readers, and writers above the node that they change, step from a node to its child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coupling {
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
pub(in crate::paged) enum Stop<'b> {
    /// A latched node.
    Latched(Shared<'b>),
    /// A snapshot of an inner node.
    Seen(Peek<'b>),
}

impl Words for Peek<'_> {
    fn word(&self, at: usize) -> u64 {
        Peek::word(self, at)
    }
}

/// A node that a descent has released, and whose version it may validate.
enum Left<'b> {
    Pinned(Unlatched<'b>),
    Seen(Peek<'b>),
}

impl<'b> Stop<'b> {
    /// Returns the node if it is a leaf.
    pub(in crate::paged) fn leaf(&self) -> Option<&[u8]> {
        match self {
            Stop::Latched(node) if kind(node) == Some(Kind::Leaf) => Some(node),
            Stop::Latched(_) | Stop::Seen(_) => None,
        }
    }

    /// Returns the node's page number.
    pub(in crate::paged) fn number(&self) -> u64 {
        match self {
            Stop::Latched(node) => node.number(),
            Stop::Seen(node) => node.number(),
        }
    }

    /// Releases the latch of the node.
    fn leave(self) -> Left<'b> {
        match self {
            Stop::Latched(node) => Left::Pinned(node.unlatch()),
            Stop::Seen(node) => Left::Seen(node),
        }
    }
}

impl Left<'_> {
    /// Returns `below`, unless a writer has changed the node since it was released.
    fn proven<T>(&self, below: Result<T>) -> Result<Option<T>> {
        let is_unchanged = match self {
            Left::Pinned(node) => node.is_unchanged(),
            Left::Seen(node) => node.is_unchanged(),
        };
        // If the node was changed, the page may be anything by now, so even an error is ignored.
        if is_unchanged { below.map(Some) } else { Ok(None) }
    }
}

impl<B: PageBuffer, W: WritePath> PagedTree<B, W> {
    /// Sets how threads step from a node to its child. The setting is not stored with the tree.
    #[must_use]
    pub fn coupled_by(mut self, coupling: Coupling) -> PagedTree<B, W> {
        if coupling == Coupling::Versions {
            self.core.buffer.keep_snapshots();
        }
        self.core.coupling = coupling;
        self
    }
}

impl<B: PageBuffer> Core<B> {
    /// Walks from the root until `walk` returns a result. If a step failed its validation, `walk`
    /// returns `None` and is called again.
    pub(in crate::paged) fn descend<T>(
        &self,
        mut walk: impl FnMut(Coupling) -> Result<Option<T>>,
    ) -> Result<T> {
        if self.coupling != Coupling::Latched {
            for _ in 0..ATTEMPTS {
                if let Some(found) = walk(self.coupling)? {
                    return Ok(found);
                }
                Counters::add(&self.counters.restarts, 1);
            }
        }
        let found = walk(Coupling::Latched)?;
        Ok(found.expect("a node stays as it is while its child is latched (PR1)"))
    }

    /// Begins at the root.
    pub(in crate::paged) fn begin(&self, coupling: Coupling) -> Result<Stop<'_>> {
        let way = Some(&self.root_way);
        if coupling == Coupling::Versions
            && let Some(peek) = self.buffer.peek(self.root, way)
        {
            return Ok(Stop::Seen(peek));
        }
        Ok(Stop::Latched(self.buffer.pin_shared_by(self.root, way)?))
    }

    /// Searches a key in an inner node; the operand of its message is copied into `operand`.
    /// Returns `None` if the node was changed during the search.
    pub(in crate::paged) fn look(&self, stop: &Stop<'_>, key: &[u8], operand: &mut Vec<u8>) -> Option<Look> {
        match stop {
            Stop::Latched(node) => Some(look(&self.shape, node, key, operand)),
            Stop::Seen(peek) => {
                let look = look_at(&self.shape, peek, key, operand);
                let is_proven = peek.is_unchanged();
                assert!(
                    !is_proven || matches!(look.kind, Some(Kind::Wide | Kind::Buffered)),
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
        stop: Stop<'b>,
        look: Look,
        coupling: Coupling,
    ) -> Result<Option<Stop<'b>>> {
        let (to, above) = (look.to, look.level);
        let stop = match (stop, coupling) {
            (Stop::Latched(node), Coupling::Latched) => {
                return Ok(self.step(node, to, coupling)?.map(Stop::Latched));
            }
            (stop, _) => stop,
        };
        self.note_read(&stop, coupling);
        let way = self.way(&stop, to);
        let left = stop.leave();
        if coupling == Coupling::Versions
            && above > 1
            && let Some(next) = self.buffer.peek(to.page, way)
            // Any other page is read under a latch, which reports the error.
            && (next.word(0) >> 8) as u8 == above - 1
        {
            // The node is validated after the child's version was read: messages in the child that
            // were moved before that are noticed.
            return left.proven(Ok(Stop::Seen(next)));
        }
        left.proven(self.shared_by(to.page, way, above).map(Stop::Latched))
    }

    /// Steps from a node to the child found by `look`, for writing. Returns `None` as [`Core::go`]
    /// does.
    pub(in crate::paged) fn go_exclusive<'b>(
        &'b self,
        stop: Stop<'b>,
        look: Look,
        coupling: Coupling,
    ) -> Result<Option<Exclusive<'b>>> {
        let (to, above) = (look.to, look.level);
        let stop = match (stop, coupling) {
            (Stop::Latched(node), Coupling::Latched) => {
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
    fn way(&self, stop: &Stop<'_>, to: Reference) -> Option<&Way> {
        match stop {
            Stop::Latched(node) => self.buffer.way(node, to.place),
            Stop::Seen(node) => self.buffer.way_seen(node, to.place),
        }
    }

    /// Offers a latched node for a snapshot, if it is read often.
    fn note_read(&self, stop: &Stop<'_>, coupling: Coupling) {
        if let (Stop::Latched(node), Coupling::Versions) = (stop, coupling) {
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
        node: Shared<'b>,
        to: Reference,
        coupling: Coupling,
    ) -> Result<Option<Shared<'b>>> {
        let (above, way) = (level(&node), self.buffer.way(&node, to.place));
        assert!(above > 0, "a leaf has no child");
        if coupling == Coupling::Latched {
            let child = self.shared_by(to.page, way, above)?;
            drop(node);
            return Ok(Some(child));
        }
        let left = Left::Pinned(node.unlatch());
        left.proven(self.shared_by(to.page, way, above))
    }

    /// Latches a child of a node at level `above` for reading, with the hint to the child's frame.
    fn shared_by(&self, page: u64, way: Option<&Way>, above: u8) -> Result<Shared<'_>> {
        let child = self.buffer.pin_shared_by(page, way)?;
        Self::check_child(page, above, &child)?;
        Ok(child)
    }

    /// Latches a child of a node at level `above` for writing, with the hint to the child's frame.
    fn exclusive_by(&self, page: u64, way: Option<&Way>, above: u8) -> Result<Exclusive<'_>> {
        let child = self.buffer.pin_exclusive_by(page, way)?;
        Self::check_child(page, above, &child)?;
        Ok(child)
    }
}
