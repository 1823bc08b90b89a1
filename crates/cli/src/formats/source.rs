//! Bytes as they come: a window over a file or a pipe that grows until a row is in it.

use super::broken;
use super::mark::MARK;
use std::fmt;
use std::io::{self, Read};

/// How much is read at once.
const CHUNK: usize = 1 << 18;

/// So much of what was taken away last is remembered, to tell whether another stream begins alike.
pub const TAIL: usize = 4096;

/// The longest row: twice what fits into the store, for quotes and escapes.
pub const MAX_ROW: usize = 2 * (alluvium::MAX_KEY + alluvium::MAX_VALUE);

/// A stream of bytes.
pub struct Source {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where `start` is in the stream.
    offset: u64,
    is_over: bool,
    /// The longest row.
    longest: usize,
    /// The last bytes that were taken away and are not in the buffer any more.
    tail: Vec<u8>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// A stream, of which a number of bytes was taken away already.
    #[must_use]
    pub fn new(reader: Box<dyn Read + Send>, offset: u64) -> Source {
        Source {
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

    /// Refuses rows longer than this, as long as that is less than [`MAX_ROW`]: a row stands in
    /// memory whole.
    #[must_use]
    pub fn longest(mut self, bytes: usize) -> Source {
        self.longest = bytes.min(MAX_ROW);
        self
    }

    /// Returns where in the stream it is.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns what has been read and not been taken away.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads more. Returns whether there was any.
    ///
    /// # Errors
    /// As the stream says; when a row does not end.
    pub fn fill(&mut self) -> io::Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        if self.end - self.start > self.longest {
            let (longest, hint) = (
                self.longest,
                if self.longest < MAX_ROW {
                    "; --memory SIZE allows longer ones"
                } else {
                    ""
                },
            );
            return Err(broken(format!(
                "a row of more than {longest} bytes: is a quote or a line end missing?{hint}"
            )));
        }
        if self.start > 0 {
            self.tail = self.tail();
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() < self.end + CHUNK {
            // Twice as much each time, so that a long row is not copied again and again.
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

    /// At least a number of bytes, unless the stream ends before.
    ///
    /// # Errors
    /// As [`Source::fill`].
    pub fn at_least(&mut self, bytes: usize) -> io::Result<&[u8]> {
        while self.rest().len() < bytes && self.fill()? {}
        Ok(self.rest())
    }

    /// Takes bytes away.
    pub fn take(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "only what was read is taken away");
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Takes the mark of the byte order away, if the stream begins with one. Returns whether it
    /// does.
    ///
    /// # Errors
    /// As [`Source::fill`].
    pub fn take_mark(&mut self) -> io::Result<bool> {
        let is_there = self.offset == 0 && self.at_least(MARK.len())?.starts_with(MARK);
        if is_there {
            self.take(MARK.len());
        }
        Ok(is_there)
    }

    /// Returns what was taken away last, up to [`TAIL`] bytes.
    #[must_use]
    pub fn tail(&self) -> Vec<u8> {
        let taken = &self.buffer[self.start.saturating_sub(TAIL)..self.start];
        let before = &self.tail[self.tail.len().saturating_sub(TAIL - taken.len())..];
        [before, taken].concat()
    }

    /// The bytes up to the next line end and with it, or to the end of the stream: none there.
    ///
    /// # Errors
    /// As [`Source::fill`].
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

/// A line without its end.
#[must_use]
pub fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}
