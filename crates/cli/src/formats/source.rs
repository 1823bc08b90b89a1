//! Buffered input. The reader sees a window over a file or pipe, which grows until it contains a
//! complete row.

use super::broken;
use super::mark::MARK;
use std::fmt;
use std::io::{self, Read};

/// Size of a read from the stream in bytes.
const CHUNK: usize = 1 << 18;

/// Number of consumed bytes that are kept, to check later whether another stream begins with the
/// same content.
pub const TAIL: usize = 4096;

/// Maximum length of a row in bytes. It is twice the size of the largest record, to allow for
/// quotes and escapes.
pub const MAX_ROW: usize = 2 * (alluvium::MAX_KEY + alluvium::MAX_VALUE);

/// A stream of bytes with a buffer.
pub struct InputSource {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The position in the stream of the byte at `start`.
    offset: u64,
    is_over: bool,
    /// Maximum length of a row in bytes. A longer row is an error.
    longest: usize,
    /// The most recently consumed bytes that have already been removed from the buffer.
    tail: Vec<u8>,
}

impl fmt::Debug for InputSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputSource")
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl InputSource {
    /// Creates a source for a stream whose first `offset` bytes have already been consumed.
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

    /// Sets the maximum length of a row in bytes, which cannot exceed [`MAX_ROW`]. The limit
    /// matters because a whole row is kept in memory.
    #[must_use]
    pub fn longest(mut self, bytes: usize) -> InputSource {
        self.longest = bytes.min(MAX_ROW);
        self
    }

    /// Returns the stream position after the last consumed byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the buffered bytes that have not been consumed.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads more bytes into the buffer. Returns false at the end of the stream.
    ///
    /// # Errors
    /// Errors of the stream, and a row that is too long.
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
            // Doubling the buffer limits how often the bytes of a long row are copied.
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

    /// Reads until the buffer contains at least `bytes` unconsumed bytes or the stream ends.
    ///
    /// # Errors
    /// As [`InputSource::fill`].
    pub fn at_least(&mut self, bytes: usize) -> io::Result<&[u8]> {
        while self.rest().len() < bytes && self.fill()? {}
        Ok(self.rest())
    }

    /// Consumes the first `bytes` bytes of the buffer, which must be at least that long.
    pub fn take(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "only what was read is taken away");
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Consumes a byte order mark at the beginning of the stream. Returns whether there was one.
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

    /// Returns the most recently consumed bytes, at most [`TAIL`] of them.
    #[must_use]
    pub fn tail(&self) -> Vec<u8> {
        let taken = &self.buffer[self.start.saturating_sub(TAIL)..self.start];
        let before = &self.tail[self.tail.len().saturating_sub(TAIL - taken.len())..];
        [before, taken].concat()
    }

    /// Returns the bytes up to and including the next line end, or up to the end of the stream. The
    /// result is empty at the end of the stream.
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
