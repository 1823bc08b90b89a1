//! The output buffer of a scan: key-value pairs that the scan has resolved but the caller has not
//! yet consumed.

use crate::value_log::ValuePointer;
use std::ops::Range;

/// A batch is full once its keys and values reach this many bytes.
/// Tuning: `64 << 10` since 2026-11-22.
const ENOUGH: usize = 64 << 10;
/// Size in bytes at which a batch with unloaded values is full. It is larger than [`ENOUGH`]
/// because all these values are read with a single wait for the device.
/// Tuning: `256 << 10` since 2026-11-24.
const ENOUGH_APART: usize = 256 << 10;
/// A value longer than this many bytes is moved into the batch instead of copied, and ends the
/// batch.
/// Tuning: `16 << 10` since 2026-11-22.
const LONG: usize = 16 << 10;
/// Maximum length, in bytes, of a value that a scan returns when it omits long values.
/// Tuning: `1 << 10` since 2026-11-28.
pub const SHORT: usize = 1 << 10;

/// How a scan treats values longer than [`SHORT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongValues {
    /// Long values are returned in full, like any other value.
    #[default]
    Read,
    /// Long values are replaced by empty values. If a long value is stored outside its leaf, it is
    /// not even read.
    LeftOut,
}

impl LongValues {
    /// Returns `value`, or an empty value if `value` is long and long values are omitted.
    #[inline]
    #[must_use]
    pub fn shown(self, value: &[u8]) -> &[u8] {
        match self {
            LongValues::LeftOut if value.len() > SHORT => &[],
            LongValues::LeftOut | LongValues::Read => value,
        }
    }
}

/// Maximum number of records in a batch when memory is scarce.
/// Tuning: `8` since 2026-11-25.
pub const FEW: usize = 8;
/// Maximum average record size in a batch when memory is scarce, in bytes. A batch limited to `n`
/// records is full at `n` times this many bytes.
/// Tuning: `64` since 2026-11-25.
const LITTLE: usize = 64;
// A batch with unloaded values must not have a smaller byte limit than one without.
const _: () = assert!(ENOUGH <= ENOUGH_APART && LONG <= ENOUGH);

/// A sequence of key-value pairs in the order of the scan that produced them.
#[derive(Debug)]
pub struct ScanBatch {
    bytes: Vec<u8>,
    /// For each record, where its key and its value end in `bytes`. A key starts where the value of
    /// the previous record ends.
    ends: Vec<(usize, usize)>,
    /// The value of the last record if it is longer than [`LONG`], because `bytes` never contains
    /// such a value.
    long: Option<Vec<u8>>,
    /// The values that still have to be loaded, in the order of their records.
    lacking: Vec<UnloadedValue>,
    /// The batch is full once it contains this many records.
    wanted: usize,
    /// Maximum size in bytes: the first limit applies if all values are loaded, and the second if
    /// some are not.
    enough: [usize; 2],
    /// Index of the next record to return, and (`from`) the offset of its key in `bytes`.
    next: usize,
    from: usize,
}

/// A value that is stored outside its leaf and has not been loaded yet. The batch reserves space
/// for it.
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
    /// Removes all records from the batch, but keeps its allocated memory for reuse.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.long = None;
        self.lacking.clear();
        (self.next, self.from) = (0, 0);
    }

    /// Returns the number of records in the batch, including those that the caller has consumed.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the total size of the keys and values in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.long.as_ref().map_or(0, Vec::len)
    }

    /// Returns the number of records that the caller has consumed.
    pub fn taken(&self) -> usize {
        debug_assert!(
            self.next <= self.ends.len(),
            "{} of {} records",
            self.next,
            self.ends.len()
        );
        self.next
    }

    /// Returns whether the caller has consumed all records of the batch.
    pub fn is_over(&self) -> bool {
        self.next == self.ends.len()
    }

    /// Makes the batch full at `records` records, and resets its byte limits to their defaults.
    pub fn want(&mut self, records: usize) {
        self.wanted = records;
        self.enough = [ENOUGH, ENOUGH_APART];
    }

    /// Makes the batch full at about `bytes` bytes of keys and values, or at the default limit if
    /// that is more.
    pub fn want_bytes(&mut self, bytes: usize) {
        self.wanted = usize::MAX;
        self.enough = [bytes.max(ENOUGH), bytes.max(ENOUGH_APART)];
    }

    /// Returns the size in bytes at which the batch is full if it has values to load.
    #[must_use]
    pub fn most_bytes_apart(&self) -> usize {
        self.enough[1]
    }

    /// Limits the batch to `records` records and to a small number of bytes, because memory is
    /// scarce. Frees the batch's memory if it has much more than that. The caller must have called
    /// [`ScanBatch::clear`] immediately before.
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

    /// Returns whether the batch has reached its record limit or byte limit, or ends with a long
    /// value.
    pub fn is_full(&self) -> bool {
        let enough = self.enough[usize::from(!self.lacking.is_empty())];
        self.len() >= self.wanted || self.bytes.len() >= enough || self.long.is_some()
    }

    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.push_parts([key, &[]], value);
    }

    /// Appends a record like [`ScanBatch::push`], but takes the key in two parts and concatenates
    /// them. Always inlined, because the call alone would account for a twentieth of a scan's
    /// instructions.
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

    /// Appends a record like [`ScanBatch::push`], but moves a long value out of `value` instead of
    /// copying it.
    pub fn push_owned(&mut self, key: &[u8], value: &mut Vec<u8>) {
        if value.len() <= LONG {
            self.push(key, value);
        } else {
            self.push(key, &[]);
            self.long = Some(std::mem::take(value));
        }
    }

    /// Appends a record whose value is stored outside its leaf. The value must be loaded before the
    /// caller consumes the record. Returns false and appends nothing if the value is longer than
    /// `LONG`, so that every unloaded value is stored in a single node.
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

    /// Removes and returns the values that must be loaded, in record order.
    pub fn take_lacking(&mut self) -> Vec<UnloadedValue> {
        std::mem::take(&mut self.lacking)
    }

    /// Copies the loaded `value` into its reserved space in the batch.
    ///
    /// # Panics
    /// If the length of the value differs from the length in its pointer.
    pub fn fill_value(&mut self, apart: &UnloadedValue, value: &[u8]) {
        let (key_end, end) = self.ends[apart.record];
        assert_eq!(
            value.len(),
            end - key_end,
            "a value has the length that its pointer says"
        );
        self.bytes[key_end..end].copy_from_slice(value);
    }

    /// Removes a record whose value could not be loaded, and all records after it. Returns the key
    /// of that record.
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

    /// Returns the range in `bytes` that contains the key of a record.
    fn key_of(&self, record: usize) -> Range<usize> {
        let before = record.checked_sub(1);
        before.map_or(0, |before| self.ends[before].1)..self.ends[record].0
    }

    /// Returns the key of the last record in the batch, or `None` if the batch is empty.
    pub fn last_key(&self) -> Option<&[u8]> {
        let last = self.ends.len().checked_sub(1)?;
        Some(&self.bytes[self.key_of(last)])
    }

    /// Consumes the next record and returns its key and value. Returns `None` if all records have
    /// been consumed.
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
