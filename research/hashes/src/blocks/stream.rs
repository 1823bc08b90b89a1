//! Sequential reads and writes of an extent, one block at a time.

use super::error::{Error, Result};
use super::space::{BlockExtent, BlockSpace};
use alluvium_filters::golomb::ByteSource;

/// Reads the bytes of a range in order, in chunks.
pub struct BlockStreamReader<'s> {
    space: &'s dyn BlockSpace,
    at: u64,
    end: u64,
    chunk: usize,
    buffer: Vec<u8>,
    next: usize,
}

impl<'s> BlockStreamReader<'s> {
    /// Creates a reader of `extent` that transfers `chunk` bytes at a time.
    #[must_use]
    pub fn new(space: &'s dyn BlockSpace, extent: BlockExtent, chunk: usize) -> BlockStreamReader<'s> {
        let end = extent.end().unwrap_or(extent.at);
        BlockStreamReader {
            space,
            at: extent.at,
            end,
            chunk: chunk.max(1),
            buffer: Vec::new(),
            next: 0,
        }
    }

    /// Returns the number of remaining bytes.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.end - self.at + (self.buffer.len() - self.next) as u64
    }

    /// Returns the offset of the next byte.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.at - (self.buffer.len() - self.next) as u64
    }

    /// Appends the next `bytes` bytes to `out`.
    ///
    /// # Errors
    /// When fewer bytes remain, or they cannot be read.
    pub fn take(&mut self, bytes: u64, out: &mut Vec<u8>) -> Result<()> {
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
            out.extend_from_slice(&self.buffer[self.next..self.next + step]);
            self.next += step;
            wanted -= step;
        }
        Ok(())
    }

    /// Reads up to the next multiple of the chunk.
    fn fill(&mut self) -> Result<()> {
        let chunk = self.chunk as u64;
        let stop = (self.at / chunk + 1).saturating_mul(chunk).min(self.end);
        self.buffer.resize((stop - self.at) as usize, 0);
        self.next = 0;
        let read = self.space.read(self.at, &mut self.buffer);
        if read.is_err() {
            self.buffer.clear();
        } else {
            self.at = stop;
        }
        read
    }
}

impl ByteSource for BlockStreamReader<'_> {
    type Error = Error;

    #[inline]
    fn byte(&mut self) -> Result<Option<u8>> {
        if self.next == self.buffer.len() {
            if self.at == self.end {
                return Ok(None);
            }
            self.fill()?;
        }
        let byte = self.buffer[self.next];
        self.next += 1;
        Ok(Some(byte))
    }
}

/// Writes bytes to an extent in order, in chunks.
pub struct BlockStreamWriter<'s> {
    space: &'s dyn BlockSpace,
    extent: BlockExtent,
    offset: u64,
    chunk: usize,
    buffer: Vec<u8>,
}

impl<'s> BlockStreamWriter<'s> {
    /// Creates a writer of `extent` that transfers `chunk` bytes at a time.
    #[must_use]
    pub fn new(space: &'s dyn BlockSpace, extent: BlockExtent, chunk: usize) -> BlockStreamWriter<'s> {
        BlockStreamWriter {
            space,
            extent,
            offset: 0,
            chunk: chunk.max(1),
            buffer: Vec::new(),
        }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    ///
    /// # Panics
    /// When the extent is full: the caller computed its size incorrectly.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        assert!(
            self.offset + self.buffer.len() as u64 <= self.extent.bytes,
            "an extent holds its stream"
        );
        let at = self.extent.at + self.offset;
        let whole = (at + self.buffer.len() as u64) / self.chunk as u64 * self.chunk as u64;
        if let Some(ready) = whole.checked_sub(at).filter(|ready| *ready > 0) {
            self.space.write(at, &self.buffer[..ready as usize])?;
            self.buffer.drain(..ready as usize);
            self.offset += ready;
        }
        Ok(())
    }

    /// Returns the number of bytes appended.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// Writes the remaining bytes, and returns the total number of bytes.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    pub fn finish(self) -> Result<u64> {
        if !self.buffer.is_empty() {
            self.space.write(self.extent.at + self.offset, &self.buffer)?;
        }
        Ok(self.bytes())
    }
}
