//! A ring buffer of records in the order of their arrival. Each record begins with the lengths of
//! its key and its value, two bytes each.

use alluvium_storage::memory::ZeroedBuffer;

/// Byte offset of a record in the ring buffer.
pub(super) type RingOffset = u32;

/// Number of bytes before a record's key.
const HEADER: usize = 4;

/// The ring buffer. Each record is stored contiguously: if it does not fit before the end of the
/// buffer, it is stored at the start.
#[derive(Debug, Default)]
pub(super) struct RecordRing {
    bytes: ZeroedBuffer,
    /// `tail` is the offset of the oldest record, and `head` is the end of the newest record.
    tail: usize,
    head: usize,
    /// End of the last record before the wrap to the start. It is valid only while the newest
    /// records are stored at the start of the buffer again (`head <= tail`).
    end: usize,
    records: usize,
    /// Number of bytes occupied by records, including their headers.
    filled: usize,
}

impl RecordRing {
    pub(super) fn new(bytes: usize) -> RecordRing {
        RecordRing {
            bytes: ZeroedBuffer::zeroed(bytes.min(u32::MAX as usize)),
            ..RecordRing::default()
        }
    }

    /// Returns the size of the ring in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes occupied by records.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Returns the number of bytes that a record with this key and value occupies.
    pub(super) fn taken_by(key: &[u8], value: &[u8]) -> usize {
        HEADER + key.len() + value.len()
    }

    /// Returns the maximum total length of a record's key and value, in bytes.
    pub(super) fn longest(&self) -> usize {
        (self.bytes.len() / 8).min(usize::from(u16::MAX))
    }

    /// Returns whether the largest free piece of the ring is smaller than a sixteenth of the ring.
    /// If so, the ring has evicted records or will soon do so.
    pub(super) fn is_full(&self) -> bool {
        self.room(self.bytes.len() / 16).is_none()
    }

    /// Returns the number of records in the ring, including those removed from the table.
    pub(super) fn len(&self) -> usize {
        self.records
    }

    /// Returns the mean size of a record in bytes, or `None` if the ring is empty.
    pub(super) fn mean(&self) -> Option<usize> {
        (self.records > 0).then(|| self.filled.div_ceil(self.records))
    }

    /// Returns the lengths of a record's key and value, in bytes.
    fn lengths(&self, place: RingOffset) -> (usize, usize) {
        let header = &self.bytes[place as usize..][..HEADER];
        let length = |at: usize| usize::from(header[at]) | usize::from(header[at + 1]) << 8;
        (length(0), length(2))
    }

    fn len_of(&self, place: RingOffset) -> usize {
        let (key_len, value_len) = self.lengths(place);
        HEADER + key_len + value_len
    }

    pub(super) fn key(&self, place: RingOffset) -> &[u8] {
        let (key_len, _) = self.lengths(place);
        &self.bytes[place as usize + HEADER..][..key_len]
    }

    pub(super) fn value(&self, place: RingOffset) -> &[u8] {
        let (key_len, value_len) = self.lengths(place);
        &self.bytes[place as usize + HEADER + key_len..][..value_len]
    }

    /// Prefetches the cache lines with a record's first bytes.
    #[inline]
    pub(super) fn prefetch(&self, place: RingOffset) {
        let bytes = &self.bytes[place as usize..];
        alluvium_base::prefetch(bytes, 0);
        alluvium_base::prefetch(bytes, 64);
    }

    /// Overwrites a record's value if the new value has the same length. Returns whether it did.
    pub(super) fn overwrite(&mut self, place: RingOffset, value: &[u8]) -> bool {
        let (key_len, value_len) = self.lengths(place);
        let is_as_long = value.len() == value_len;
        if is_as_long {
            self.bytes[place as usize + HEADER + key_len..][..value_len].copy_from_slice(value);
        }
        is_as_long
    }

