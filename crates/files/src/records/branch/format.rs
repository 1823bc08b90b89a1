//! The encoding of branches, format version 1.
//!
//! All branches of a file system NAME stand in the keyspace `files.NAME.branches` (append), which
//! the first branch creates. B is the number of a branch, S a keyspace of the file system, L a
//! length (2 bytes). Integers in keys are big-endian.
//!
//! ```text
//! KEY                                 VALUE
//! 'b', name of the branch             the header
//! 'n'                                 the first number not handed out (8 bytes)
//! 'r', B, S (1 byte), key             what the branch has of this record
//! 'd', B, S, L of low, low, high      nothing: the branch depends on the records from low to
//!                                     before high, or to the end if high is empty
//! ```
//!
//! S is 1 names, 2 inodes, 3 blocks, 4 counts, 5 times, 6 attributes, 7 system. Values have
//! little-endian integers. The header:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     2  version
//!      2     8  number of the branch
//!     10     8  number of the branch of which it is a branch, or 0
//!     18    12  when it began: seconds since 1970 (8 bytes, signed), nanoseconds (4 bytes)
//! ```
//!
//! What a branch has of a record begins with one byte:
//!
//! ```text
//! FIRST BYTE  MEANING                                                   REST
//!          0  the branch has deleted it                                 -
//!          1  the branch has written it                                 the value
//!          2  the branch has merged into it                             all operands as one
//!          3  the branch depends on it and has not changed it           -
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::records::RecordSpace;
use crate::records::format::DamagedRecord;
use crate::types::Timestamp;
use alluvium_base::bytes::{ByteReader, ByteWriter};

/// The version of this encoding.
pub(crate) const VERSION: u16 = 1;

/// The number of a branch, which is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BranchNumber(pub(crate) u64);

/// What is stored about a branch as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BranchHeader {
    pub(crate) version: u16,
    pub(crate) number: BranchNumber,
    pub(crate) parent: Option<BranchNumber>,
    pub(crate) created: Timestamp,
}

/// What a branch has done to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BranchRecordKind {
    Deleted,
    Written,
    Merged,
    Depended,
}

/// Bytes before the value in the encoding of what a branch has of a record.
pub(crate) const MARK_BYTES: usize = 1;

pub(crate) const HEADERS: &[u8] = b"b";
pub(crate) const HEADERS_END: &[u8] = b"c";
pub(crate) const NEXT_KEY: &[u8] = b"n";
const RECORD: u8 = b'r';
const RANGE: u8 = b'd';

type Decoded<T> = Result<T, DamagedRecord>;

impl BranchHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        ByteWriter::new(&mut out)
            .u16(self.version)
            .u64(self.number.0)
            .u64(self.parent.map_or(0, |parent| parent.0))
            .u64(self.created.seconds.cast_unsigned())
            .u32(self.created.nanoseconds);
        out
    }

    /// Decodes a header. Of a newer version, only the version is meaningful.
    pub(crate) fn decode(bytes: &[u8]) -> Decoded<BranchHeader> {
        let mut reader = ByteReader::new(bytes);
        let version = reader.u16()?;
        if version > VERSION {
            return Ok(BranchHeader {
                version,
                number: BranchNumber(0),
                parent: None,
                created: Timestamp::default(),
            });
        }
        let (number, parent) = (reader.u64()?, reader.u64()?);
        if number == 0 || number == parent {
            return Err(DamagedRecord {
                what: "has an impossible number of a branch",
            });
        }
        Ok(BranchHeader {
            version,
            number: BranchNumber(number),
            parent: Some(BranchNumber(parent)).filter(|parent| parent.0 != 0),
            created: Timestamp {
                seconds: reader.u64()?.cast_signed(),
                nanoseconds: reader.u32()?,
            },
        })
    }
}

fn space_number(space: RecordSpace) -> u8 {
    match space {
        RecordSpace::Names => 1,
        RecordSpace::Inodes => 2,
        RecordSpace::Blocks => 3,
        RecordSpace::Counts => 4,
        RecordSpace::Times => 5,
        RecordSpace::Extended => 6,
        RecordSpace::System => 7,
        RecordSpace::Compressed => 8,
    }
}

fn space_of(number: u8) -> Decoded<RecordSpace> {
    let found = RecordSpace::ALL
        .into_iter()
        .find(|&space| space_number(space) == number);
    found.ok_or(DamagedRecord {
        what: "is of an unknown keyspace",
    })
}

/// Returns the key of the header of a branch.
pub(crate) fn header_key(name: &str) -> Vec<u8> {
    [HEADERS, name.as_bytes()].concat()
}

fn numbered(letter: u8, number: BranchNumber) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    key.push(letter);
    key.extend_from_slice(&number.0.to_be_bytes());
    key
}

