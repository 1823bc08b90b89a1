//! On-disk encoding of a leaf, version 1. A leaf is a page of records in hash order. All integers
//! are little-endian. A *varint* is LEB128 of at most 10 bytes.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     2  records
//!      2     2  zero
//!      4     4  the first byte behind the last record
//!      8        records, each:
//!                 head (1): bits 0 and 1 the kind, bit 2 the value is apart, bit 3 a sequence
//!                   number follows, bit 4 an expiry follows, bit 5 the key is that of the record
//!                   before, bit 6 the key is apart, bit 7 an earlier run of its level has a key
//!                   with the same prefix
//!                 with bit 7: the number of that run in its level (1)
//!                 the key, unless bit 5: length (varint), bytes; apart: its hash (8), pointer (40)
//!                 with bit 3: sequence number less that of the run (varint)
//!                 with bit 4: expiry in milliseconds (varint)
//!                 the value: length (varint), bytes; apart: pointer (40)
//!      …        zeros
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::{MessageKind, SequenceNumber};
use alluvium_dictionary::record::{RecordValue, StoredRecord};
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::{DiskLocation, Error, PageSize, Result};

/// Size of the header before the first record, in bytes.
pub const HEADER_BYTES: usize = 8;

const KIND: u8 = 3;
const VALUE_APART: u8 = 1 << 2;
const HAS_SEQUENCE: u8 = 1 << 3;
const HAS_EXPIRY: u8 = 1 << 4;
const SAME_KEY: u8 = 1 << 5;
const KEY_APART: u8 = 1 << 6;
const HAS_PREVIOUS: u8 = 1 << 7;

/// A key in the leaf, or a pointer to a key stored elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAt<'l> {
    /// The key, which is stored in the leaf.
    Here(&'l [u8]),
    /// A key that is too long for the leaf: its hash, and a pointer to its bytes.
    Apart { hash: u64, pointer: ValuePointer },
}

/// A decoded record of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashLeafEntry<'l> {
    pub key: KeyAt<'l>,
    /// Whether the record has the same key as the previous record in the leaf.
    pub is_same_key: bool,
    /// The newest earlier run of the level that contains a key with the same prefix, or `None` if
    /// there is none.
    pub previous: Option<u8>,
    /// The message, with a sequence number relative to the run's base.
    pub record: StoredRecord<'l>,
}

/// A key to be written: the previous key again, an inline key, or a key stored separately.
#[derive(Clone, Copy, Debug)]
pub enum KeyPart<'k> {
    /// The same key as in the previous record.
    Same,
    Here(&'k [u8]),
    /// A key that is stored separately, represented by its hash. The caller fills in the pointer
    /// later.
    Apart(u64),
}

/// A value to be written: inline or stored separately.
#[derive(Clone, Copy, Debug)]
pub enum ValuePart<'v> {
    Here(&'v [u8]),
    /// A value that is stored separately. The caller fills in the pointer later.
    Apart,
}

/// Offsets of the pointers in a leaf that the caller must fill in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointerOffsets {
    /// Offset of the key's pointer, or `None` if the key is not stored separately.
    pub key: Option<usize>,
    /// Offset of the value's pointer, or `None` if the value is inline.
    pub value: Option<usize>,
}

#[derive(Debug, Default)]
pub struct HashLeafBuilder {
    bytes: Vec<u8>,
    records: u16,
}

