//! Index nodes: separators, and a description of each child.
//!
//! *Scope*: how children are packed into a node, which child may hold a key, the sums over a
//! child's leaves, the location of a leaf's values, its first and last key.
//!
//! *Must not depend on*: the locations of nodes, the contents of a leaf.
//!
//! Invariants:
//!
//! - **I1** Separators ascend. Two are equal only if the second child continues the records of its
//!   first key from the previous child.
//! - **I2** A child's sums are those of the leaves below it.
//! - **I3** The units listed for a leaf are exactly those that hold values of it, with their bytes.
//! - **I4** A node stores the keys of all leaves or of none. Stored keys are the actual first and
//!   last keys.

mod build;
mod format;
mod keys;

pub(super) use build::{FullIndexNode, IndexBuilder};
pub(super) use keys::LeafKeys;

use super::MalformedNode;
use super::strings::StringTable;
use super::units::{ValueUnit, ValueUnits};
use alluvium_storage::{NodePointer, PageSize};
use std::cmp::Ordering;
use std::ops::{AddAssign, Range};

/// Sums over the leaves of a subtree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SubtreeSums {
    /// Encoded bytes of the leaves, plus the bytes of their separate values.
    pub(super) bytes: u64,
    pub(super) records: u64,
    pub(super) tombstones: u64,
}

impl AddAssign for SubtreeSums {
    fn add_assign(&mut self, other: SubtreeSums) {
        // Sums that were read may be damaged, so saturate.
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.records = self.records.saturating_add(other.records);
        self.tombstones = self.tombstones.saturating_add(other.tombstones);
    }
}

/// A leaf or an index node, as described by its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexChild {
    pub(super) pointer: NodePointer,
    pub(super) sums: SubtreeSums,
    /// Whether the previous child has newer records of the first key.
    pub(super) begun: bool,
}

/// The positions of all parts of an index node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexLayout {
    /// Number of levels below the node; at least 1.
    pub(super) level: u8,
    pub(super) children: usize,
    prefix: Range<usize>,
    widths: [u8; format::COLUMNS],
    columns_at: [usize; format::COLUMNS],
    checksums_at: usize,
    /// The separators without their common prefix.
    separators: StringTable,
    /// Position of the lists of units that hold values, if present.
    lists_at: Option<usize>,
    /// Position of the first and last key of each leaf, if present.
    keys_at: Option<usize>,
}

impl IndexLayout {
    /// Decodes an index node's layout.
    #[inline]
    pub(super) fn of(bytes: &[u8]) -> Result<IndexLayout, MalformedNode> {
        format::decode(bytes)
    }

    fn prefix<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], MalformedNode> {
        bytes
            .get(self.prefix.clone())
            .ok_or(MalformedNode("what all separators begin with"))
    }

    /// Returns a separator, including the common prefix.
    pub(super) fn separator(&self, bytes: &[u8], child: usize) -> Result<Vec<u8>, MalformedNode> {
        let mut whole = self.prefix(bytes)?.to_vec();
        whole.extend_from_slice(self.separators.get(bytes, child)?);
        Ok(whole)
    }

    /// Compares a separator with a key.
    pub(super) fn compare(&self, bytes: &[u8], child: usize, key: &[u8]) -> Result<Ordering, MalformedNode> {
        let prefix = self.prefix(bytes)?;
        match key.strip_prefix(prefix) {
            Some(rest) => Ok(self.separators.get(bytes, child)?.cmp(rest)),
            None => Ok(prefix.cmp(key)),
        }
    }

    /// Returns the number of separators below a key.
    pub(super) fn below(&self, bytes: &[u8], key: &[u8]) -> Result<usize, MalformedNode> {
        match key.strip_prefix(self.prefix(bytes)?) {
            Some(rest) => self.separators.below(bytes, rest),
            None => self.without_prefix(bytes, key),
        }
    }

    /// Returns the number of separators at or below a key.
    #[inline]
    pub(super) fn at_or_below(&self, bytes: &[u8], key: &[u8]) -> Result<usize, MalformedNode> {
        match key.strip_prefix(self.prefix(bytes)?) {
            Some(rest) => self.separators.at_or_below(bytes, rest),
            None => self.without_prefix(bytes, key),
        }
    }

    /// Returns the number of separators below a key that does not begin with their common prefix.
    fn without_prefix(&self, bytes: &[u8], key: &[u8]) -> Result<usize, MalformedNode> {
        let below = key < self.prefix(bytes)?;
        Ok(if below { 0 } else { self.children })
    }

    /// Returns the first child that may hold a key, or `None` if all keys are above it.
    #[inline]
    pub(super) fn child_for(&self, bytes: &[u8], key: &[u8]) -> Result<Option<usize>, MalformedNode> {
        let Some(mut child) = self.at_or_below(bytes, key)?.checked_sub(1) else {
            return Ok(None);
        };
        // Newer records of this key are further left.
        while child > 0 && self.is_begun(bytes, child)? && self.compare(bytes, child, key)?.is_eq() {
            child -= 1;
        }
        Ok(Some(child))
    }

    /// Returns the sums over the leaves below a child.
    pub(super) fn sums(&self, bytes: &[u8], child: usize) -> Result<SubtreeSums, MalformedNode> {
        Ok(SubtreeSums {
            bytes: self.number(bytes, format::BYTES, child)?,
            records: self.number(bytes, format::RECORDS, child)?,
            tombstones: self.number(bytes, format::TOMBSTONES, child)?,
        })
    }

    pub(super) fn child(
        &self,
        bytes: &[u8],
        child: usize,
        page_size: PageSize,
    ) -> Result<IndexChild, MalformedNode> {
        Ok(IndexChild {
            pointer: self.pointer(bytes, child, page_size)?,
            sums: self.sums(bytes, child)?,
            begun: self.is_begun(bytes, child)?,
        })
    }
}

#[cfg(test)]
mod tests;
