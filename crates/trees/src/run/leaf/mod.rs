//! Leaves, which store sorted records in a compact encoding.
//!
//! *Scope*: how records are packed into a node; when a node is full; how a key is found in a node.
//!
//! *Must not depend on*: other leaves, the locations of nodes, the meaning of a value.
//!
//! Invariants:
//!
//! - **L1** A leaf has at least one key. Its keys are distinct and ascend, and the records of each
//!   key are ordered from newest to oldest.
//! - **L2** A leaf stores the common prefix of its keys once, and only the remaining suffix of each
//!   key.

mod build;
mod format;

pub(super) use build::{LeafBuilder, LeafCell};

use super::MalformedNode;
use super::strings::StringTable;
use alluvium_base::{MessageKind, SequenceNumber};
use std::ops::Range;

/// The decoded header of a leaf, with the positions of all parts of the leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeafLayout {
    pub(super) records: usize,
    pub(super) keys: usize,
    /// Whether the previous leaf has newer records of the first key.
    pub(super) begun: bool,
    /// Whether the next leaf has older records of the last key.
    pub(super) goes_on: bool,
    tagged: bool,
    expires: bool,
    several: bool,
    sequence_width: usize,
    expiry_width: usize,
    lowest: SequenceNumber,
    earliest: u64,
    pub(super) prefix: Range<usize>,
    sequences_at: usize,
    tags_at: usize,
    expiries_at: usize,
    starts_at: usize,
    /// The keys without their common prefix.
    suffixes: StringTable,
    values: StringTable,
}

/// Where the value of a record is stored: in the leaf, or separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueStorage {
    Inline,
    Separate,
}

/// The decoded parts of a record. `value` is the position in the leaf of the value or of the
/// pointer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeafRecordParts {
    pub(super) sequence: SequenceNumber,
    pub(super) kind: MessageKind,
    pub(super) expires_ms: u64,
    pub(super) placement: ValueStorage,
    pub(super) value: Range<usize>,
}

impl LeafLayout {
    #[inline]
    pub(super) fn of(bytes: &[u8]) -> Result<LeafLayout, MalformedNode> {
        format::decode(bytes)
    }

    /// Returns the common prefix of all keys.
    #[inline]
    pub(super) fn prefix<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], MalformedNode> {
        bytes
            .get(self.prefix.clone())
            .ok_or(MalformedNode("what all keys begin with"))
    }

    /// Returns the key at index `key`, including the common prefix.
    pub(super) fn key(&self, bytes: &[u8], key: usize) -> Result<Vec<u8>, MalformedNode> {
        let mut whole = self.prefix(bytes)?.to_vec();
        whole.extend_from_slice(self.suffix(bytes, key)?);
        Ok(whole)
    }

    /// Returns the index of the first key greater than or equal to `key`, and whether it is equal.
    #[inline]
    pub(super) fn lower_bound(&self, bytes: &[u8], key: &[u8]) -> Result<(usize, bool), MalformedNode> {
        let prefix = self.prefix(bytes)?;
        let Some(rest) = key.strip_prefix(prefix) else {
            return Ok(if key < prefix {
                (0, false)
            } else {
                (self.keys, false)
            });
        };
        let found = self.suffixes.below(bytes, rest)?;
        let equal = found < self.keys && self.suffixes.get(bytes, found)? == rest;
        Ok((found, equal))
    }

    /// Returns the key at index `key` without the common prefix.
    #[inline]
    pub(super) fn suffix<'a>(&self, bytes: &'a [u8], key: usize) -> Result<&'a [u8], MalformedNode> {
        self.suffixes.get(bytes, key)
    }

    /// Returns whether every key has exactly one record in this leaf, and every record is a put
    /// without expiry whose value is in the leaf.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        !(self.several || self.tagged || self.expires)
    }

    /// Returns the value of a record. The leaf must be plain (see [`LeafLayout::is_plain`]).
    #[inline]
    pub(super) fn plain_value<'a>(&self, bytes: &'a [u8], record: usize) -> Result<&'a [u8], MalformedNode> {
        self.values.get(bytes, record)
    }

    /// Returns the index of the newest record in `records` that a reader at sequence number `at`
    /// can see, or the end of `records` if it can see none. All of `records` must belong to the
    /// same key.
    #[inline]
    pub(super) fn first_seen(
        &self,
        bytes: &[u8],
        records: &Range<usize>,
        at: SequenceNumber,
    ) -> Result<usize, MalformedNode> {
        debug_assert!(!records.is_empty(), "a key has a record (L1)");
        let (mut low, mut high) = (records.start, records.end);
        // The newest record is usually visible.
        if self.sequence(bytes, low)? <= at {
            return Ok(low);
        }
        low += 1;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.sequence(bytes, middle)? > at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns the indices of the records of a key.
    #[inline]
    pub(super) fn records_of(&self, bytes: &[u8], key: usize) -> Result<Range<usize>, MalformedNode> {
        let records = self.start(bytes, key)?..self.start(bytes, key + 1)?;
        if records.is_empty() {
            return Err(MalformedNode("a record for each key"));
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests;
