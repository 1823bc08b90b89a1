//! Output buffer of a scan: records that are decided but not yet consumed by the caller.

use crate::value_log::ValuePointer;
use std::ops::Range;

/// A batch is full at this many bytes of keys and values.
/// Tuning: `64 << 10` since 2026-11-22.
const ENOUGH: usize = 64 << 10;
/// The same limit for a batch with values that are not loaded yet. It is larger because the wait
/// for the device is shared by all values that are read together.
/// Tuning: `256 << 10` since 2026-11-24.
const ENOUGH_APART: usize = 256 << 10;
/// Values longer than this are moved instead of copied, and end their batch.
/// Tuning: `16 << 10` since 2026-11-22.
const LONG: usize = 16 << 10;
/// Longest value returned by a scan that omits long values.
/// Tuning: `1 << 10` since 2026-11-28.
pub const SHORT: usize = 1 << 10;

/// How a scan returns values longer than [`SHORT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongValues {
    /// In full, like any other value.
    #[default]
    Read,
    /// As empty values. Long values outside leaves are not read.
    LeftOut,
}

impl LongValues {
    /// Returns the value that the scan returns in place of `value`.
    #[inline]
    #[must_use]
    pub fn shown(self, value: &[u8]) -> &[u8] {
        match self {
            LongValues::LeftOut if value.len() > SHORT => &[],
            LongValues::LeftOut | LongValues::Read => value,
        }
    }
}

/// Limits of a batch when memory is scarce: the maximum number of records, and the bytes per record
/// after which the batch is full.
/// Tuning: `8` since 2026-11-25.
pub const FEW: usize = 8;
/// Bytes per record after which such a batch is full.
/// Tuning: `64` since 2026-11-25.
const LITTLE: usize = 64;
// A batch with values to be loaded may have more bytes than one without.
const _: () = assert!(ENOUGH <= ENOUGH_APART && LONG <= ENOUGH);

/// Keys and values in scan order.
#[derive(Debug)]
pub struct ScanBatch {
    bytes: Vec<u8>,
    /// End of each key and end of its value. A key begins where the previous value ends.
    ends: Vec<(usize, usize)>,
    /// Value of the last record, if it is long.
    long: Option<Vec<u8>>,
    /// Values that are not loaded yet, in record order.
    lacking: Vec<UnloadedValue>,
    /// Number of records at which the batch is full.
    wanted: usize,
    /// Maximum bytes: if all values are loaded, and if some are not.
    enough: [usize; 2],
    /// The next record to return, and the offset of its key.
    next: usize,
    from: usize,
}

/// A value that is stored outside its leaf, for which the batch has reserved space.
#[derive(Clone, Copy, Debug)]
pub struct UnloadedValue {
    pub pointer: ValuePointer,
    record: usize,
}

impl Default for ScanBatch {
    fn default() -> ScanBatch {
        ScanBatch {
            bytes: Vec::new(),
            ends: Vec::new(),
            long: None,
            lacking: Vec::new(),
            wanted: 0,
            enough: [ENOUGH, ENOUGH_APART],
            next: 0,
            from: 0,
        }
    }
}

