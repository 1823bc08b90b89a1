//! Writes the separate values of a run.

use super::nodes::NodeOutput;
use crate::run::spans::UnitSpans;
use crate::run::units::ValueUnits;
use alluvium_dictionary::value_log::{PointerSlot, ValuePlacement, ValuePointer, ValueWriter};
use alluvium_storage::extents::Extent;
use alluvium_storage::node::WriterOutput;
use alluvium_storage::{NodeCodec, PageSize, Result};

/// Writes the separate values of a run, and tracks the extents of values inherited from other runs.
#[derive(Debug)]
pub(in crate::run) struct SeparateValues {
    /// Maximum length in bytes of a value stored in its leaf. Longer values are stored separately.
    pub(super) threshold: usize,
    tier: u8,
    page_size: PageSize,
    /// The writer of value nodes, created when the first value is added.
    writer: Option<ValueWriter>,
    /// The key intervals whose readers need the value nodes.
    pub(in crate::run) spans: UnitSpans,
    /// The first and last keys of the values that have not been written to a node yet.
    waiting: (Vec<u8>, Vec<u8>),
    /// Extents of other runs that contain values which records of this run may point to.
    pub(in crate::run) inherited: Vec<Extent>,
}

impl SeparateValues {
    pub(super) fn new(threshold: usize, tier: u8, page_size: PageSize) -> SeparateValues {
        SeparateValues {
            threshold,
            tier,
            page_size,
            writer: None,
            spans: UnitSpans::default(),
            waiting: (Vec::new(), Vec::new()),
            inherited: Vec::new(),
        }
    }

    /// Sets the codec and threshold for the values that follow. All earlier values must have been
    /// written.
    pub(super) fn set_keyspace(&mut self, codec: NodeCodec, threshold: usize) {
        self.threshold = threshold;
        if let Some(writer) = &mut self.writer {
            writer.nodes().set_codec(codec);
        }
    }

    /// Returns whether the values collected so far must be written before a value of `len` bytes
    /// can be added.
    pub(super) fn is_full_for(&self, len: usize) -> bool {
        let writer = self.writer.as_ref();
        writer.is_some_and(|writer| writer.is_full_for(len))
    }

    /// Adds the separate value of a key. If the value is long enough to get nodes of its own, they
    /// are written and added to `units`.
    pub(super) fn add(
        &mut self,
        (key, value): (&[u8], &[u8]),
        slot: PointerSlot,
        nodes: &NodeOutput,
        units: &mut ValueUnits,
    ) -> Result<ValuePlacement> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(ValueWriter::new(nodes.another_on(self.tier), self.page_size)),
        };
        let (spans, is_first) = (&mut self.spans, !writer.is_waiting());
        let placed = writer.add(value, slot, &mut |node| {
            spans.add(node, key, key, node.read_len() as u64);
            units.add(node, node.read_len() as u64);
        })?;
        if let ValuePlacement::Waits = placed {
            let (first, last) = &mut self.waiting;
            if is_first {
                key.clone_into(first);
            }
            key.clone_into(last);
        }
        Ok(placed)
    }

    /// Writes the values collected so far to a node. For each of them, calls `place` with its
    /// location and the number of bytes of the node that it accounts for.
    pub(super) fn close(&mut self, mut place: impl FnMut(PointerSlot, &ValuePointer, u64)) -> Result<()> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let (page_size, spans, (low, high)) = (self.page_size, &mut self.spans, &self.waiting);
        writer.close(|slot, pointer| {
            let share = pointer.share(page_size);
            place(slot, &pointer, share);
            spans.add(&pointer.node, low, high, share);
        })
    }

    /// Returns the number of bytes written, plus those of values still to be written.
    pub(super) fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, ValueWriter::bytes)
    }

    /// Completes the writer. Returns `None` if there were no separate values.
    pub(in crate::run) fn finish(&mut self) -> Result<Option<WriterOutput>> {
        self.writer.take().map(ValueWriter::finish).transpose()
    }
}
