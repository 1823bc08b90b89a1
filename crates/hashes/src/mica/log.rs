//! A circular log of items. New items are appended at the tail, and the oldest are dropped at the
//! head.
//!
//! The offset of an item is the number of bytes appended before it, which wraps around after
//! `offset_bits` bits (Lim 2015, §5.3.2). The lower bits of an offset are a position in memory, and
//! the upper bits count how often the log has been filled. A log's length need not be a power of
//! two: positions from the length up to the next power of two are skipped, so that lookups need no
//! division.
//!
//! An item is never split at the end of the memory. Instead, the log's memory continues past the
//! last position by the length of the longest item. The thesis maps the first pages a second time
//! after the last page, which is equivalent for readers. Unlike shared mappings of a file, the
//! method used here works with huge pages on all systems.

use super::memory::WORD;
use super::mode::ConcurrencyMode;
use super::sync::{AtomicU64, Ordering, fence};
use std::marker::PhantomData;

/// The bounds of a log, whose item words belong to the caller.
#[derive(Debug)]
pub(super) struct CircularLog<M> {
    /// Index of the first word of the log.
    base: usize,
    /// Capacity of the log, in bytes.
    len: u64,
    /// Number of lower offset bits that are the position in memory.
    position_bits: u32,
    /// Bit mask of an offset's bits.
    mask: u64,
    /// Offset of the oldest item. Only writers access it.
    head: AtomicU64,
    /// Offset after the newest item, including an item that is being written.
    tail: AtomicU64,
    /// Number of bytes from head to tail. Only writers access it.
    used: AtomicU64,
    mode: PhantomData<M>,
}

impl<M: ConcurrencyMode> CircularLog<M> {
    /// Creates an empty log of `len` bytes, whose memory starts at word `base`.
    ///
    /// # Panics
    /// If there are fewer than twice as many offsets as positions.
    pub(super) fn new(base: usize, len: usize, offset_bits: u32) -> CircularLog<M> {
        let position_bits = len.next_power_of_two().ilog2();
        assert!(
            position_bits < offset_bits,
            "{len} bytes, offsets of {offset_bits} bits"
        );
        assert!(len.is_multiple_of(WORD) && len > 0, "a log is made of words");
        CircularLog {
            base,
            len: len as u64,
            position_bits,
            mask: (1 << offset_bits) - 1,
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            used: AtomicU64::new(0),
            mode: PhantomData,
        }
    }