impl HashLeafBuilder {
    /// Returns whether there are no records yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Appends a record unless the leaf would exceed `most` bytes. Returns the offsets of the
    /// pointers to fill in, or `None` if the record does not fit.
    pub fn push(
        &mut self,
        key: KeyPart<'_>,
        previous: Option<u8>,
        (sequence, kind, expires_ms): (SequenceNumber, MessageKind, u64),
        value: ValuePart<'_>,
        most: usize,
    ) -> Option<PointerOffsets> {
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER_BYTES, 0);
        }
        let before = self.bytes.len();
        let mut gaps = PointerOffsets::default();
        // All records of a key name the same previous run, so only the first of them stores it.
        let previous = previous.filter(|_| !matches!(key, KeyPart::Same));
        let mut head = kind as u8;
        for (is_set, bit) in [
            (matches!(value, ValuePart::Apart), VALUE_APART),
            (sequence != 0, HAS_SEQUENCE),
            (expires_ms != 0, HAS_EXPIRY),
            (matches!(key, KeyPart::Same), SAME_KEY),
            (matches!(key, KeyPart::Apart(_)), KEY_APART),
            (previous.is_some(), HAS_PREVIOUS),
        ] {
            head |= if is_set { bit } else { 0 };
        }
        let mut out = ByteWriter::new(&mut self.bytes);
        out.u8(head);
        if let Some(previous) = previous {
            out.u8(previous);
        }
        match key {
            KeyPart::Same => {}
            KeyPart::Here(key) => {
                out.varint(key.len() as u64).bytes(key);
            }
            KeyPart::Apart(hash) => {
                out.u64(hash).bytes(&[0; ValuePointer::BYTES]);
                gaps.key = Some(self.bytes.len() - ValuePointer::BYTES);
            }
        }
        let mut out = ByteWriter::new(&mut self.bytes);
        if sequence != 0 {
            out.varint(sequence);
        }
        if expires_ms != 0 {
            out.varint(expires_ms);
        }
        match value {
            ValuePart::Here(value) => {
                out.varint(value.len() as u64).bytes(value);
            }
            ValuePart::Apart => {
                out.bytes(&[0; ValuePointer::BYTES]);
                gaps.value = Some(self.bytes.len() - ValuePointer::BYTES);
            }
        }
        if self.bytes.len() > most || self.records == u16::MAX {
            self.bytes.truncate(before);
            return None;
        }
        self.records += 1;
        Some(gaps)
    }

    pub fn fill(&mut self, at: usize, pointer: &ValuePointer) {
        let mut bytes = Vec::with_capacity(ValuePointer::BYTES);
        pointer.encode(&mut bytes);
        let gap = self.bytes.get_mut(at..at + ValuePointer::BYTES);
        gap.expect("the gap of a record").copy_from_slice(&bytes);
    }

    /// Returns the complete page and leaves the builder empty for the next one.
    pub fn finish(&mut self, page_size: PageSize) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEADER_BYTES);
        ByteWriter::new(&mut head)
            .u16(self.records)
            .u16(0)
            .u32(self.bytes.len() as u32);
        let mut page = std::mem::take(&mut self.bytes);
        let header = page.first_chunk_mut::<HEADER_BYTES>();
        header.expect("a leaf has a header").copy_from_slice(&head);
        page.resize(page_size.bytes(), 0);
        self.records = 0;
        page
    }
}

/// Iterator that decodes the records of a leaf.
#[derive(Clone, Debug)]
pub struct LeafEntryIter<'l> {
    reader: ByteReader<'l>,
    left: u16,
    last: Option<(KeyAt<'l>, Option<u8>)>,
    page_size: PageSize,
}

