//! Records read from leaves, in three forms: borrowed, owned, and many in one reusable buffer.

use alluvium_base::{Message, MessageKind, SequenceNumber};
use alluvium_dictionary::nodes::NodeReader;
use alluvium_dictionary::value_log::{ValuePointer, read_from};
use alluvium_storage::Result;
use std::ops::Range;

/// A record that borrows its key and its value.
#[derive(Clone, Copy, Debug)]
pub struct HashRecord<'r> {
    /// The hash of the key.
    pub hash: u64,
    pub key: &'r [u8],
    /// Commit sequence number, or 0 if it was dropped because no reader can see an older version.
    pub sequence: SequenceNumber,
    pub kind: MessageKind,
    /// Expiry time in milliseconds, or 0 if the record never expires.
    pub expires_ms: u64,
    /// The value or operand. Empty if it is stored separately and has not been loaded.
    pub operand: &'r [u8],
    /// Pointer to the operand if it is stored separately and has not been loaded.
    pub apart: Option<ValuePointer>,
}

impl<'r> HashRecord<'r> {
    #[must_use]
    pub fn message(&self) -> Message<'r> {
        Message {
            sequence: self.sequence,
            kind: self.kind,
            expires_ms: self.expires_ms,
            operand: self.operand,
        }
    }

    #[must_use]
    pub fn to_owned(self) -> OwnedHashRecord {
        OwnedHashRecord {
            hash: self.hash,
            key: self.key.into(),
            sequence: self.sequence,
            kind: self.kind,
            expires_ms: self.expires_ms,
            operand: self.operand.into(),
            apart: self.apart,
        }
    }
}

/// A record that owns its key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedHashRecord {
    /// The hash of the key.
    pub hash: u64,
    pub key: Box<[u8]>,
    /// Commit sequence number, or 0 if it was dropped because no reader can see an older version.
    pub sequence: SequenceNumber,
    pub kind: MessageKind,
    /// Expiry time in milliseconds, or 0 if the record never expires.
    pub expires_ms: u64,
    /// The value or operand. Empty if it is stored separately and has not been loaded.
    pub operand: Box<[u8]>,
    /// Pointer to the operand if it is stored separately and has not been loaded.
    pub apart: Option<ValuePointer>,
}

impl OwnedHashRecord {
    /// Loads the operand if it is stored separately and has not been loaded yet.
    ///
    /// # Errors
    /// I/O errors; damaged data.
    pub fn load(&mut self, nodes: &dyn NodeReader) -> Result<()> {
        if let Some(pointer) = self.apart.take() {
            let mut value = Vec::new();
            read_from(nodes, &pointer, &mut value)?;
            self.operand = value.into();
        }
        Ok(())
    }

    #[must_use]
    pub fn message(&self) -> Message<'_> {
        Message {
            sequence: self.sequence,
            kind: self.kind,
            expires_ms: self.expires_ms,
            operand: &self.operand,
        }
    }
}

/// Maximum capacity in bytes that [`HashRecordBuffer::clear`] retains. A long value may have grown
/// the buffer beyond it.
const KEPT: usize = 1 << 20;

/// Records whose keys and operands share one contiguous buffer. A merge processes millions of short
/// records, which would otherwise take three allocations each.
#[derive(Debug, Default)]
pub struct HashRecordBuffer {
    bytes: Vec<u8>,
    all: Vec<BufferedRecord>,
}

/// A record in the buffer. Its key starts at offset `start`, followed by its operand.
#[derive(Clone, Copy, Debug)]
struct BufferedRecord {
    hash: u64,
    start: usize,
    key_bytes: usize,
    operand_bytes: usize,
    sequence: SequenceNumber,
    kind: MessageKind,
    expires_ms: u64,
    apart: Option<ValuePointer>,
}

impl BufferedRecord {
    fn key<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start..self.start + self.key_bytes]
    }
}

impl HashRecordBuffer {
    /// Returns the number of records in the buffer.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Removes all records, and frees the memory if the buffer has grown beyond 1 MiB.
    pub fn clear(&mut self) {
        self.all.clear();
        match self.bytes.capacity() {
            0..=KEPT => self.bytes.clear(),
            _ => self.bytes = Vec::new(),
        }
    }

