//! Steps from a node to its child, with latch coupling.

use crate::paged::buffer::{Exclusive, PageBuffer, Shared};
use crate::paged::core::Core;
use crate::paged::node::{Kind, Look, Reference, kind, level, look};
use alluvium_storage::Result;

/// How readers, and writers above the node that they change, step from a node to its child: they
/// latch the child before they release the node. The feature `couplings` offers other ways.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::paged) struct Coupling;

/// The current node of a descent.
pub(in crate::paged) struct Stop<'b>(Shared<'b>);

impl Stop<'_> {
    /// Returns the node if it is a leaf.
    pub(in crate::paged) fn leaf(&self) -> Option<&[u8]> {
        (kind(&self.0) == Some(Kind::Leaf)).then_some(&self.0)
    }

    /// Returns the node's page number.
    pub(in crate::paged) fn number(&self) -> u64 {
        self.0.number()
    }
}

impl<B: PageBuffer> Core<B> {
    /// Runs `walk` from the root.
    pub(in crate::paged) fn descend<T>(&self, walk: impl FnOnce(Coupling) -> Result<Option<T>>) -> Result<T> {
        let found = walk(self.coupling)?;
        Ok(found.expect("a node stays as it is while its child is latched (PR1)"))
    }

    /// Begins at the root.
    pub(in crate::paged) fn begin(&self, _coupling: Coupling) -> Result<Stop<'_>> {
        let root = self.buffer.pin_shared_by(self.root, Some(&self.root_way))?;
        Ok(Stop(root))
    }

    /// Searches a key in an inner node; the operand of its message is copied into `operand`.
    pub(in crate::paged) fn look(&self, stop: &Stop<'_>, key: &[u8], operand: &mut Vec<u8>) -> Option<Look> {
        Some(look(&self.shape, &stop.0, key, operand))
    }

    /// Steps from a node to the child found by `look`, for reading.
    pub(in crate::paged) fn go<'b>(
        &'b self,
        stop: Stop<'b>,
        look: Look,
        coupling: Coupling,
    ) -> Result<Option<Stop<'b>>> {
        Ok(self.step(stop.0, look.to, coupling)?.map(Stop))
    }

    /// Steps from a node to the child found by `look`, for writing.
    pub(in crate::paged) fn go_exclusive<'b>(
        &'b self,
        stop: Stop<'b>,
        look: Look,
        _coupling: Coupling,
    ) -> Result<Option<Exclusive<'b>>> {
        let child = self.exclusive(look.to.page, look.level)?;
        drop(stop);
        Ok(Some(child))
    }

    /// Steps from a node to its child, for reading.
    pub(in crate::paged) fn step<'b>(
        &'b self,
        node: Shared<'b>,
        to: Reference,
        _coupling: Coupling,
    ) -> Result<Option<Shared<'b>>> {
        let above = level(&node);
        assert!(above > 0, "a leaf has no child");
        let child = self.shared(to.page, above)?;
        drop(node);
        Ok(Some(child))
    }
}
