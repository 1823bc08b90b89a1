//! Other steps from a node to its child than the product's: with one latch at a time, or without
//! latches on nodes that have a snapshot (thesis, section 8.1).
//!
//! It stands in the place of `descent.rs` with the feature `couplings`.

use crate::paged::buffer::{Exclusive, PageBuffer, Peek, Shared, Unlatched, Way};
use crate::paged::core::{Core, Counters};
use crate::paged::node::{Kind, Look, Reference, Words, kind, level, look, look_at};
use crate::paged::tree::{PagedTree, WritePath};
use alluvium_storage::Result;

/// How readers, and writers above the node that they change, go from a node to its child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coupling {
    /// They latch the child before they leave the node, as in the thesis. While one waits for the
    /// child, others wait for the node.
    #[default]
    Latched,
    /// They leave the node first, and look behind the child's latch whether a writer had the node
    /// meanwhile; then they begin again at the root. After some attempts in vain they latch both.
    Optimistic,
    /// They latch and pin no node with children that has a snapshot, and look at its version
    /// before and behind. Leaves, and nodes that change too often, are latched as with
    /// `Optimistic`, and attempts are as many. Of a page buffer in a file an eighth of the frames
    /// is given up for snapshots. It needs pins without the mutex
    /// ([`PinPolicy`](crate::paged::buffer::PinPolicy)). Scans go as with `Optimistic`.
    Versions,
}

/// Attempts without both latches.
const ATTEMPTS: usize = 4;

/// A node at which a descent is.
pub(in crate::paged) enum Stop<'b> {
    /// It is latched.
    Latched(Shared<'b>),
    /// It is a snapshot: a node with children.
    Seen(Peek<'b>),
}

impl Words for Peek<'_> {
    fn word(&self, at: usize) -> u64 {
        Peek::word(self, at)
    }
}

/// A node that a descent has left, and may have to look back at.
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

    /// Returns the node's page.
    pub(in crate::paged) fn number(&self) -> u64 {
        match self {
            Stop::Latched(node) => node.number(),
            Stop::Seen(node) => node.number(),
        }
    }

    /// Lets writers have the node.
    fn leave(self) -> Left<'b> {
        match self {
            Stop::Latched(node) => Left::Pinned(node.unlatch()),
            Stop::Seen(node) => Left::Seen(node),
        }
    }
}

impl Left<'_> {
    /// Returns what is below the node, if no writer has had the node until it was found.
    fn proven<T>(&self, below: Result<T>) -> Result<Option<T>> {
        let is_unchanged = match self {
            Left::Pinned(node) => node.is_unchanged(),
            Left::Seen(node) => node.is_unchanged(),
        };
        // Where the node was changed, the page may be anything by now, an error the least.
        if is_unchanged { below.map(Some) } else { Ok(None) }
    }
}

impl<B: PageBuffer, W: WritePath> PagedTree<B, W> {
    /// Sets how readers and writers go from a node to its child. It is not kept with the tree.
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
    /// Walks from the root until `walk` has a result. It has none when a step was none, and is
    /// called again then.
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

    /// Looks for a key in a node with children; the operand of its message goes into `operand`.
    /// None: the node was changed meanwhile.
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

    /// Goes from a node to the child that it was looked at for, to read it. None: a writer had the
    /// node before the child was latched, or its version read.
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
            // Any other page is read under a latch, which says what is wrong.
            && (next.word(0) >> 8) as u8 == above - 1
        {
            // Behind the child's version: what it holds then had left the node before.
            return left.proven(Ok(Stop::Seen(next)));
        }
        left.proven(self.shared_by(to.page, way, above).map(Stop::Latched))
    }

    /// Goes from a node to the child that it was looked at for, to write to it. None as from
    /// [`Core::go`].
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

    /// Returns where a node's reference to a child remembers the child's frame.
    fn way(&self, stop: &Stop<'_>, to: Reference) -> Option<&Way> {
        match stop {
            Stop::Latched(node) => self.buffer.way(node, to.place),
            Stop::Seen(node) => self.buffer.way_seen(node, to.place),
        }
    }

    /// Has a node that was latched be copied, if it is read often.
    fn note_read(&self, stop: &Stop<'_>, coupling: Coupling) {
        if let (Stop::Latched(node), Coupling::Versions) = (stop, coupling) {
            self.buffer.offer(node);
        }
    }

    /// Goes from a node to its child, to read it. None: a writer had the node before the child was
    /// latched, so that messages may have passed.
    ///
    /// A writer that moves messages holds the node until they are in latched children, and the
    /// node's version rises before. Who latches a child that got any sees that.
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

    /// Latches a child of a node at level `above` for reading, where the reference to the child
    /// remembers its frame.
    fn shared_by(&self, page: u64, way: Option<&Way>, above: u8) -> Result<Shared<'_>> {
        let child = self.buffer.pin_shared_by(page, way)?;
        Self::check_child(page, above, &child)?;
        Ok(child)
    }

    /// The same for writing.
    fn exclusive_by(&self, page: u64, way: Option<&Way>, above: u8) -> Result<Exclusive<'_>> {
        let child = self.buffer.pin_exclusive_by(page, way)?;
        Self::check_child(page, above, &child)?;
        Ok(child)
    }
}
