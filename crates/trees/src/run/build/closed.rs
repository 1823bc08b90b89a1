//! Leaves that are complete but have not been written yet.

use crate::run::index::{LeafKeys, SubtreeSums};
use crate::run::units::ValueUnits;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::NodeCodec;
use std::collections::VecDeque;

/// A leaf that is complete but has not been written yet.
#[derive(Debug, Default)]
pub(in crate::run) struct ClosedLeaf {
    pub(super) bytes: Vec<u8>,
    /// Offset in `bytes` of the list of values.
    pub(super) values_at: usize,
    pub(super) separator: Vec<u8>,
    /// The sums over the leaf's records. The bytes of the leaf's own nodes are added when it is
    /// written.
    pub(super) sums: SubtreeSums,
    /// Whether the previous leaf has newer records of the first key.
    pub(super) is_begun: bool,
    /// Number of separate values whose locations are not yet known.
    pub(super) awaited: usize,
    pub(super) units: ValueUnits,
    /// The leaf's first and last keys, if the index stores them.
    pub(super) keys: Option<LeafKeys>,
    pub(super) codec: NodeCodec,
}

impl ClosedLeaf {
    /// Sets the pointer to a separate value. `at` is the pointer's offset in the list of values.
    /// The value accounts for `share` bytes of its node.
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

/// The queue of complete leaves. A leaf stays queued until the locations of its separate values and
/// the separator of the next leaf are known.
#[derive(Debug, Default)]
pub(in crate::run) struct ClosedLeaves {
    queue: VecDeque<ClosedLeaf>,
    bytes: u64,
    /// Number of leaves removed from the queue, which is also the number of the first leaf in it.
    written: u64,
    /// A written leaf whose memory can be reused.
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

    /// Returns the total encoded size in bytes of the queued leaves.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of the next leaf to be completed.
    pub(super) fn next_number(&self) -> u64 {
        self.written + self.queue.len() as u64
    }

    /// Returns the leaf with this number, or `None` if it has not been completed yet.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut ClosedLeaf> {
        self.queue.get_mut((number - self.written) as usize)
    }

    /// Appends a complete leaf to the queue. `fill` sets its contents.
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut ClosedLeaf)) {
        let mut leaf = self.spare.take().unwrap_or_default();
        fill(&mut leaf);
        self.bytes += leaf.bytes.len() as u64;
        self.queue.push_back(leaf);
    }

    /// Removes and returns the first leaf if the locations of all its separate values are known.
    /// The leaf then counts as written.
    pub(super) fn pop(&mut self) -> Option<ClosedLeaf> {
        let leaf = self.queue.pop_front_if(|leaf| leaf.awaited == 0)?;
        assert!(self.bytes >= leaf.bytes.len() as u64, "counted");
        self.bytes -= leaf.bytes.len() as u64;
        self.written += 1;
        Some(leaf)
    }

    /// Returns the separator of the first leaf in the queue.
    pub(super) fn separator(&self) -> Option<&[u8]> {
        self.queue.front().map(|leaf| &*leaf.separator)
    }

    /// Keeps the memory of a written leaf for reuse.
    pub(super) fn reuse(&mut self, leaf: ClosedLeaf) {
        self.spare = Some(leaf);
    }
}