impl ScanBatch {
    /// Removes all records and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.long = None;
        self.lacking.clear();
        (self.next, self.from) = (0, 0);
    }

    /// Returns the number of records.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of records already returned.
    pub fn taken(&self) -> usize {
        debug_assert!(
            self.next <= self.ends.len(),
            "{} of {} records",
            self.next,
            self.ends.len()
        );
        self.next
    }

    /// Returns whether all records were returned.
    pub fn is_over(&self) -> bool {
        self.next == self.ends.len()
    }

    /// Sets the maximum number of records.
    pub fn want(&mut self, records: usize) {
        self.wanted = records;
        self.enough = [ENOUGH, ENOUGH_APART];
    }

    /// As [`ScanBatch::want`], for scarce memory: memory beyond what these few records need is
    /// freed. Must be called right after [`ScanBatch::clear`].
    #[cold]
    pub fn limit_memory(&mut self, records: usize) {
        let enough = LITTLE * records;
        if self.bytes.capacity() > 2 * enough || self.ends.capacity() > records {
            *self = ScanBatch::default();
        }
        self.ends.reserve_exact(records);
        self.wanted = records;
        self.enough = [enough; 2];
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let long = self.long.as_ref().map_or(0, Vec::capacity);
        let lists = self.ends.capacity() * size_of::<(usize, usize)>();
        (self.bytes.capacity() + lists + long) as u64
    }

    /// Returns whether the batch is full.
    pub fn is_full(&self) -> bool {
        let enough = self.enough[usize::from(!self.lacking.is_empty())];
        self.len() >= self.wanted || self.bytes.len() >= enough || self.long.is_some()
    }

    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.push_parts([key, &[]], value);
    }

    /// As [`ScanBatch::push`], with a key in two parts. Inlined because the call alone would be a
    /// twentieth of a scan's instructions.
    #[inline(always)]
    pub fn push_parts(&mut self, [first, second]: [&[u8]; 2], value: &[u8]) {
        debug_assert!(self.long.is_none(), "a long value is the last of its batch");
        self.bytes.reserve(first.len() + second.len() + value.len());
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(second);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// As [`ScanBatch::push`], but may take the value instead of copying it.
    pub fn push_owned(&mut self, key: &[u8], value: &mut Vec<u8>) {
        if value.len() <= LONG {
            self.push(key, value);
        } else {
            self.push(key, &[]);
            self.long = Some(std::mem::take(value));
        }
    }

    /// As [`ScanBatch::push`], with a value to be loaded before the caller consumes it. Returns
    /// false if the value is too long; shorter values are in a single node.
    pub fn push_apart(&mut self, key: &[u8], pointer: ValuePointer) -> bool {
        let len = pointer.len as usize;
        if len > LONG {
            return false;
        }
        debug_assert!(self.long.is_none(), "a long value is the last of its batch");
        self.bytes.reserve(key.len() + len);
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.resize(key_end + len, 0);
        let record = self.ends.len();
        self.ends.push((key_end, self.bytes.len()));
        self.lacking.push(UnloadedValue { pointer, record });
        true
    }

    /// Takes the list of values to load, in record order.
    pub fn take_lacking(&mut self) -> Vec<UnloadedValue> {
        std::mem::take(&mut self.lacking)
    }

    /// Stores the loaded value of a record.
    ///
    /// # Panics
    /// If the value does not have the length given in its pointer.
    pub fn fill_value(&mut self, apart: &UnloadedValue, value: &[u8]) {
        let (key_end, end) = self.ends[apart.record];
        assert_eq!(
            value.len(),
            end - key_end,
            "a value has the length that its pointer says"
        );
        self.bytes[key_end..end].copy_from_slice(value);
    }

    /// Removes the record whose value cannot be loaded and all later ones. Returns its key.
    pub fn cut(&mut self, apart: &UnloadedValue) -> Vec<u8> {
        assert!(
            apart.record >= self.next,
            "record {} was taken already",
            apart.record
        );
        let key = self.bytes[self.key_of(apart.record)].to_vec();
        self.bytes.truncate(self.key_of(apart.record).start);
        self.ends.truncate(apart.record);
        self.long = None;
        key
    }

    /// Returns the range of a record's key.
    fn key_of(&self, record: usize) -> Range<usize> {
        let before = record.checked_sub(1);
        before.map_or(0, |before| self.ends[before].1)..self.ends[record].0
    }

    /// Returns the last key pushed.
    pub fn last_key(&self) -> Option<&[u8]> {
        let last = self.ends.len().checked_sub(1)?;
        Some(&self.bytes[self.key_of(last)])
    }

    /// Returns the next record, or `None` once all have been returned.
    #[inline]
    pub fn take(&mut self) -> Option<(&[u8], &[u8])> {
        let &(key_end, end) = self.ends.get(self.next)?;
        debug_assert!(
            self.from <= key_end && key_end <= end && end <= self.bytes.len(),
            "records follow each other"
        );
        let key = &self.bytes[self.from..key_end];
        self.next += 1;
        self.from = end;
        let value = match &self.long {
            Some(long) if self.next == self.ends.len() => long,
            _ => &self.bytes[key_end..end],
        };
        Some((key, value))
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_back_what_it_was_given() {
        let mut batch = ScanBatch::default();
        for _ in 0..2 {
            batch.clear();
            assert!(batch.is_over() && batch.last_key().is_none());
            batch.push(b"", b"nothing");
            batch.push_owned(b"short", &mut b"value".to_vec());
            assert_eq!(batch.last_key(), Some(&b"short"[..]));
            for (wanted, is_full) in [(2, true), (3, false), (100, false)] {
                batch.want(wanted);
                assert_eq!(batch.is_full(), is_full, "{wanted} records");
            }
            batch.push_owned(b"long", &mut vec![7; LONG + 1]);
            assert!(batch.is_full());
            assert_eq!(batch.take(), Some((&b""[..], &b"nothing"[..])));
            assert_eq!(batch.take(), Some((&b"short"[..], &b"value"[..])));
            assert_eq!(batch.take(), Some((&b"long"[..], &[7; LONG + 1][..])));
            assert!(batch.is_over() && batch.take().is_none());
        }
    }

    #[test]
    fn values_are_brought_to_their_records() {
        let mut batch = ScanBatch::default();
        batch.want(100);
        batch.push(b"a", b"there");
        assert!(batch.push_apart(b"b", ValuePointer::some(0, 3)));
        batch.push(b"c", b"");
        assert!(batch.push_apart(b"d", ValuePointer::some(0, 4)));
        assert!(!batch.push_apart(b"e", ValuePointer::some(0, LONG + 1)));
        assert_eq!(batch.last_key(), Some(&b"d"[..]));
        let lacking = batch.take_lacking();
        batch.fill_value(&lacking[1], b"Oder");
        batch.fill_value(&lacking[0], b"Inn");
        let expected: [(&[u8], &[u8]); 4] = [(b"a", b"there"), (b"b", b"Inn"), (b"c", b""), (b"d", b"Oder")];
        for pair in expected {
            assert_eq!(batch.take(), Some(pair));
        }
        assert!(batch.take().is_none());
    }

    #[test]
    fn what_cannot_be_brought_ends_a_batch() {
        let mut batch = ScanBatch::default();
        batch.want(100);
        batch.push(b"a", b"there");
        batch.push_apart(b"b", ValuePointer::some(0, 3));
        batch.push_apart(b"c", ValuePointer::some(0, 4));
        batch.push_owned(b"d", &mut vec![7; LONG + 1]);
        let lacking = batch.take_lacking();
        batch.fill_value(&lacking[0], b"Inn");
        assert_eq!(batch.cut(&lacking[1]), b"c");
        assert_eq!((batch.len(), batch.last_key()), (2, Some(&b"b"[..])));
        assert!(!batch.is_full());
        assert_eq!(batch.cut(&lacking[0]), b"b");
        assert_eq!(batch.take(), Some((&b"a"[..], &b"there"[..])));
        assert!(batch.take().is_none());
    }

    #[test]
    fn more_is_decided_at_once_where_values_are_apart() {
        let mut batch = ScanBatch::default();
        batch.want(1000);
        while !batch.is_full() {
            assert!(batch.push_apart(b"key", ValuePointer::some(0, 4096)));
        }
        assert_eq!(batch.len(), ENOUGH_APART.div_ceil(4099));
    }
}
