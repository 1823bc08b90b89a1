//! Records that were read from leaves: one where it is, one by itself, and several in memory that
//! is used again.

use alluvium_base::{Kind, Message, Sequence};
use alluvium_dictionary::nodes::Nodes;
use alluvium_dictionary::values::{ValuePointer, read_from};
use alluvium_storage::Result;
use std::ops::Range;

/// A record, with its key and value where they were read to.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    /// The hash of the key.
    pub hash: u64,
    /// The key.
    pub key: &'r [u8],
    /// When it was committed; 0 where no reader can ask any more.
    pub sequence: Sequence,
    /// What it does.
    pub kind: Kind,
    /// When it expires.
    pub expires_ms: u64,
    /// The value or operand; nothing while it is apart.
    pub operand: &'r [u8],
    /// Where the operand is that is not in memory.
    pub apart: Option<ValuePointer>,
}

impl<'r> Record<'r> {
    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> Message<'r> {
        Message {
            sequence: self.sequence,
            kind: self.kind,
            expires_ms: self.expires_ms,
            operand: self.operand,
        }
    }

    /// Returns the same with memory of its own.
    #[must_use]
    pub fn to_owned(self) -> Owned {
        Owned {
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

/// A record with memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The hash of the key.
    pub hash: u64,
    /// The key.
    pub key: Box<[u8]>,
    /// When it was committed; 0 where no reader can ask any more.
    pub sequence: Sequence,
    /// What it does.
    pub kind: Kind,
    /// When it expires.
    pub expires_ms: u64,
    /// The value or operand; nothing while it is apart.
    pub operand: Box<[u8]>,
    /// Where the operand is that is not in memory.
    pub apart: Option<ValuePointer>,
}

impl Owned {
    /// Brings the operand to memory.
    ///
    /// # Errors
    /// As the device says; damage.
    pub fn load(&mut self, nodes: &dyn Nodes) -> Result<()> {
        if let Some(pointer) = self.apart.take() {
            let mut value = Vec::new();
            read_from(nodes, &pointer, &mut value)?;
            self.operand = value.into();
        }
        Ok(())
    }

    /// Returns the message.
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

/// Bytes that emptied records keep for the next ones; a long value may have taken far more.
const KEPT: usize = 1 << 20;

/// Records one behind the other: a merge reads and writes millions of short ones, each of which
/// would be three allocations by itself.
#[derive(Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    all: Vec<Placed>,
}

/// A record whose key lies at `start`, and its operand behind it.
#[derive(Clone, Copy, Debug)]
struct Placed {
    hash: u64,
    start: usize,
    key_bytes: usize,
    operand_bytes: usize,
    sequence: Sequence,
    kind: Kind,
    expires_ms: u64,
    apart: Option<ValuePointer>,
}

impl Placed {
    fn key<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start..self.start + self.key_bytes]
    }
}

impl Records {
    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.all.clear();
        match self.bytes.capacity() {
            0..=KEPT => self.bytes.clear(),
            _ => self.bytes = Vec::new(),
        }
    }

    /// Adds one behind the others.
    pub fn push(&mut self, record: &Record<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record.key);
        self.bytes.extend_from_slice(record.operand);
        self.all.push(Placed {
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

    /// Returns the one with this number, if there are as many.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<Record<'_>> {
        let placed = self.all.get(number)?;
        let operand = placed.start + placed.key_bytes;
        Some(Record {
            hash: placed.hash,
            key: placed.key(&self.bytes),
            sequence: placed.sequence,
            kind: placed.kind,
            expires_ms: placed.expires_ms,
            operand: &self.bytes[operand..operand + placed.operand_bytes],
            apart: placed.apart,
        })
    }

    /// Returns the hash of the one with this number, if there are as many.
    #[must_use]
    pub fn hash(&self, number: usize) -> Option<u64> {
        self.all.get(number).map(|placed| placed.hash)
    }

    /// Puts them in the order of their keys; those of one key stay as they are.
    pub fn sort_by_key(&mut self) {
        let bytes = &self.bytes;
        self.all
            .sort_by(|one, other| one.key(bytes).cmp(other.key(bytes)));
    }

    /// Returns the messages of these numbers.
    pub fn messages(&self, numbers: Range<usize>) -> impl Iterator<Item = Message<'_>> + Clone {
        numbers.map_while(|number| Some(self.get(number)?.message()))
    }

    /// Returns how far the records of one key go, the first of which has this number.
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

    fn record<'r>(key: &'r [u8], operand: &'r [u8], sequence: Sequence) -> Record<'r> {
        Record {
            hash: 7,
            key,
            sequence,
            kind: Kind::Put,
            expires_ms: 0,
            operand,
            apart: None,
        }
    }

    #[test]
    fn records_come_back_in_the_order_of_keys_and_those_of_one_key_as_they_came() {
        let mut records = Records::default();
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
        let mut records = Records::default();
        records.push(&record(b"short", b"value", 1));
        records.clear();
        assert!(records.bytes.capacity() > 0, "memory is used again");
        records.push(&record(b"long", &vec![0; 2 * KEPT], 1));
        records.clear();
        assert_eq!((records.count(), records.bytes.capacity()), (0, 0));
    }
}