    /// Returns the capacity of the log, in bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the number of bytes in use, which are those from head to tail.
    #[inline]
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed) as usize
    }

    /// Returns the index of the first word of the item at `offset`.
    #[inline(always)]
    pub(super) fn word(&self, offset: u64) -> usize {
        self.base + (offset & ((1 << self.position_bits) - 1)) as usize / WORD
    }

    /// Returns the age of the item at `offset`: its distance from the tail in bytes, including
    /// skipped positions. Older items have greater ages.
    #[inline(always)]
    pub(super) fn age(&self, offset: u64) -> u64 {
        self.tail.load(Ordering::Relaxed).wrapping_sub(offset) & self.mask
    }

    /// Returns whether the item at `offset` is still there and has not been overwritten (M3).
    #[inline(always)]
    pub(super) fn holds(&self, offset: u64) -> bool {
        self.age(offset) <= 1 << self.position_bits
    }

    /// Returns whether the item at `offset` is in the older half of the log, closer to the head
    /// than to the tail.
    #[inline]
    pub(super) fn is_in_older_half(&self, offset: u64) -> bool {
        let (tail, mask) = (self.tail.load(Ordering::Relaxed), (1 << self.position_bits) - 1);
        let (tail, position) = (tail & mask, offset & mask);
        let bytes = if position < tail {
            tail - position
        } else {
            self.len + tail - position
        };
        2 * bytes > self.used.load(Ordering::Relaxed)
    }

    /// Returns the offset of the oldest item, or `None` if the log is empty.
    #[inline]
    pub(super) fn oldest(&self) -> Option<u64> {
        (self.used() > 0).then(|| self.head.load(Ordering::Relaxed))
    }

    /// Returns whether an item of `words` words can be appended without dropping others.
    #[inline(always)]
    pub(super) fn has_space(&self, words: usize) -> bool {
        self.used() + words * WORD <= self.len()
    }

    /// Drops the oldest item, which must have `words` words.
    #[inline]
    pub(super) fn drop_oldest(&self, words: usize) {
        let (head, used, bytes) = (self.head.load(Ordering::Relaxed), self.used(), words * WORD);
        assert!(bytes <= used && bytes > 0, "{bytes} bytes of a log with {used}");
        self.head
            .store(self.advance(head, bytes as u64), Ordering::Relaxed);
        self.used.store((used - bytes) as u64, Ordering::Relaxed);
    }

    /// Allocates words at the tail and returns their offset. From now on, readers treat what these
    /// words contained as overwritten.
    #[inline]
    pub(super) fn append(&self, words: usize) -> u64 {
        assert!(self.has_space(words), "{words} words, {} bytes used", self.used());
        let (offset, bytes) = (self.tail.load(Ordering::Relaxed), (words * WORD) as u64);
        self.tail.store(self.advance(offset, bytes), Ordering::Relaxed);
        self.used.store(self.used() as u64 + bytes, Ordering::Relaxed);
        if M::SHARED {
            // The tail is stored before the words are written, so a reader that sees one of these
            // words also sees the new tail after its own fence.
            fence(Ordering::Release);
        }
        offset
    }

    /// Returns the offset `bytes` bytes after `offset`, plus any skipped positions.
    #[inline]
    fn advance(&self, offset: u64, bytes: u64) -> u64 {
        let position = (offset & ((1 << self.position_bits) - 1)) + bytes;
        let gap = if position >= self.len {
            (1 << self.position_bits) - self.len
        } else {
            0
        };
        (offset + bytes + gap) & self.mask
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::super::mode::Erew;
    use super::*;
    use std::collections::VecDeque;

    /// Appends items of random lengths and compares the log with a queue of the same items.
    #[test]
    fn an_offset_is_held_until_it_is_written_over_also_when_offsets_wrap() {
        for (seed, len) in [(1, 1000), (2, 1024), (3, 4096), (4, 3004), (5, 16_000)] {
            let log = CircularLog::<Erew>::new(7, len, 16);
            let mut random = fastrand::Rng::with_seed(seed);
            let mut items: VecDeque<(u64, usize)> = VecDeque::new();
            let mut dropped: VecDeque<(u64, usize)> = VecDeque::new();
            for _ in 0..20_000 {
                let words = random.usize(1..60);
                while !log.has_space(words) {
                    let (offset, words) = items.pop_front().unwrap();
                    assert_eq!(log.oldest(), Some(offset));
                    log.drop_oldest(words);
                    dropped.push_back((offset, words));
                }
                let offset = log.append(words);
                items.push_back((offset, words));
                assert_eq!(
                    log.used(),
                    items.iter().map(|(_, words)| words * 4).sum::<usize>()
                );
                let mut ages = items.iter().map(|&(offset, _)| log.age(offset));
                assert!(items.iter().all(|&(offset, _)| log.holds(offset)));
                let mut last = u64::MAX;
                assert!(
                    ages.all(|age| std::mem::replace(&mut last, age) > age),
                    "ages fall"
                );
                // Overwritten items are no longer in the log.
                let (start, end) = (log.word(offset), log.word(offset) + words);
                while let Some(&(old, _)) = dropped.front()
                    && dropped.len() > 4 * len / 100
                {
                    assert!(!log.holds(old), "{old} of a log of {len}");
                    dropped.pop_front();
                }
                assert!(
                    start >= 7 && end <= 7 + len / 4 + 60,
                    "within the log and an item"
                );
                for &(other, words) in items.iter().take(items.len() - 1) {
                    let other = log.word(other);
                    assert!(other >= end || other + words <= start, "two items in one place");
                }
            }
        }
    }

    #[test]
    fn half_of_the_bytes_are_in_the_older_half() {
        let log = CircularLog::<Erew>::new(0, 1000, 20);
        let offsets: Vec<u64> = (0..25).map(|_| log.append(10)).collect();
        let older = offsets
            .iter()
            .filter(|&&offset| log.is_in_older_half(offset))
            .count();
        assert_eq!(older, 13, "the one in the middle begins in the older half");
        log.drop_oldest(10);
        log.append(10);
        let older = offsets
            .iter()
            .filter(|&&offset| log.is_in_older_half(offset))
            .count();
        assert_eq!(
            older, 13,
            "the dropped one is no longer there, the next is older now"
        );
    }
}