impl<'l> LeafEntryIter<'l> {
    /// Decodes the header of a leaf.
    ///
    /// # Errors
    /// [`Error::Corrupt`], with the location `place`, if the header is invalid.
    pub fn open(
        leaf: &'l [u8],
        place: impl Fn() -> DiskLocation,
        page_size: PageSize,
    ) -> Result<LeafEntryIter<'l>> {
        let bad = |found: String| Error::corrupt(place(), "a leaf of records by hash", found);
        let mut reader = ByteReader::new(leaf);
        let mut read = || -> std::result::Result<_, TruncatedInput> {
            Ok((reader.u16()?, reader.u16()?, reader.u32()? as usize))
        };
        let (records, zero, end) = read().map_err(|cut| bad(cut.to_string()))?;
        match leaf.get(HEADER_BYTES..end) {
            Some(bytes) if zero == 0 => Ok(LeafEntryIter {
                reader: ByteReader::new(bytes),
                left: records,
                last: None,
                page_size,
            }),
            _ => Err(bad(format!("{records} records up to byte {end}, {zero}"))),
        }
    }

    /// Decodes the next record, or returns `None` after the last one.
    ///
    /// # Errors
    /// [`Error::Corrupt`], with the location `place`, if the record is invalid.
    #[inline]
    pub fn next(&mut self, place: impl Fn() -> DiskLocation) -> Result<Option<HashLeafEntry<'l>>> {
        if self.left == 0 {
            let left = self.reader.remaining();
            let found = || format!("{left} bytes after the last record");
            return match left {
                0 => Ok(None),
                _ => Err(Error::corrupt(place(), "a leaf of records by hash", found())),
            };
        }
        self.left -= 1;
        match self.read(&place) {
            Ok(Some(entry)) => Ok(Some(entry)),
            Ok(None) => Err(self.broken(&place, "a record that cannot be")),
            Err(LeafEntryError::Cut(cut)) => Err(self.broken(&place, &cut.to_string())),
            Err(LeafEntryError::Pointer(error)) => Err(*error),
        }
    }

    #[cold]
    fn broken(&self, place: impl Fn() -> DiskLocation, found: &str) -> Error {
        let found = format!("{found} before byte {}", HEADER_BYTES + self.reader.position());
        Error::corrupt(place(), "a leaf of records by hash", found)
    }

    #[inline]
    fn read(
        &mut self,
        place: &impl Fn() -> DiskLocation,
    ) -> std::result::Result<Option<HashLeafEntry<'l>>, LeafEntryError> {
        let page_size = self.page_size;
        let reader = &mut self.reader;
        let pointer = |reader: &mut ByteReader<'l>| {
            let bytes = reader.take(ValuePointer::BYTES)?;
            ValuePointer::decode(bytes, &place(), page_size)
                .map_err(|error| LeafEntryError::Pointer(Box::new(error)))
        };
        let head = reader.u8()?;
        let has = |bit: u8| head & bit != 0;
        let Ok(kind) = MessageKind::try_from(head & KIND) else {
            return Ok(None);
        };
        if has(SAME_KEY) && (has(KEY_APART) || has(HAS_PREVIOUS)) {
            return Ok(None);
        }
        let mut previous = match has(HAS_PREVIOUS) {
            true => Some(reader.u8()?),
            false => None,
        };
        let key = match (has(SAME_KEY), has(KEY_APART)) {
            (true, _) => match self.last {
                Some((last, known)) => {
                    previous = known;
                    last
                }
                None => return Ok(None),
            },
            (false, true) => KeyAt::Apart {
                hash: reader.u64()?,
                pointer: pointer(reader)?,
            },
            (false, false) => KeyAt::Here(part(reader)?),
        };
        let sequence = if has(HAS_SEQUENCE) { reader.varint()? } else { 0 };
        let expires_ms = if has(HAS_EXPIRY) { reader.varint()? } else { 0 };
        let value = match has(VALUE_APART) {
            true => RecordValue::Separate(pointer(reader)?),
            false => RecordValue::Inline(part(reader)?),
        };
        self.last = Some((key, previous));
        Ok(Some(HashLeafEntry {
            key,
            is_same_key: has(SAME_KEY),
            previous,
            record: StoredRecord {
                sequence,
                kind,
                expires_ms,
                value,
            },
        }))
    }
}

/// Why a record is invalid.
enum LeafEntryError {
    Cut(TruncatedInput),
    Pointer(Box<Error>),
}

impl From<TruncatedInput> for LeafEntryError {
    fn from(cut: TruncatedInput) -> LeafEntryError {
        LeafEntryError::Cut(cut)
    }
}

