//! Tapes: byte sequences that are appended to, later read completely, and then released.

use crate::blocks::{BlockExtent, BlockSpace, Error, MachineModel, Result};
use crate::records::RecordSource;
use alluvium_filters::golomb::ByteSource;

/// A contiguous chunk of a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TapeChunk {
    /// The chunk's offset on the tape.
    pub(super) start: u64,
    pub(super) extent: BlockExtent,
    /// The number of bytes written.
    pub(super) used: u64,
    /// Whether nothing more may be written, because a commit reaches it.
    pub(super) sealed: bool,
}

/// A sequence of bytes. On a machine with blocks, the last partial block stays in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tape {
    pub(super) chunks: Vec<TapeChunk>,
    pub(super) tail: Vec<u8>,
    /// The number of runs on the tape, if it consists of runs.
    pub(super) runs: u64,
    /// The number of entries in those runs.
    pub(super) entries: u64,
}

/// The size of a tape's first chunk in bytes.
const FIRST: u64 = 1024;

impl Tape {
    fn stored(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.start + chunk.used)
    }

    /// Returns the length of the tape in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.stored() + self.tail.len() as u64
    }

    /// Appends bytes; those that fill no whole block stay in memory.
    pub(super) fn append(
        &mut self,
        space: &dyn BlockSpace,
        machine: MachineModel,
        bytes: &[u8],
    ) -> Result<()> {
        let unit = match machine {
            MachineModel::Blocks { block_bytes, .. } => block_bytes as usize,
            MachineModel::Oblivious => 1,
        };
        self.tail.extend_from_slice(bytes);
        let whole = self.tail.len() / unit * unit;
        if whole == 0 {
            return Ok(());
        }
        let rest = self.tail.split_off(whole);
        let ready = std::mem::replace(&mut self.tail, rest);
        let mut left = ready.as_slice();
        while !left.is_empty() {
            let start = self.stored();
            let grown = start / 2 / unit as u64 * unit as u64;
            let open = self
                .chunks
                .last_mut()
                .filter(|chunk| !chunk.sealed && chunk.used < chunk.extent.bytes);
            let Some(chunk) = open else {
                let bytes = grown
                    .max(FIRST.next_multiple_of(unit as u64))
                    .max(4 * unit as u64);
                let extent = space.allocate(bytes)?;
                self.chunks.push(TapeChunk {
                    start,
                    extent,
                    used: 0,
                    sealed: false,
                });
                continue;
            };
            let step = (chunk.extent.bytes - chunk.used).min(left.len() as u64);
            let (now, later) = left.split_at(step as usize);
            space.write(chunk.extent.at + chunk.used, now)?;
            chunk.used += step;
            left = later;
        }
        Ok(())
    }

    /// Fills the current block with zeros.
    pub(super) fn pad(&mut self, space: &dyn BlockSpace, machine: MachineModel) -> Result<()> {
        if let MachineModel::Blocks { block_bytes, .. } = machine
            && !self.tail.is_empty()
        {
            let missing = block_bytes as usize - self.tail.len();
            self.append(space, machine, &vec![0; missing])?;
        }
        Ok(())
    }

    /// Seals the existing chunks against further writes, and releases their unwritten parts,
    /// before a commit (B1).
    pub(super) fn seal(&mut self, space: &dyn BlockSpace) -> Result<()> {
        if let Some(chunk) = self.chunks.last_mut().filter(|chunk| !chunk.sealed) {
            if chunk.used == 0 {
                space.release(chunk.extent);
                self.chunks.pop();
            } else {
                chunk.extent = space.trim(chunk.extent, chunk.used)?;
                chunk.sealed = true;
            }
        }
        Ok(())
    }

    /// Releases all chunks and empties the tape.
    pub(super) fn clear(&mut self, space: &dyn BlockSpace) {
        self.extents().for_each(|extent| space.release(extent));
        *self = Tape::default();
    }

    pub(super) fn extents(&self) -> impl Iterator<Item = BlockExtent> {
        self.chunks.iter().map(|chunk| chunk.extent)
    }

    /// Creates a reader of the bytes in a range.
    pub(super) fn reader<'s>(
        &'s self,
        space: &'s dyn BlockSpace,
        machine: MachineModel,
        range: std::ops::Range<u64>,
    ) -> Result<TapeReader<'s>> {
        if range.start > range.end || range.end > self.bytes() {
            let at = self.chunks.first().map_or(0, |chunk| chunk.extent.at);
            return Err(Error::damaged(
                at,
                "range of a tape",
                format!("within {}", self.bytes()),
                format!("{range:?}"),
            ));
        }
        let chunk = machine.chunk() as u64;
        Ok(TapeReader {
            tape: self,
            space,
            at: range.start,
            end: range.end,
            chunk,
            buffer: Vec::new(),
            next: 0,
        })
    }
}

/// Reads a part of a tape sequentially.
#[derive(Clone)]
pub(super) struct TapeReader<'s> {
    tape: &'s Tape,
    space: &'s dyn BlockSpace,
    at: u64,
    end: u64,
    chunk: u64,
    buffer: Vec<u8>,
    next: usize,
}

impl TapeReader<'_> {
    fn fill(&mut self) -> Result<()> {
        self.buffer.clear();
        self.next = 0;
        let stored = self.tape.stored();
        if self.at >= stored {
            let (from, end) = ((self.at - stored) as usize, (self.end - stored) as usize);
            self.buffer
                .extend_from_slice(self.tape.tail.get(from..end).unwrap_or_default());
            self.at = self.end;
            return Ok(());
        }
        let index = self
            .tape
            .chunks
            .partition_point(|chunk| chunk.start + chunk.used <= self.at);
        let Some(chunk) = self.tape.chunks.get(index) else {
            return Ok(());
        };
        let offset = self.at - chunk.start;
        let stop = ((chunk.extent.at + offset) / self.chunk + 1) * self.chunk - chunk.extent.at;
        let stop = stop.min(chunk.used).min(self.end - chunk.start);
        self.buffer.resize((stop - offset) as usize, 0);
        if let Err(error) = self.space.read(chunk.extent.at + offset, &mut self.buffer) {
            self.buffer.clear();
            return Err(error);
        }
        self.at = chunk.start + stop;
        Ok(())
    }
}

impl ByteSource for TapeReader<'_> {
    type Error = Error;

    #[inline]
    fn byte(&mut self) -> Result<Option<u8>> {
        if self.next == self.buffer.len() {
            if self.at == self.end {
                return Ok(None);
            }
            self.fill()?;
        }
        let byte = self.buffer.get(self.next).copied();
        self.next += 1;
        Ok(byte)
    }
}

impl RecordSource for TapeReader<'_> {
    fn take(&mut self, bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        if bytes > self.left() {
            return Err(Error::damaged(
                self.place(),
                "length",
                format!("at most {}", self.left()),
                bytes,
            ));
        }
        let mut wanted = bytes as usize;
        while wanted > 0 {
            if self.next == self.buffer.len() {
                self.fill()?;
            }
            let step = wanted.min(self.buffer.len() - self.next);
            if step == 0 {
                return Err(Error::damaged(self.place(), "bytes of a tape", wanted, 0));
            }
            out.extend_from_slice(&self.buffer[self.next..self.next + step]);
            self.next += step;
            wanted -= step;
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<Option<u8>> {
        ByteSource::byte(self)
    }

    fn place(&self) -> u64 {
        self.at - (self.buffer.len() - self.next) as u64
    }

    fn left(&self) -> u64 {
        self.end - self.place()
    }
}
