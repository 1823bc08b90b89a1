//! The buffer for received bytes that have not been parsed.

use super::transport::Transport;
use std::cell::Cell;
use std::io;

/// Minimum buffer size in bytes for ordinary reads from a socket.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// A buffer shared by all connections of a thread that have no incomplete request, so that an
    /// idle connection needs no buffer of its own.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Read size in bytes while memory is scarce and the request length is unknown.
const LITTLE: usize = 4 << 10;

/// How much to receive at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveAmount {
    /// Receive as much as is available.
    Much,
    /// If the request length is unknown, receive only enough to learn it.
    Little,
}

impl ReceiveAmount {
    /// Returns whether to receive only a small amount for a request of `wanted` bytes.
    fn is_little(self, wanted: usize) -> bool {
        self == ReceiveAmount::Little && wanted <= LITTLE
    }
}

/// Frees the current thread's reusable input buffer.
pub(super) fn forget_spare() {
    drop(SPARE.take());
}

/// A buffer for received bytes. All elements of `bytes` are initialised. The bytes from `start` to
/// `end` have been received but not parsed.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    /// Returns the bytes that have not been consumed. A parser may modify them to decode in place.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Returns the number of bytes that have not been consumed.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Removes the first `count` of the unconsumed bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.end, "no more is consumed than there is");
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Returns the capacity of the buffer in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the capacity in bytes that the buffer will have after the next receive. `wanted` is
    /// the size of the incomplete request, as far as known.
    pub(super) fn next_capacity(&self, wanted: usize, pace: ReceiveAmount) -> usize {
        if pace.is_little(wanted) {
            return self.bytes.len().max(self.len() + LITTLE);
        }
        if self.bytes.len() - self.len() >= CHUNK / 4 {
            return self.bytes.len();
        }
        // For a long request, grow the buffer by half to limit copying, but not much beyond the
        // request size if that is known.
        let has = self.bytes.len();
        let longer = has + CHUNK.max(has / 2);
        match wanted.saturating_add(CHUNK / 4) {
            exact if exact > has + CHUNK / 4 => longer.min(exact),
            _ => longer,
        }
    }

    /// Reads from the transport once. `wanted` is the size of the incomplete request, as far as
    /// known. Returns the number of bytes requested from the transport and the number received.
    pub(crate) fn fill(
        &mut self,
        transport: &mut Transport,
        wanted: usize,
        pace: ReceiveAmount,
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

    /// Ensures that the buffer has space for a small read.
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

    /// Ensures that the buffer has enough space for a read to be worth a system call. `wanted` is
    /// the size of the incomplete request, as far as known.
    fn make_longer(&mut self, wanted: usize) {
        self.borrow();
        if self.start > 0 && self.bytes.len() - self.end < CHUNK / 4 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.end < CHUNK / 4 {
            let longer = self.next_capacity(wanted, ReceiveAmount::Much);
            self.bytes.reserve_exact(longer - self.bytes.len());
            self.bytes.resize(longer, 0);
        }
    }

    /// Called at the end of a turn. Frees the buffer if it contains no bytes, and replaces it with
    /// a shorter one if few of its bytes are used.
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
        // Keep at most one buffer per thread for reuse. There may be many threads, because each
        // request that waits for the store occupies one.
        if bytes.len() == CHUNK {
            SPARE.set(bytes);
        }
    }

    /// Replaces a short buffer with one of at least [`CHUNK`] bytes, which may be the thread's
    /// reusable buffer, and copies the unconsumed bytes into it.
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

    fn with(length: usize, start: usize, end: usize) -> ReceiveBuffer {
        ReceiveBuffer {
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
        let mut input = ReceiveBuffer::default();
        input.make_a_little_longer();
        assert_eq!((input.capacity(), input.len()), (LITTLE, 0));
        assert_eq!(input.next_capacity(100, ReceiveAmount::Little), LITTLE);
        assert!(input.next_capacity(100, ReceiveAmount::Much) > CHUNK);
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
        assert_eq!(full.next_capacity(0, ReceiveAmount::Much), 6 * CHUNK);
        assert_eq!(
            full.next_capacity(5 * CHUNK, ReceiveAmount::Much),
            5 * CHUNK + CHUNK / 4
        );
        assert_eq!(full.next_capacity(100 * CHUNK, ReceiveAmount::Much), 6 * CHUNK);
        assert_eq!(
            with(4 * CHUNK, 0, CHUNK).next_capacity(100 * CHUNK, ReceiveAmount::Much),
            4 * CHUNK
        );
    }
}