    pub fn push(&mut self, record: &HashRecord<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record.key);
        self.bytes.extend_from_slice(record.operand);
        self.all.push(BufferedRecord {
            hash: record.hash,
            start,
            key_bytes: record.key.len(),
            operand_bytes: record.operand.len(),
            sequence: record.sequence,
            kind: record.kind,
            expires_ms: record.expires_ms,
            apart: record.apart,
        });
    }

    /// Returns the record at an index, or `None` if there is none.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<HashRecord<'_>> {
        let placed = self.all.get(number)?;
        let operand = placed.start + placed.key_bytes;
        Some(HashRecord {
            hash: placed.hash,
            key: placed.key(&self.bytes),
            sequence: placed.sequence,
            kind: placed.kind,
            expires_ms: placed.expires_ms,
            operand: &self.bytes[operand..operand + placed.operand_bytes],
            apart: placed.apart,
        })
    }

    /// Returns the hash of the record at an index, or `None` if there is none.
    #[must_use]
    pub fn hash(&self, number: usize) -> Option<u64> {
        self.all.get(number).map(|placed| placed.hash)
    }

    /// Sorts the records by key. The order of records with the same key does not change.
    pub fn sort_by_key(&mut self) {
        let bytes = &self.bytes;
        self.all
            .sort_by(|one, other| one.key(bytes).cmp(other.key(bytes)));
    }

    /// Returns the messages of the records at the given indexes.
    pub fn messages(&self, numbers: Range<usize>) -> impl Iterator<Item = Message<'_>> + Clone {
        numbers.map_while(|number| Some(self.get(number)?.message()))
    }

    /// Returns the end of the sequence of records that starts at index `first` and shares its key.
    #[must_use]
    pub fn end_of_key(&self, first: usize) -> usize {
        let rest = &self.all[first..];
        let key = rest.first().map(|placed| placed.key(&self.bytes));
        let others = rest.iter().position(|other| Some(other.key(&self.bytes)) != key);
        first + others.unwrap_or(rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record<'r>(key: &'r [u8], operand: &'r [u8], sequence: SequenceNumber) -> HashRecord<'r> {
        HashRecord {
            hash: 7,
            key,
            sequence,
            kind: MessageKind::Put,
            expires_ms: 0,
            operand,
            apart: None,
        }
    }

    #[test]
    fn records_come_back_in_the_order_of_keys_and_those_of_one_key_as_they_came() {
        let mut records = HashRecordBuffer::default();
        for (key, sequence) in [(b"b", 9), (b"a", 8), (b"b", 7), (b"c", 6), (b"a", 5)] {
            records.push(&record(key, &[sequence as u8; 3], sequence));
        }
        records.sort_by_key();
        let all = (0..records.count()).filter_map(|number| records.get(number));
        let all: Vec<_> = all.map(|record| (record.key[0], record.sequence)).collect();
        assert_eq!(all, [(b'a', 8), (b'a', 5), (b'b', 9), (b'b', 7), (b'c', 6)]);
        let ends: Vec<usize> = (0..5).map(|first| records.end_of_key(first)).collect();
        assert_eq!(ends, [2, 2, 4, 4, 5]);
        assert_eq!(records.get(2).unwrap().to_owned().message().operand, [9; 3]);
        assert_eq!(
            records.messages(1..3).map(|message| message.sequence).max(),
            Some(9)
        );
        assert!(records.get(5).is_none() && records.hash(5).is_none());
    }

    #[test]
    fn a_long_value_is_not_kept_for_good() {
        let mut records = HashRecordBuffer::default();
        records.push(&record(b"short", b"value", 1));
        records.clear();
        assert!(records.bytes.capacity() > 0, "memory is used again");
        records.push(&record(b"long", &vec![0; 2 * KEPT], 1));
        records.clear();
        assert_eq!((records.count(), records.bytes.capacity()), (0, 0));
    }
}
