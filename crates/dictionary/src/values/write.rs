//! Writing values: short ones share nodes, long ones have their own.

use super::format::encode_pointers;
use super::{ValuePointer, largest, pages_for, pages_to_pack};
use alluvium_storage::node::{NodeWriter, Written};
use alluvium_storage::{NodePointer, PageSize, Result};

/// Where a value went.
#[derive(Debug)]
pub enum Placed {
    /// It waits for its node to be full: [`ValueWriter::close`] says where it is.
    Waits,
    /// It is long and in nodes of its own.
    Long(ValuePointer),
}

/// The place that a pointer to a value will have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The leaf's number in its run, or whatever else a caller counts.
    pub leaf: u64,
    /// Where the pointer begins among the leaf's values.
    pub at: usize,
}

/// Packs values into nodes.
#[derive(Debug)]
pub struct ValueWriter {
    writer: NodeWriter,
    page_size: PageSize,
    node: Vec<u8>,
    /// How long the node may become.
    room: usize,
    waiting: Vec<(Slot, u32, u32)>,
}

impl ValueWriter {
    /// Writes values to the nodes of `writer`.
    pub fn new(writer: NodeWriter, page_size: PageSize) -> ValueWriter {
        ValueWriter {
            writer,
            page_size,
            node: Vec::new(),
            room: 0,
            waiting: Vec::new(),
        }
    }

    /// Returns whether values wait for their node.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether a value of `len` bytes would not fit the node that waits to be full, which
    /// must be closed first.
    pub fn is_full_for(&self, len: usize) -> bool {
        !self.waiting.is_empty() && (self.node.len() + len > self.room || len > largest(self.page_size))
    }

    /// Takes a value that fits. The nodes of a long one are handed to `touch` as they are written.
    pub fn add(&mut self, value: &[u8], slot: Slot, touch: &mut dyn FnMut(&NodePointer)) -> Result<Placed> {
        assert!(!self.is_full_for(value.len()), "the node is closed first");
        if value.len() > largest(self.page_size) {
            return Ok(Placed::Long(self.write_long(value, touch)?));
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
        Ok(Placed::Waits)
    }

    /// Writes the node of the values that wait, and tells where each is.
    pub fn close(&mut self, mut tell: impl FnMut(Slot, ValuePointer)) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let node = self.write_node()?;
        for (slot, at, len) in self.waiting.drain(..) {
            tell(slot, ValuePointer { node, at, len });
        }
        Ok(())
    }

    /// Writes what is in `node`, filled up to whole pages.
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

    /// Takes a long value in pieces, while no other waits: it need not be in memory as a whole.
    ///
    /// # Errors
    /// As `feed` says; a full disk, or as the device says.
    ///
    /// # Panics
    /// When other values wait.
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

    /// Returns the writer of the nodes, for those that are no values.
    pub fn nodes(&mut self) -> &mut NodeWriter {
        &mut self.writer
    }

    /// Returns the bytes written and waiting.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes() + self.node.len() as u64
    }

    /// Writes what is left and waits for every write.
    pub fn finish(self) -> Result<Written> {
        assert!(self.waiting.is_empty(), "the last node is closed");
        self.writer.finish()
    }
}
