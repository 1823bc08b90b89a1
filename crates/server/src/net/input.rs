//! Bytes that were received and not yet understood.

use super::transport::Transport;
use std::cell::Cell;
use std::io;

/// How many bytes are asked of a socket at once, at least.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// A buffer that connections without a half request take turns with, so that idle ones hold
    /// none.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How many bytes are asked of a socket at once where memory is scarce, until it is known how long
/// the request is.
const LITTLE: usize = 4 << 10;

/// How much is received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As much as there is.
    Much,
    /// No more than says how long a request is, where that is not known.
    Little,
}

impl Pace {
    /// Whether no more than a little is received of a request that takes `wanted` bytes as far as
    /// is known.
    fn is_little(self, wanted: usize) -> bool {
        self == Pace::Little && wanted <= LITTLE
    }
}

/// Lets the buffer of this thread go.
pub(super) fn forget_spare() {
    drop(SPARE.take());
}

/// A buffer of received bytes. All of `bytes` is initialised; what counts lies between `start` and
/// `end`.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// Returns what was received and not yet consumed. Parsers may decode in place.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Returns how much that is.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
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

    /// Returns how long the buffer is.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns how long the buffer will be when more is received, of a request that takes `wanted`
    /// bytes as far as is known.
    pub(super) fn next_capacity(&self, wanted: usize, pace: Pace) -> usize {
        if pace.is_little(wanted) {
            return self.bytes.len().max(self.len() + LITTLE);
        }
        if self.bytes.len() - self.len() >= CHUNK / 4 {
            return self.bytes.len();
        }
        // A long request makes the buffer longer by a half each time, so that it is not copied
        // often; one whose length is known does not make it longer than that.
        let has = self.bytes.len();
        let longer = has + CHUNK.max(has / 2);
        match wanted.saturating_add(CHUNK / 4) {
            exact if exact > has + CHUNK / 4 => longer.min(exact),
            _ => longer,
        }
    }

    /// Receives once, of a request that takes `wanted` bytes as far as is known. Returns how much
    /// was asked for and how much came.
    pub(crate) fn fill(
        &mut self,
        transport: &mut Transport,
        wanted: usize,
        pace: Pace,
    ) -> io::Result<(usize, usize)> {
        let room = if pace.is_little(wanted) {
            self.make_a_little_longer();
            self.end..self.bytes.len().min(self.end + LITTLE)
        } else {
            self.make_longer(wanted);
            self.end..self.bytes.len()
        };
        let asked = room.len();
        let got = transport.read(&mut self.bytes[room])?;
        self.end += got;
        Ok((asked, got))
    }

    /// Has a buffer in which some bytes more fit than were received.
    fn make_a_little_longer(&mut self) {
        let left = self.len();
        if self.bytes.len() - self.end >= LITTLE / 2 {
            return;
        }
        if self.bytes.len() - left < LITTLE / 2 {
            let mut bytes = vec![0; left + LITTLE];
            bytes[..left].copy_from_slice(&self.bytes[self.start..self.end]);
            self.bytes = bytes;
        } else {
            self.bytes.copy_within(self.start..self.end, 0);
        }
        (self.start, self.end) = (0, left);
    }

    /// Has a buffer that is worth a call, for a request that takes `wanted` bytes as far as is
    /// known.
    fn make_longer(&mut self, wanted: usize) {
        self.borrow();
        if self.start > 0 && self.bytes.len() - self.end < CHUNK / 4 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.end < CHUNK / 4 {
            let longer = self.next_capacity(wanted, Pace::Much);
            self.bytes.reserve_exact(longer - self.bytes.len());
            self.bytes.resize(longer, 0);
        }
    }

    /// Gives the buffer away when nothing is in it, or so little that a shorter one does.
    pub(crate) fn rest(&mut self) {
        let left = self.len();
        let is_used = left > CHUNK / 4 && self.bytes.len() <= 4 * left.max(CHUNK);
        if is_used || self.bytes.len() == left {
            return;
        }
        let kept = match left {
            0 => Vec::new(),
            _ => self.bytes[self.start..self.end].to_vec(),
        };
        let bytes = std::mem::replace(&mut self.bytes, kept);
        (self.start, self.end) = (0, left);
        // There are as many threads as requests that wait for the store.
        if bytes.len() == CHUNK {
            SPARE.set(bytes);
        }
    }

    /// Has a buffer that is worth a call, with what was left over in it.
    fn borrow(&mut self) {
        let left = self.len();
        if self.bytes.len() >= CHUNK {
            return;
        }
        let mut bytes = SPARE.take();
        if bytes.len() < CHUNK {
            bytes = vec![0; CHUNK];
        }
        bytes[..left].copy_from_slice(&self.bytes[self.start..self.end]);
        self.bytes = bytes;
        (self.start, self.end) = (0, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(length: usize, start: usize, end: usize) -> Input {
        Input {
            bytes: vec![7; length],
            start,
            end,
        }
    }

    #[test]
    fn what_is_left_over_is_kept_in_a_buffer_of_its_length() {
        let mut input = with(CHUNK, 100, 350);
        input.rest();
        assert_eq!(input.capacity(), 250);
        assert_eq!(input.bytes(), [7; 250]);
        input.rest();
        assert_eq!(input.len(), 250);
        input.borrow();
        assert_eq!(input.capacity(), CHUNK);
        assert_eq!(input.bytes(), [7; 250]);
        input.consume(250);
        input.rest();
        assert_eq!(input.capacity(), 0);
    }

    #[test]
    fn where_memory_is_scarce_a_buffer_is_little_longer_than_what_is_in_it() {
        let mut input = Input::default();
        input.make_a_little_longer();
        assert_eq!((input.capacity(), input.len()), (LITTLE, 0));
        assert_eq!(input.next_capacity(100, Pace::Little), LITTLE);
        assert!(input.next_capacity(100, Pace::Much) > CHUNK);
        input.end = LITTLE;
        input.make_a_little_longer();
        assert_eq!((input.capacity(), input.len()), (2 * LITTLE, LITTLE));
        input.consume(LITTLE - 10);
        input.end = 2 * LITTLE;
        input.consume(LITTLE);
        input.make_a_little_longer();
        assert_eq!((input.capacity(), input.len(), input.start), (2 * LITTLE, 10, 0));
    }

    #[test]
    fn a_buffer_grows_to_what_is_wanted_and_not_beyond() {
        let full = with(4 * CHUNK, 0, 4 * CHUNK);
        assert_eq!(full.next_capacity(0, Pace::Much), 6 * CHUNK);
        assert_eq!(full.next_capacity(5 * CHUNK, Pace::Much), 5 * CHUNK + CHUNK / 4);
        assert_eq!(full.next_capacity(100 * CHUNK, Pace::Much), 6 * CHUNK);
        assert_eq!(
            with(4 * CHUNK, 0, CHUNK).next_capacity(100 * CHUNK, Pace::Much),
            4 * CHUNK
        );
    }
}
