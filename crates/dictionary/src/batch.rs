//! Records that a scan has decided and its caller has not taken yet.

use crate::values::ValuePointer;
use std::ops::Range;

/// Bytes of keys and values after which a batch takes no more.
const ENOUGH: usize = 64 << 10;
/// The same where values are kept apart from their leaves: the more of them are read together, the
/// less each waits for the device.
const ENOUGH_APART: usize = 256 << 10;
/// A value longer than this is moved, not copied, and ends its batch.
const LONG: usize = 16 << 10;
/// The longest value that a walk hands out which leaves out long ones.
pub const SHORT: usize = 1 << 10;

/// What a walk does with values that are longer than [`SHORT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongValues {
    /// It hands them out as any others.
    #[default]
    Read,
    /// It hands out empty ones instead, and does not read those outside leaves.
    LeftOut,
}

impl LongValues {
    /// Returns what a walk hands out for a value.
    #[inline]
    #[must_use]
    pub fn shown(self, value: &[u8]) -> &[u8] {
        match self {
            LongValues::LeftOut if value.len() > SHORT => &[],
            LongValues::LeftOut | LongValues::Read => value,
        }
    }
}

/// The most records that a batch takes where memory is scarce, and bytes after which it takes no
/// more, for each of them.
pub const FEW: usize = 8;
const LITTLE: usize = 64;
// What waits for its value is allowed more bytes than what has it.
const _: () = assert!(ENOUGH <= ENOUGH_APART && LONG <= ENOUGH);

/// Keys with their values, in the order of the scan.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each key ends, and its value, which the next key follows.
    ends: Vec<(usize, usize)>,
    /// The last record's value, where that is long.
    long: Option<Vec<u8>>,
    /// Values that are not there yet, in the order of their records.
    lacking: Vec<Apart>,
    /// How many records are wanted.
    wanted: usize,
    /// After how many bytes it takes no more: with all values there, and where some lack.
    enough: [usize; 2],
    /// The record to be taken next, and where it begins.
    next: usize,
    from: usize,
}

/// A value that is kept apart from its leaf, with reserved space in the batch.
#[derive(Clone, Copy, Debug)]
pub struct Apart {
    /// Where the value is.
    pub pointer: ValuePointer,
    record: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
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

impl Batch {
    /// Forgets everything, but for memory worth keeping.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.long = None;
        self.lacking.clear();
        (self.next, self.from) = (0, 0);
    }

    /// Returns how many records it has.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns how many were taken.
    pub fn taken(&self) -> usize {
        debug_assert!(
            self.next <= self.ends.len(),
            "{} of {} records",
            self.next,
            self.ends.len()
        );
        self.next
    }

    /// Returns whether there is nothing to be taken.
    pub fn is_over(&self) -> bool {
        self.next == self.ends.len()
    }

    /// Sets how many records are wanted from now on.
    pub fn want(&mut self, records: usize) {
        self.wanted = records;
        self.enough = [ENOUGH, ENOUGH_APART];
    }

    /// The same where memory is scarce: what memory it has beyond these few records is given back.
    /// To be called after [`Batch::clear`].
    #[cold]
    pub fn want_little(&mut self, records: usize) {
        let enough = LITTLE * records;
        if self.bytes.capacity() > 2 * enough || self.ends.capacity() > records {
            *self = Batch::default();
        }
        self.ends.reserve_exact(records);
        self.wanted = records;
        self.enough = [enough; 2];
    }

    /// Returns how many bytes of memory it takes.
    pub fn memory_bytes(&self) -> u64 {
        let long = self.long.as_ref().map_or(0, Vec::capacity);
        let lists = self.ends.capacity() * size_of::<(usize, usize)>();
        (self.bytes.capacity() + lists + long) as u64
    }

    /// Returns whether it takes no more.
    pub fn is_full(&self) -> bool {
        let enough = self.enough[usize::from(!self.lacking.is_empty())];
        self.len() >= self.wanted || self.bytes.len() >= enough || self.long.is_some()
    }

