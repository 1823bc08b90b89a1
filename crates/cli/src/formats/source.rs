//! Buffered input: a window over a file or a pipe that grows until it contains a row.

use super::broken;
use super::mark::MARK;
use std::fmt;
use std::io::{self, Read};

/// Size of a read in bytes.
const CHUNK: usize = 1 << 18;

/// Number of consumed bytes that are remembered, to check later whether another stream begins in
/// the same way.
pub const TAIL: usize = 4096;

/// Longest row in bytes: twice the largest record, to allow for quotes and escapes.
pub const MAX_ROW: usize = 2 * (alluvium::MAX_KEY + alluvium::MAX_VALUE);

/// A buffered stream of bytes.
pub struct InputSource {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position of `start` in the stream.
    offset: u64,
    is_over: bool,
    /// Longest row in bytes. A longer one is an error.
    longest: usize,
    /// The last consumed bytes that are no longer in the buffer.
    tail: Vec<u8>,
}

impl fmt::Debug for InputSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl InputSource {
    /// Creates a source for a stream of which `offset` bytes have been consumed already.
    #[must_use]
    pub fn new(reader: Box<dyn Read + Send>, offset: u64) -> InputSource {
        InputSource {
            reader,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset,
            is_over: false,
            longest: MAX_ROW,
            tail: Vec::new(),
        }
    }

    /// Limits rows to this length, at most [`MAX_ROW`]. A row is held in memory as a whole.
    #[must_use]
    pub fn longest(mut self, bytes: usize) -> InputSource {
        self.longest = bytes.min(MAX_ROW);
        self
    }

    /// Returns the position in the stream.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the buffered bytes that are not consumed yet.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads more. Returns false at the end of the stream.
    ///
    /// # Errors
    /// Errors of the stream; a row that is too long.
    pub fn fill(&mut self) -> io::Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        if self.end - self.start > self.longest {
            let (longest, hint) = (
                self.longest,
                if self.longest < MAX_ROW {
                    "; a larger --memory allows longer rows"
                } else {
                    ""
                },
            );
            return Err(broken(format!(
                "a row is longer than {longest} bytes: is a quote or a line end missing?{hint}"
            )));
        }
        if self.start > 0 {
            self.tail = self.tail();
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() < self.end + CHUNK {
            // Double the buffer, to limit the copying of a long row.
            let wanted = (self.end * 2).min(self.longest + 2 * CHUNK).max(self.end + CHUNK);
            self.buffer.resize(wanted, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_over = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(!self.is_over);
        }
    }

    /// Buffers at least this number of bytes, unless the stream ends before.
    ///
    /// # Errors
    /// As [`InputSource::fill`].
    pub fn at_least(&mut self, bytes: usize) -> io::Result<&[u8]> {
        while self.rest().len() < bytes && self.fill()? {}
        Ok(self.rest())
    }

    /// Consumes bytes, which must be in the window.
    pub fn take(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "only what was read is taken away");
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Consumes the byte order mark, if the stream begins with it. Returns whether it does.
    ///
    /// # Errors
    /// As [`InputSource::fill`].
    pub fn take_mark(&mut self) -> io::Result<bool> {
        let is_there = self.offset == 0 && self.at_least(MARK.len())?.starts_with(MARK);
        if is_there {
            self.take(MARK.len());
        }
        Ok(is_there)
    }

    /// Returns the last consumed bytes, up to [`TAIL`].
    #[must_use]
    pub fn tail(&self) -> Vec<u8> {
        let taken = &self.buffer[self.start.saturating_sub(TAIL)..self.start];
        let before = &self.tail[self.tail.len().saturating_sub(TAIL - taken.len())..];
        [before, taken].concat()
    }

    /// Returns the bytes up to and including the next line end, or up to the end of the stream;
    /// empty at the end.
    ///
    /// # Errors
    /// As [`InputSource::fill`].
    pub fn line(&mut self) -> io::Result<&[u8]> {
        let mut seen = 0;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.rest()[seen..]) {
                return Ok(&self.rest()[..=seen + at]);
            }
            seen = self.rest().len();
            if !self.fill()? {
                return Ok(self.rest());
            }
        }
    }
}

/// Returns a line without its line end.
#[must_use]
pub fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}