/// Returns the key of what a branch has of a record.
pub(crate) fn record_key(number: BranchNumber, space: RecordSpace, key: &[u8]) -> Vec<u8> {
    let mut out = numbered(RECORD, number);
    out.push(space_number(space));
    out.extend_from_slice(key);
    out
}

/// Returns the key after those of what a branch has of a keyspace.
pub(crate) fn records_end(number: BranchNumber, space: RecordSpace) -> Vec<u8> {
    let mut out = numbered(RECORD, number);
    out.push(space_number(space) + 1);
    out
}

/// Returns the bounds of what a branch has of all records.
pub(crate) fn all_records(number: BranchNumber) -> (Vec<u8>, Vec<u8>) {
    let end = BranchNumber(number.0.saturating_add(1));
    (numbered(RECORD, number), numbered(RECORD, end))
}

/// Returns the bounds of the ranges on which a branch depends.
pub(crate) fn all_ranges(number: BranchNumber) -> (Vec<u8>, Vec<u8>) {
    let end = BranchNumber(number.0.saturating_add(1));
    (numbered(RANGE, number), numbered(RANGE, end))
}

/// Returns the keyspace and the key of a record of which a branch has something.
pub(crate) fn split_record_key(key: &[u8]) -> Decoded<(RecordSpace, &[u8])> {
    let short = DamagedRecord {
        what: "has a short key",
    };
    let rest = key.get(9..).ok_or(short)?;
    let (space, key) = rest.split_first().ok_or(short)?;
    Ok((space_of(*space)?, key))
}

/// Returns the number in a key of a record or a range.
pub(crate) fn number_in(key: &[u8]) -> Decoded<BranchNumber> {
    let bytes = key.get(1..9).and_then(|bytes| bytes.try_into().ok());
    let bytes = bytes.ok_or(DamagedRecord {
        what: "has a short key",
    })?;
    Ok(BranchNumber(u64::from_be_bytes(bytes)))
}

/// Returns whether keys with this first byte are those of records and ranges of branches.
pub(crate) fn is_of_branch(letter: u8) -> bool {
    letter == RECORD || letter == RANGE
}

/// Decodes a record or a range of a branch, and returns only whether it could be decoded.
pub(crate) fn decode_any(key: &[u8], value: &[u8]) -> Decoded<()> {
    if key.first() == Some(&RANGE) {
        return split_range_key(key).map(drop);
    }
    split_record_key(key)?;
    decode_kind(value).map(drop)
}

/// Returns the key of a range on which a branch depends.
pub(crate) fn range_key(
    number: BranchNumber,
    space: RecordSpace,
    low: &[u8],
    high: Option<&[u8]>,
) -> Vec<u8> {
    let mut out = numbered(RANGE, number);
    out.push(space_number(space));
    out.extend_from_slice(&(low.len() as u16).to_be_bytes());
    out.extend_from_slice(low);
    out.extend_from_slice(high.unwrap_or_default());
    out
}

/// A range of records: keyspace, low and high.
pub(crate) type DependedRange<'k> = (RecordSpace, &'k [u8], Option<&'k [u8]>);

/// Decodes the key of a range on which a branch depends.
pub(crate) fn split_range_key(key: &[u8]) -> Decoded<DependedRange<'_>> {
    let (space, rest) = split_record_key(key)?;
    let short = DamagedRecord {
        what: "has a short key",
    };
    let (length, rest) = rest.split_first_chunk::<2>().ok_or(short)?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (low, high) = rest.split_at_checked(length).ok_or(short)?;
    Ok((space, low, Some(high).filter(|high| !high.is_empty())))
}

/// Encodes what a branch has of a record.
pub(crate) fn encode_record(kind: BranchRecordKind, value: &[u8]) -> Vec<u8> {
    let mark = match kind {
        BranchRecordKind::Deleted => 0,
        BranchRecordKind::Written => 1,
        BranchRecordKind::Merged => 2,
        BranchRecordKind::Depended => 3,
    };
    let mut out = Vec::with_capacity(MARK_BYTES + value.len());
    out.push(mark);
    out.extend_from_slice(value);
    out
}

/// Decodes what a branch has done to a record. Iterators leave out values that are long, and only a
/// written value is.
pub(crate) fn decode_kind(bytes: &[u8]) -> Decoded<BranchRecordKind> {
    Ok(match (bytes.first(), bytes.len()) {
        (None, _) | (Some(1), _) => BranchRecordKind::Written,
        (Some(0), MARK_BYTES) => BranchRecordKind::Deleted,
        (Some(2), _) => BranchRecordKind::Merged,
        (Some(3), MARK_BYTES) => BranchRecordKind::Depended,
        _ => {
            return Err(DamagedRecord {
                what: "of a branch begins with an unknown byte",
            });
        }
    })
}
