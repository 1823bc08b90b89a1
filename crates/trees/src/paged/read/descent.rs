//! Steps from a node to its child: with both latched, or with one latch at a time
//! (thesis, section 8.1, without reading what a writer changes).

use crate::paged::buffer::{Exclusive, PageBuffer, Shared};
use crate::paged::core::{Core, Counters};
use crate::paged::error::Result;
use crate::paged::node::level;

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
}

/// Attempts with one latch at a time.
const ATTEMPTS: usize = 4;
const _: () = assert!(ATTEMPTS > 0, "the option means something");

impl<B: PageBuffer> Core<B> {
    /// Walks from the root until `walk` has a result. It has none when a step was none, and is
    /// called again then.
    pub(in crate::paged) fn descend<T>(
        &self,
        mut walk: impl FnMut(Coupling) -> Result<Option<T>>,
    ) -> Result<T> {
        if self.coupling == Coupling::Optimistic {
            for _ in 0..ATTEMPTS {
                if let Some(found) = walk(Coupling::Optimistic)? {
                    return Ok(found);
                }
                Counters::add(&self.counters.restarts, 1);
            }
        }
        let found = walk(Coupling::Latched)?;
        Ok(found.expect("a node stays as it is while its child is latched (PR1)"))
    }

    /// Goes from a node to its child `page`, to read it. None: a writer had the node before the
    /// child was latched, so that messages may have passed.
    ///
    /// A writer that moves messages holds the node until they are in latched children, and the
    /// node's version rises before. Who latches a child that got any sees that.
    pub(in crate::paged) fn step<'b>(
        &'b self,
        node: Shared<'b>,
        page: u64,
        coupling: Coupling,
    ) -> Result<Option<Shared<'b>>> {
        self.step_by(node, coupling, |above| self.shared(page, above))
    }

    /// Goes from a node to its child `page`, to write to it. None as from [`Core::step`].
    pub(in crate::paged) fn step_exclusive<'b>(
        &'b self,
        node: Shared<'b>,
        page: u64,
        coupling: Coupling,
    ) -> Result<Option<Exclusive<'b>>> {
        self.step_by(node, coupling, |above| self.exclusive(page, above))
    }

    fn step_by<'b, T>(
        &'b self,
        node: Shared<'b>,
        coupling: Coupling,
        latch: impl FnOnce(u8) -> Result<T>,
    ) -> Result<Option<T>> {
        let above = level(&node);
        assert!(above > 0, "a leaf has no child");
        if coupling == Coupling::Latched {
            let child = latch(above)?;
            drop(node);
            return Ok(Some(child));
        }
        let left = node.unlatch();
        let child = latch(above);
        // Where the node was changed, the page may be anything by now.
        if left.is_unchanged() {
            child.map(Some)
        } else {
            Ok(None)
        }
    }
}
