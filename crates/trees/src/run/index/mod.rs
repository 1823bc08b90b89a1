//! Index nodes, which hold a separator and a description of each child.
//!
//! *Scope*: how children are packed into a node; which child may contain a given key; the sums over
//! the leaves of a child; the location of a leaf's values; the first and last keys of a leaf.
//!
//! *Must not depend on*: the locations of nodes, the contents of a leaf.
//!
//! Invariants:
//!
//! - **I1** Separators ascend. Two separators are equal only if the records of that key continue
//!   from the first child to the second.
//! - **I2** The sums that an index node states for a child are those over all leaves below the
//!   child.
//! - **I3** The allocation units listed for a leaf are exactly those that contain its separate
//!   values, each with the number of bytes that these values occupy in it.
//! - **I4** A node stores the first and last keys either of all its leaves or of none. The stored
//!   keys are the actual first and last keys.

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

/// Sums over all leaves of a subtree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SubtreeSums {
    /// Encoded bytes of the leaves plus the bytes of their separate values.
    pub(super) bytes: u64,
    pub(super) records: u64,
    pub(super) tombstones: u64,
}

impl AddAssign for SubtreeSums {
    fn add_assign(&mut self, other: SubtreeSums) {
        // Sums read from a device may be damaged, so the addition must not overflow.
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.records = self.records.saturating_add(other.records);
        self.tombstones = self.tombstones.saturating_add(other.tombstones);
    }
}

/// A parent's description of a leaf or an index node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexChild {
    pub(super) pointer: NodePointer,
    pub(super) sums: SubtreeSums,
    /// Whether the previous child has newer records of this child's first key.
    pub(super) begun: bool,
}

/// The decoded header of an index node, with the positions of all parts of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexLayout {
    /// Number of levels below the node, at least 1.
    pub(super) level: u8,
    pub(super) children: usize,
    prefix: Range<usize>,
    widths: [u8; format::COLUMNS],
    columns_at: [usize; format::COLUMNS],
    checksums_at: usize,
    /// The separators without their common prefix.
    separators: StringTable,
    /// Position of the allocation unit lists for separate values, or `None` if there are none.
    lists_at: Option<usize>,
    /// Position of the leaves' first and last keys, or `None` if they are not stored.
    keys_at: Option<usize>,
}

impl IndexLayout {
    /// Decodes the layout of an index node.
    #[inline]
    pub(super) fn of(bytes: &[u8]) -> Result<IndexLayout, MalformedNode> {
        format::decode(bytes)
    }

    fn prefix<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], MalformedNode> {
        bytes
            .get(self.prefix.clone())
            .ok_or(MalformedNode("what all separators begin with"))
    }

    /// Returns the separator of a child, including the prefix common to all separators.
    pub(super) fn separator(&self, bytes: &[u8], child: usize) -> Result<Vec<u8>, MalformedNode> {
        let mut whole = self.prefix(bytes)?.to_vec();
        whole.extend_from_slice(self.separators.get(bytes, child)?);
        Ok(whole)
    }

    /// Compares the separator of a child with a key.
    pub(super) fn compare(&self, bytes: &[u8], child: usize, key: &[u8]) -> Result<Ordering, MalformedNode> {
        let prefix = self.prefix(bytes)?;
        match key.strip_prefix(prefix) {
            Some(rest) => Ok(self.separators.get(bytes, child)?.cmp(rest)),
            None => Ok(prefix.cmp(key)),
        }
    }

    /// Returns the number of separators that are less than `key`.
    pub(super) fn below(&self, bytes: &[u8], key: &[u8]) -> Result<usize, MalformedNode> {
        match key.strip_prefix(self.prefix(bytes)?) {
            Some(rest) => self.separators.below(bytes, rest),
            None => self.without_prefix(bytes, key),
        }
    }

    /// Returns the number of separators that are less than or equal to `key`.
    #[inline]
    pub(super) fn at_or_below(&self, bytes: &[u8], key: &[u8]) -> Result<usize, MalformedNode> {
        match key.strip_prefix(self.prefix(bytes)?) {
            Some(rest) => self.separators.at_or_below(bytes, rest),
            None => self.without_prefix(bytes, key),
        }
    }

    /// Returns the number of separators that are less than a key, given that the key does not start
    /// with their common prefix.
    fn without_prefix(&self, bytes: &[u8], key: &[u8]) -> Result<usize, MalformedNode> {
        let below = key < self.prefix(bytes)?;
        Ok(if below { 0 } else { self.children })
    }

    /// Returns the index of the first child that may contain a key, or `None` if all keys of the
    /// node are greater.
    #[inline]
    pub(super) fn child_for(&self, bytes: &[u8], key: &[u8]) -> Result<Option<usize>, MalformedNode> {
        let Some(mut child) = self.at_or_below(bytes, key)?.checked_sub(1) else {
            return Ok(None);
        };
        // If the key has records in several children, the first of these has the newest ones.
        while child > 0 && self.is_begun(bytes, child)? && self.compare(bytes, child, key)?.is_eq() {
            child -= 1;
        }
        Ok(Some(child))
    }

    /// Returns the sums over all leaves below a child.
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
