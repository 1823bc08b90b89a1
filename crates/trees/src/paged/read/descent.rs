//! Descends from a node to its child with latch coupling.

use crate::paged::buffer::{PageBuffer, PageReadGuard, PageWriteGuard};
use crate::paged::core::TreeCore;
use crate::paged::node::{ChildLookup, ChildReference, PageContentKind, kind, level, look};
use alluvium_storage::Result;

/// How a thread descends from a node to its child: it latches the child before it releases the
/// node. This applies to readers, and to writers above the node that they change. The feature
/// `couplings` provides alternatives.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::paged) struct LatchCoupling;

/// The node that a descent has reached.
pub(in crate::paged) struct DescentNode<'b>(PageReadGuard<'b>);

impl DescentNode<'_> {
    /// Returns the node's content if the node is a leaf, and `None` otherwise.
    pub(in crate::paged) fn leaf(&self) -> Option<&[u8]> {
        (kind(&self.0) == Some(PageContentKind::Leaf)).then_some(&self.0)
    }

    /// Returns the node's page number.
    pub(in crate::paged) fn number(&self) -> u64 {
        self.0.number()
    }
}

impl<B: PageBuffer> TreeCore<B> {
    /// Runs a descent from the root and returns its result.
    pub(in crate::paged) fn descend<T>(
        &self,
        walk: impl FnOnce(LatchCoupling) -> Result<Option<T>>,
    ) -> Result<T> {
        let found = walk(self.coupling)?;
        Ok(found.expect("a node stays as it is while its child is latched (PR1)"))
    }

    /// Starts a descent by latching the root in shared mode.
    pub(in crate::paged) fn begin(&self, _coupling: LatchCoupling) -> Result<DescentNode<'_>> {
        let root = self.buffer.pin_shared_by(self.root, Some(&self.root_way))?;
        Ok(DescentNode(root))
    }

    /// Looks up a key in an inner node. If the node's buffer has a message for the key, copies its
    /// operand into `operand`.
    pub(in crate::paged) fn look(
        &self,
        stop: &DescentNode<'_>,
        key: &[u8],
        operand: &mut Vec<u8>,
    ) -> Option<ChildLookup> {
        Some(look(&self.shape, &stop.0, key, operand))
    }

    /// Descends from a node to the child that `look` found, for reading.
    pub(in crate::paged) fn go<'b>(
        &'b self,
        stop: DescentNode<'b>,
        look: ChildLookup,
        coupling: LatchCoupling,
    ) -> Result<Option<DescentNode<'b>>> {
        Ok(self.step(stop.0, look.to, coupling)?.map(DescentNode))
    }

    /// Descends from a node to the child that `look` found, for writing.
    pub(in crate::paged) fn go_exclusive<'b>(
        &'b self,
        stop: DescentNode<'b>,
        look: ChildLookup,
        _coupling: LatchCoupling,
    ) -> Result<Option<PageWriteGuard<'b>>> {
        let child = self.exclusive(look.to.page, look.level)?;
        drop(stop);
        Ok(Some(child))
    }

    /// Descends from a node to its child, for reading.
    pub(in crate::paged) fn step<'b>(
        &'b self,
        node: PageReadGuard<'b>,
        to: ChildReference,
        _coupling: LatchCoupling,
    ) -> Result<Option<PageReadGuard<'b>>> {
        let above = level(&node);
        assert!(above > 0, "a leaf has no child");
        let child = self.shared(to.page, above)?;
        drop(node);
        Ok(Some(child))
    }
}
