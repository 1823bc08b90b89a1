//! Leaves that are full but not written yet.

use crate::run::index::{LeafKeys, SubtreeSums};
use crate::run::units::ValueUnits;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::NodeCodec;
use std::collections::VecDeque;

/// A leaf that is full but not written yet.
#[derive(Debug, Default)]
pub(in crate::run) struct ClosedLeaf {
    pub(super) bytes: Vec<u8>,
    /// Offset of the values in `bytes`.
    pub(super) values_at: usize,
    pub(super) separator: Vec<u8>,
    /// Without the bytes of its nodes.
    pub(super) sums: SubtreeSums,
    /// Whether the previous leaf has newer records of the first key.
    pub(super) is_begun: bool,
    /// Number of values whose locations are not known yet.
    pub(super) awaited: usize,
    pub(super) units: ValueUnits,
    /// First and last key, for the index.
    pub(super) keys: Option<LeafKeys>,
    pub(super) codec: NodeCodec,
}

impl ClosedLeaf {
    /// Stores the location of a value. The value occupies `share` bytes of its node.
    pub(super) fn place_value(&mut self, at: usize, pointer: &ValuePointer, share: u64) {
        let mut bytes = Vec::with_capacity(ValuePointer::BYTES);
        pointer.encode(&mut bytes);
        let at = self.values_at + at;
        self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        assert!(self.awaited > 0, "a value is placed once");
        self.awaited -= 1;
        self.units.add(&pointer.node, share);
    }
}

/// Leaves that wait for the locations of their values, or for the next separator, in order.
#[derive(Debug, Default)]
pub(in crate::run) struct ClosedLeaves {
    queue: VecDeque<ClosedLeaf>,
    bytes: u64,
    /// Number of written leaves, which is also the number of the first waiting leaf.
    written: u64,
    /// A written leaf whose memory is reused.
    spare: Option<ClosedLeaf>,
}

impl ClosedLeaves {
    pub(in crate::run) fn is_empty(&self) -> bool {
        debug_assert!(
            self.bytes == 0 || !self.queue.is_empty(),
            "written leaves are not counted"
        );
        self.queue.is_empty()
    }

    /// Returns the total size of the waiting leaves in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of the next leaf to be closed.
    pub(super) fn next_number(&self) -> u64 {
        self.written + self.queue.len() as u64
    }

    /// Returns a leaf by its number, or `None` if it is not closed yet.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut ClosedLeaf> {
        self.queue.get_mut((number - self.written) as usize)
    }

    /// Closes a leaf, whose contents `fill` sets.
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut ClosedLeaf)) {
        let mut leaf = self.spare.take().unwrap_or_default();
        fill(&mut leaf);
        self.bytes += leaf.bytes.len() as u64;
        self.queue.push_back(leaf);
    }

    /// Removes the first leaf if it waits for no value. It counts as written.
    pub(super) fn pop(&mut self) -> Option<ClosedLeaf> {
        let leaf = self.queue.pop_front_if(|leaf| leaf.awaited == 0)?;
        assert!(self.bytes >= leaf.bytes.len() as u64, "counted");
        self.bytes -= leaf.bytes.len() as u64;
        self.written += 1;
        Some(leaf)
    }

    /// Returns the separator of the first leaf.
    pub(super) fn separator(&self) -> Option<&[u8]> {
        self.queue.front().map(|leaf| &*leaf.separator)
    }

    /// Keeps the memory of a written leaf for reuse.
    pub(super) fn reuse(&mut self, leaf: ClosedLeaf) {
        self.spare = Some(leaf);
    }
}