    #[inline]
    /// Adds a record.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.push_parts([key, &[]], value);
    }

    /// The same with a key in two parts. A call of its own is a twentieth of a scan's instructions.
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

    /// The same with a value that may be moved away.
    pub fn push_owned(&mut self, key: &[u8], value: &mut Vec<u8>) {
        if value.len() <= LONG {
            self.push(key, value);
        } else {
            self.push(key, &[]);
            self.long = Some(std::mem::take(value));
        }
    }

    /// The same with a value that is to be read before the caller takes it; false if it is too long
    /// for that. A value that is not lies in one node.
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
        self.lacking.push(Apart { pointer, record });
        true
    }

    /// Returns what is to be brought, in the order of the records.
    pub fn take_lacking(&mut self) -> Vec<Apart> {
        std::mem::take(&mut self.lacking)
    }

    /// Stores the value of a record that was kept apart.
    ///
    /// # Panics
    /// If the value is not as long as its pointer said.
    pub fn bring(&mut self, apart: &Apart, value: &[u8]) {
        let (key_end, end) = self.ends[apart.record];
        assert_eq!(
            value.len(),
            end - key_end,
            "a value has the length that its pointer says"
        );
        self.bytes[key_end..end].copy_from_slice(value);
    }

    /// Forgets the record whose value cannot be brought, and those behind it; its key.
    pub fn cut(&mut self, apart: &Apart) -> Vec<u8> {
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

    /// Returns where a record's key is.
    fn key_of(&self, record: usize) -> Range<usize> {
        let before = record.checked_sub(1);
        before.map_or(0, |before| self.ends[before].1)..self.ends[record].0
    }

    /// Returns the key that was pushed last.
    pub fn last_key(&self) -> Option<&[u8]> {
        let last = self.ends.len().checked_sub(1)?;
        Some(&self.bytes[self.key_of(last)])
    }

    /// Returns the next record.
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
        let mut batch = Batch::default();
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
        let mut batch = Batch::default();
        batch.want(100);
        batch.push(b"a", b"there");
        assert!(batch.push_apart(b"b", ValuePointer::some(0, 3)));
        batch.push(b"c", b"");
        assert!(batch.push_apart(b"d", ValuePointer::some(0, 4)));
        assert!(!batch.push_apart(b"e", ValuePointer::some(0, LONG + 1)));
        assert_eq!(batch.last_key(), Some(&b"d"[..]));
        let lacking = batch.take_lacking();
        batch.bring(&lacking[1], b"Oder");
        batch.bring(&lacking[0], b"Inn");
        let expected: [(&[u8], &[u8]); 4] = [(b"a", b"there"), (b"b", b"Inn"), (b"c", b""), (b"d", b"Oder")];
        for pair in expected {
            assert_eq!(batch.take(), Some(pair));
        }
        assert!(batch.take().is_none());
    }

    #[test]
    fn what_cannot_be_brought_ends_a_batch() {
        let mut batch = Batch::default();
        batch.want(100);
        batch.push(b"a", b"there");
        batch.push_apart(b"b", ValuePointer::some(0, 3));
        batch.push_apart(b"c", ValuePointer::some(0, 4));
        batch.push_owned(b"d", &mut vec![7; LONG + 1]);
        let lacking = batch.take_lacking();
        batch.bring(&lacking[0], b"Inn");
        assert_eq!(batch.cut(&lacking[1]), b"c");
        assert_eq!((batch.len(), batch.last_key()), (2, Some(&b"b"[..])));
        assert!(!batch.is_full());
        assert_eq!(batch.cut(&lacking[0]), b"b");
        assert_eq!(batch.take(), Some((&b"a"[..], &b"there"[..])));
        assert!(batch.take().is_none());
    }

    #[test]
    fn more_is_decided_at_once_where_values_are_apart() {
        let mut batch = Batch::default();
        batch.want(1000);
        while !batch.is_full() {
            assert!(batch.push_apart(b"key", ValuePointer::some(0, 4096)));
        }
        assert_eq!(batch.len(), ENOUGH_APART.div_ceil(4099));
    }
}