#[inline]
fn part<'l>(reader: &mut ByteReader<'l>) -> std::result::Result<&'l [u8], TruncatedInput> {
    let len = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    reader.take(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::{NodeCodec, NodePointer, OnDiskObject};

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "a leaf", 0)
    }

    fn pointer() -> ValuePointer {
        let node = NodePointer {
            offset: 8192,
            birth: 3,
            checksum: 5,
            encoded_len: 4096,
            tier: 0,
            pages: 1,
            codec: NodeCodec::None,
        };
        ValuePointer {
            node,
            at: 96,
            len: 4000,
        }
    }

    fn example() -> Vec<u8> {
        let mut draft = HashLeafBuilder::default();
        let most = PageSize::MIN.bytes();
        let put = (0, MessageKind::Put, 0);
        draft
            .push(KeyPart::Here(b"Elbe"), None, put, ValuePart::Here(b"1094"), most)
            .unwrap();
        draft
            .push(
                KeyPart::Same,
                None,
                (300, MessageKind::Merge, 5),
                ValuePart::Here(b""),
                most,
            )
            .unwrap();
        let gaps = draft
            .push(
                KeyPart::Apart(7),
                None,
                (1, MessageKind::Put, 0),
                ValuePart::Apart,
                most,
            )
            .unwrap();
        draft.fill(gaps.key.unwrap(), &pointer());
        draft.fill(gaps.value.unwrap(), &pointer());
        for (key, value) in [(KeyPart::Here(b"Oder"), b"866"), (KeyPart::Same, b"865")] {
            draft
                .push(key, Some(6), put, ValuePart::Here(value), most)
                .unwrap();
        }
        draft.finish(PageSize::MIN)
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let leaf = example();
        let mut expected =
            b"\x05\0\0\0\x82\0\0\0\0\x04Elbe\x041094\x3a\xac\x02\x05\0\x4c\x07\0\0\0\0\0\0\0".to_vec();
        pointer().encode(&mut expected);
        expected.push(1);
        pointer().encode(&mut expected);
        assert_eq!(expected.len(), 0x72);
        expected.extend(b"\x80\x06\x04Oder\x03866\x20\x03865");
        assert_eq!(leaf[..expected.len()], expected);
        assert_eq!(expected.len(), 0x82);
        assert!(leaf[expected.len()..].iter().all(|&byte| byte == 0));
        let mut entries = LeafEntryIter::open(&leaf, place, PageSize::MIN).unwrap();
        let first = entries.next(place).unwrap().unwrap();
        assert_eq!((first.key, first.is_same_key), (KeyAt::Here(b"Elbe"), false));
        assert_eq!(first.record.value, RecordValue::Inline(b"1094"));
        let second = entries.next(place).unwrap().unwrap();
        assert_eq!((second.key, second.is_same_key), (KeyAt::Here(b"Elbe"), true));
        let record = second.record;
        assert_eq!(
            (record.sequence, record.kind, record.expires_ms),
            (300, MessageKind::Merge, 5)
        );
        let third = entries.next(place).unwrap().unwrap();
        assert_eq!(third.key.hash(0), 7);
        assert_eq!(third.record.value, RecordValue::Separate(pointer()));
        for is_same_key in [false, true] {
            let entry = entries.next(place).unwrap().unwrap();
            assert_eq!(
                (entry.key, entry.is_same_key),
                (KeyAt::Here(b"Oder"), is_same_key)
            );
            assert_eq!((third.previous, entry.previous), (None, Some(6)));
        }
        assert_eq!(entries.next(place).unwrap(), None);
    }

    #[test]
    fn no_change_of_a_byte_makes_a_leaf_panic_and_a_shorter_one_is_refused() {
        let leaf = example();
        let read = |leaf: &[u8]| -> Result<usize> {
            let mut entries = LeafEntryIter::open(leaf, place, PageSize::MIN)?;
            let mut count = 0;
            while entries.next(place)?.is_some() {
                count += 1;
            }
            Ok(count)
        };
        assert_eq!(read(&leaf).unwrap(), 5);
        for len in 0..0x82 {
            assert!(read(&leaf[..len]).is_err(), "{len} bytes");
        }
        for at in 0..0x82 {
            for byte in 0..=255 {
                let mut damaged = leaf.clone();
                damaged[at] = byte;
                let _ = read(&damaged);
            }
        }
        let with = |at: usize, byte: u8| {
            let mut damaged = leaf.clone();
            damaged[at] = byte;
            read(&damaged).is_err()
        };
        assert!(with(8, 0x20), "the key before the first");
        assert!(with(0x7d, 0xa0), "the run before, said again");
        assert!(with(0, 4), "bytes behind the last record");
        assert!(with(2, 1), "not zero");
    }
}
