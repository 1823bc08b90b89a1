//! Writes values that are stored outside their leaves. Short values share nodes, and a long value
//! has nodes of its own.

use super::format::encode_pointers;
use super::{ValuePointer, largest, pages_for, pages_to_pack};
use alluvium_storage::node::{NodeWriter, WriterOutput};
use alluvium_storage::{NodePointer, PageSize, Result};

/// The result of adding a value to a [`ValueWriter`].
#[derive(Debug)]
pub enum ValuePlacement {
    /// The value is buffered. Its location is unknown until [`ValueWriter::close`] writes its node.
    Waits,
    /// The value is long and was written to its own nodes, which this pointer leads to.
    Long(ValuePointer),
}

/// Where the pointer to a value will be stored once it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerSlot {
    /// Identifies the leaf that contains the pointer, usually by its number within the run. The
    /// writer does not interpret it.
    pub leaf: u64,
    /// Offset of the pointer among the leaf's values.
    pub at: usize,
}

/// A writer of separate values, which packs short values into shared nodes and gives each long
/// value its own nodes.
#[derive(Debug)]
pub struct ValueWriter {
    writer: NodeWriter,
    page_size: PageSize,
    node: Vec<u8>,
    /// Maximum length of the buffered node in bytes.
    room: usize,
    waiting: Vec<(PointerSlot, u32, u32)>,
}

impl ValueWriter {
    /// Creates a writer that writes value nodes with `writer`.
    pub fn new(writer: NodeWriter, page_size: PageSize) -> ValueWriter {
        ValueWriter {
            writer,
            page_size,
            node: Vec::new(),
            room: 0,
            waiting: Vec::new(),
        }
    }

    /// Returns whether any values are buffered.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether the buffered node must be closed before a value of `len` bytes can be added.
    pub fn is_full_for(&self, len: usize) -> bool {
        !self.waiting.is_empty() && (self.node.len() + len > self.room || len > largest(self.page_size))
    }

    /// Adds a value, which must be long or fit in the buffered node. Once the nodes of a long value
    /// have been written, their pointers are passed to `touch`.
    pub fn add(
        &mut self,
        value: &[u8],
        slot: PointerSlot,
        touch: &mut dyn FnMut(&NodePointer),
    ) -> Result<ValuePlacement> {
        assert!(!self.is_full_for(value.len()), "the node is closed first");
        if value.len() > largest(self.page_size) {
            return Ok(ValuePlacement::Long(self.write_long(value, touch)?));
        }
        if self.waiting.is_empty() {
            debug_assert!(self.node.is_empty(), "a node begins empty");
            let pages = pages_to_pack(value.len().max(1), self.page_size);
            self.room = pages * self.page_size.bytes();
        }
        self.waiting
            .push((slot, self.node.len() as u32, value.len() as u32));
        debug_assert!(
            self.node.len() + value.len() <= self.room,
            "{} bytes in a node of {}",
            self.node.len(),
            self.room
        );
        self.node.extend_from_slice(value);
        Ok(ValuePlacement::Waits)
    }

    /// Writes the node that contains the buffered values, and passes the slot and location of each
    /// value to `tell`.
    pub fn close(&mut self, mut tell: impl FnMut(PointerSlot, ValuePointer)) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let node = self.write_node()?;
        for (slot, at, len) in self.waiting.drain(..) {
            tell(slot, ValuePointer { node, at, len });
        }
        Ok(())
    }

    /// Writes the buffered node, padded to whole pages.
    fn write_node(&mut self) -> Result<NodePointer> {
        assert!(
            self.node.len() <= largest(self.page_size),
            "a node of {} bytes",
            self.node.len()
        );
        let pages = pages_for(self.node.len(), self.page_size);
        self.node.resize(pages * self.page_size.bytes(), 0);
        let pointer = self.writer.add(&self.node);
        self.node.clear();
        pointer
    }

    fn write_long(&mut self, value: &[u8], touch: &mut dyn FnMut(&NodePointer)) -> Result<ValuePointer> {
        self.add_pieces(|piece| piece(value), touch)
    }

    /// Adds a long value, which `feed` supplies in pieces so that it is never in memory as a whole.
    /// No other value may be buffered.
    ///
    /// # Errors
    /// Errors from `feed`; a full disk; I/O errors.
    ///
    /// # Panics
    /// If other values are buffered.
    pub fn add_pieces(
        &mut self,
        feed: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
        touch: &mut dyn FnMut(&NodePointer),
    ) -> Result<ValuePointer> {
        assert!(!self.is_waiting(), "the node is closed first");
        let largest = largest(self.page_size);
        let (mut level, mut len) = (Vec::new(), 0);
        assert!(self.node.is_empty(), "a long value begins with a node of its own");
        feed(&mut |mut piece| {
            len += piece.len();
            while !piece.is_empty() {
                let now = piece.split_off(..piece.len().min(largest - self.node.len()));
                self.node.extend_from_slice(now.unwrap_or_default());
                if self.node.len() == largest {
                    level.push(self.write_node()?);
                }
            }
            Ok(())
        })?;
        if level.is_empty() || !self.node.is_empty() {
            level.push(self.write_node()?);
        }
        level.iter().for_each(&mut *touch);
        while level.len() > 1 {
            let mut above = Vec::new();
            for pointers in level.chunks(largest / NodePointer::BYTES) {
                encode_pointers(pointers, &mut self.node);
                above.push(self.write_node()?);
            }
            above.iter().for_each(&mut *touch);
            level = above;
        }
        assert_eq!(level.len(), 1, "one node is above all");
        assert!(u32::try_from(len).is_ok(), "a value of {len} bytes");
        Ok(ValuePointer {
            node: level[0],
            at: 0,
            len: len as u32,
        })
    }

    /// Returns the underlying writer, for nodes that do not contain values.
    pub fn nodes(&mut self) -> &mut NodeWriter {
        &mut self.writer
    }

    /// Returns the number of bytes written or buffered.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes() + self.node.len() as u64
    }

    /// Finishes all pending writes, waits for them, and returns the result. No values may be
    /// buffered.
    pub fn finish(self) -> Result<WriterOutput> {
        assert!(self.waiting.is_empty(), "the last node is closed");
        self.writer.finish()
    }
}
