//! Bytes that were received and not yet understood.

use super::transport::Transport;
use std::cell::Cell;
use std::io;

/// How many bytes are asked of a socket at once, at least.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// A buffer that connections without a half request take turns with, so that idle ones hold none.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer of received bytes. All of `bytes` is initialised; what counts lies between `start` and `end`.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// What was received and not yet consumed. Parsers may decode in place.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// How much that is.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns how many bytes its buffer takes.
    pub(crate) fn room(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The first `count` bytes are done with.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.end, "no more is consumed than there is");
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Receives once; how much was asked for and how much came.
    pub(crate) fn fill(&mut self, transport: &mut Transport) -> io::Result<(usize, usize)> {
        if self.bytes.is_empty() {
            self.bytes = SPARE.take();
        }
        if self.start > 0 && self.bytes.len() - self.end < CHUNK / 4 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.end < CHUNK / 4 {
            // Long requests double the buffer, so that they are not copied often.
            let more = CHUNK.max(self.bytes.len());
            self.bytes.resize(self.bytes.len() + more, 0);
        }
        let room = &mut self.bytes[self.end..];
        let asked = room.len();
        let got = transport.read(room)?;
        self.end += got;
        Ok((asked, got))
    }

    /// Gives the buffer away when nothing is in it.
    pub(crate) fn rest(&mut self) {
        if self.start == self.end && !self.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            if bytes.len() <= 4 * CHUNK {
                SPARE.set(bytes);
            }
        }
    }
}