    /// Returns the offset at which a record of `len` bytes would be stored now, or `None` if it
    /// does not fit.
    fn room(&self, len: usize) -> Option<usize> {
        let fits = |from: usize, to: usize| (to - from >= len).then_some(from);
        if self.records == 0 {
            fits(0, self.bytes.len())
        } else if self.head > self.tail {
            fits(self.head, self.bytes.len()).or_else(|| fits(0, self.tail))
        } else {
            fits(self.head, self.tail)
        }
    }

    fn take(&mut self, at: usize, len: usize) -> RingOffset {
        if self.records == 0 {
            self.tail = at;
        } else if at < self.head {
            self.end = self.head;
        }
        self.head = at + len;
        self.records += 1;
        self.filled += len;
        at as RingOffset
    }

    /// Appends a record and returns its offset, or `None` if it does not fit. The key and the value
    /// together must not be longer than [`RecordRing::longest`].
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Option<RingOffset> {
        let len = RecordRing::taken_by(key, value);
        let at = self.room(len)?;
        let (header, rest) = self.bytes[at..at + len].split_at_mut(HEADER);
        let low_and_high = |len: usize| [len as u8, (len >> 8) as u8];
        header[..2].copy_from_slice(&low_and_high(key.len()));
        header[2..].copy_from_slice(&low_and_high(value.len()));
        rest[..key.len()].copy_from_slice(key);
        rest[key.len()..].copy_from_slice(value);
        Some(self.take(at, len))
    }

    /// Removes the oldest record and returns its offset. The record's bytes stay readable until
    /// they are overwritten.
    pub(super) fn pop(&mut self) -> Option<RingOffset> {
        if self.records == 0 {
            return None;
        }
        let place = self.tail as RingOffset;
        let len = self.len_of(place);
        let was_cut = self.head <= self.tail;
        self.tail += len;
        if was_cut && self.tail == self.end {
            self.tail = 0;
        }
        self.records -= 1;
        self.filled -= len;
        Some(place)
    }

    /// Appends the most recently removed record and returns its new offset, or `None` if it does
    /// not fit.
    pub(super) fn reinsert(&mut self, place: RingOffset) -> Option<RingOffset> {
        let len = self.len_of(place);
        let at = self.room(len)?;
        let from = place as usize;
        self.bytes.copy_within(from..from + len, at);
        Some(self.take(at, len))
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn records_of_every_length_stay_whole_while_the_ring_turns() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut ring = RecordRing::new(1000);
        let mut reference: VecDeque<(RingOffset, Vec<u8>, Vec<u8>)> = VecDeque::new();
        let (mut again, mut most, mut empty) = (0, 0, 0);
        for turn in 0..20_000u32 {
            let key = turn.to_string().into_bytes();
            let value = vec![turn as u8; random.usize(0..100)];
            let place = loop {
                match ring.push(&key, &value) {
                    Some(place) => break place,
                    None => {
                        let old = ring.pop().unwrap();
                        let (place, key, value) = reference.pop_front().unwrap();
                        assert_eq!(old, place);
                        if random.u8(..) < 60
                            && let Some(place) = ring.reinsert(old)
                        {
                            again += 1;
                            reference.push_back((place, key, value));
                        }
                    }
                }
            };
            reference.push_back((place, key, value));
            most = most.max(reference.len());
            if turn % 3000 == 0 {
                while let Some(old) = ring.pop() {
                    assert_eq!(Some(old), reference.pop_front().map(|(place, ..)| place));
                }
                empty += 1;
            } else if let Some((place, _, value)) = reference.get_mut(turn as usize % 7) {
                value.fill(7);
                assert!(ring.overwrite(*place, value));
                assert!(!ring.overwrite(*place, &[9; 101]));
            }
            let taken = reference
                .iter()
                .map(|(_, key, value)| HEADER + key.len() + value.len());
            assert_eq!((ring.len(), ring.filled), (reference.len(), taken.sum()));
            for (place, key, value) in &reference {
                assert_eq!((ring.key(*place), ring.value(*place)), (&key[..], &value[..]));
            }
        }
        assert!(
            again > 1000 && most > 20 && empty == 7,
            "{again} put back, {most} at most"
        );
    }
}
