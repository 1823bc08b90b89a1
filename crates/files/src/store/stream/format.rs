//! The stream of a snapshot of files, version 2.
//!
//! *Scope*: the frames of a stream, and the records in them.
//!
//! *Must not depend on*: where the records come from, and what happens to them.
//!
//! A stream is a sequence of frames: the head, any number of frames with records, the end.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  length of the body, at most `MOST_BODY`
//!      4     8  checksum of the body, with that of the frame before as its seed, 0 for the first
//!     12        the body
//! ```
//!
//! The body of the head:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  1
//!      1     8  "ALLUSEND"
//!      9     2  version
//!     11     4  bytes of a block
//!     15     4  most bytes of contents that stand in the inode
//!     19     1  order of contents: 0 by inode, 1 by path
//!     20    16  stamp of the snapshot
//!     36     1  1 if the stream has only what has changed since another snapshot, otherwise 0
//!     37    16  stamp of that snapshot, or zeros
//!     53     1  length of the snapshot's name
//!     54     n  the name of the snapshot
//!   54+n        the name of the other snapshot, or nothing
//! ```
//!
//! The body of a frame with records is one byte, 2, and records:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  1 a record that is written, 2 one that is deleted
//!      1     1  the keyspace: its place in `RecordSpace::ALL`
//!      2     2  length of the key
//!      4     4  length of the value; 0 for a record that is deleted
//!      8     n  the key
//!    8+n        the value
//! ```
//!
//! The body of the end:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  3
//!      1     8  number of records that the stream has
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::records::RecordSpace;
use crate::records::format::{MAX_NAME, SnapshotStamp};
use crate::types::ContentOrder;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum;

const MAGIC: &[u8; 8] = b"ALLUSEND";
/// The version of the encoding.
pub(crate) const VERSION: u16 = 2;
/// Bytes before the body of a frame.
pub(crate) const FRAME_HEADER: usize = 12;
/// Most bytes of a body. A record has at most a block of 1 MiB and a key.
pub(crate) const MOST_BODY: usize = 3 << 20;

const HEAD: u8 = 1;
const RECORDS: u8 = 2;
const END: u8 = 3;
const WRITTEN: u8 = 1;
const DELETED: u8 = 2;

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamDamage {
    /// This part is not as it was written.
    Damaged(&'static str),
    /// The stream has this newer version.
    Newer(u16),
}

impl From<TruncatedInput> for StreamDamage {
    fn from(_: TruncatedInput) -> StreamDamage {
        StreamDamage::Damaged("ends early")
    }
}

type Decoded<T> = Result<T, StreamDamage>;

/// The head of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamHead {
    pub(crate) block_bytes: u32,
    pub(crate) inline_bytes: u32,
    pub(crate) order: ContentOrder,
    pub(crate) snapshot: String,
    pub(crate) stamp: SnapshotStamp,
    /// The snapshot since which the stream has the changes, with its stamp.
    pub(crate) since: Option<(String, SnapshotStamp)>,
}

/// A record in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamRecord<'r> {
    pub(crate) space: RecordSpace,
    pub(crate) key: &'r [u8],
    /// The value, or `None` if the record is deleted.
    pub(crate) value: Option<&'r [u8]>,
}

/// The body of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamBody<'b> {
    Head(StreamHead),
    Records(Vec<StreamRecord<'b>>),
    /// The number of records that came before.
    End(u64),
}

/// Returns the body of the head.
pub(crate) fn encode_head(head: &StreamHead) -> Vec<u8> {
    let mut out = vec![HEAD];
    let (since, since_stamp) = match &head.since {
        Some((name, stamp)) => (name.as_bytes(), *stamp),
        None => (&[][..], [0; 16]),
    };
    ByteWriter::new(&mut out)
        .bytes(MAGIC)
        .u16(VERSION)
        .u32(head.block_bytes)
        .u32(head.inline_bytes)
        .u8(u8::from(head.order == ContentOrder::ByPath))
        .bytes(&head.stamp)
        .u8(u8::from(head.since.is_some()))
        .bytes(&since_stamp)
        .u8(head.snapshot.len() as u8)
        .bytes(head.snapshot.as_bytes())
        .bytes(since);
    out
}

/// Returns the beginning of a body with records, to which [`push_record`] adds.
pub(crate) fn records_body() -> Vec<u8> {
    vec![RECORDS]
}

/// Adds a record to a body.
pub(crate) fn push_record(body: &mut Vec<u8>, record: StreamRecord<'_>) {
    let value = record.value.unwrap_or_default();
    ByteWriter::new(body)
        .u8(if record.value.is_some() { WRITTEN } else { DELETED })
        .u8(record.space as u8)
        .u16(record.key.len() as u16)
        .u32(value.len() as u32)
        .bytes(record.key)
        .bytes(value);
}

/// Returns the body of the end of a stream with this number of records.
pub(crate) fn encode_end(records: u64) -> Vec<u8> {
    let mut out = vec![END];
    ByteWriter::new(&mut out).u64(records);
    out
}

/// Makes or reads the frames of one stream, in order. Each checksum depends on those before, so no
/// frame of another stream can stand among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameChain {
    /// The checksum of the last frame.
    last: u64,
}

impl FrameChain {
    /// Returns a body as the next frame.
    pub(crate) fn frame(&mut self, body: &[u8]) -> Vec<u8> {
        self.last = checksum::seeded(self.last, body);
        let mut out = Vec::with_capacity(FRAME_HEADER + body.len());
        ByteWriter::new(&mut out)
            .u32(body.len() as u32)
            .u64(self.last)
            .bytes(body);
        out
    }

    /// Returns the body of the next frame, at the beginning of `bytes`, or `None` if more bytes are
    /// needed.
    pub(crate) fn next_body<'b>(&mut self, bytes: &'b [u8]) -> Decoded<Option<&'b [u8]>> {
        let Some((expected, body)) = split_frame(bytes)? else {
            return Ok(None);
        };
        if checksum::seeded(self.last, body) != expected {
            return Err(StreamDamage::Damaged("has a part with another checksum"));
        }
        self.last = expected;
        Ok(Some(body))
    }
}

/// Returns the checksum and the body of the frame at the beginning of `bytes`, or `None` if more
/// bytes are needed.
fn split_frame(bytes: &[u8]) -> Decoded<Option<(u64, &[u8])>> {
    if bytes.len() < FRAME_HEADER {
        return Ok(None);
    }
    let mut reader = ByteReader::new(bytes);
    let (length, expected) = (reader.u32()? as usize, reader.u64()?);
    if length > MOST_BODY {
        return Err(StreamDamage::Damaged("announces a part that is too long"));
    }
    if reader.remaining() < length {
        return Ok(None);
    }
    Ok(Some((expected, reader.take(length)?)))
}

/// Decodes a body.
pub(crate) fn decode_body(body: &[u8]) -> Decoded<StreamBody<'_>> {
    let mut reader = ByteReader::new(body);
    let decoded = match reader.u8()? {
        HEAD => StreamBody::Head(decode_head(&mut reader)?),
        RECORDS => {
            let mut records = Vec::new();
            while reader.remaining() > 0 {
                records.push(decode_record(&mut reader)?);
            }
            StreamBody::Records(records)
        }
        END => StreamBody::End(reader.u64()?),
        _ => return Err(StreamDamage::Damaged("has a part of an unknown kind")),
    };
    match reader.remaining() {
        0 => Ok(decoded),
        _ => Err(StreamDamage::Damaged("has bytes after a part")),
    }
}

fn decode_head(reader: &mut ByteReader<'_>) -> Decoded<StreamHead> {
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(StreamDamage::Damaged("begins with other bytes"));
    }
    match reader.u16()? {
        VERSION => {}
        0 => return Err(StreamDamage::Damaged("has an impossible version")),
        older if older < VERSION => {
            return Err(StreamDamage::Damaged(
                "has the format of an older version of Alluvium",
            ));
        }
        newer => return Err(StreamDamage::Newer(newer)),
    }
    let (block_bytes, inline_bytes) = (reader.u32()?, reader.u32()?);
    let order = match reader.u8()? {
        0 => ContentOrder::ByInode,
        1 => ContentOrder::ByPath,
        _ => return Err(StreamDamage::Damaged("has an unknown order of contents")),
    };
    let stamp = decode_stamp(reader)?;
    let has_since = reader.u8()?;
    let since_stamp = decode_stamp(reader)?;
    let length = usize::from(reader.u8()?);
    let snapshot = decode_name(reader.take(length)?)?;
    let since = decode_name(reader.take(reader.remaining())?)?;
    let since = match (has_since, since.is_empty()) {
        (0, true) if since_stamp == [0; 16] => None,
        (1, false) => Some((since, since_stamp)),
        _ => return Err(StreamDamage::Damaged("names another snapshot incompletely")),
    };
    Ok(StreamHead {
        block_bytes,
        inline_bytes,
        order,
        snapshot,
        stamp,
        since,
    })
}

fn decode_stamp(reader: &mut ByteReader<'_>) -> Decoded<SnapshotStamp> {
    let bytes = reader.take(16)?;
    bytes.try_into().map_err(|_| StreamDamage::Damaged("ends early"))
}

fn decode_name(bytes: &[u8]) -> Decoded<String> {
    match std::str::from_utf8(bytes) {
        Ok(name) if name.len() <= MAX_NAME => Ok(name.to_owned()),
        _ => Err(StreamDamage::Damaged("has an impossible name of a snapshot")),
    }
}

fn decode_record<'r>(reader: &mut ByteReader<'r>) -> Decoded<StreamRecord<'r>> {
    let kind = reader.u8()?;
    let space = usize::from(reader.u8()?);
    let space = *RecordSpace::ALL
        .get(space)
        .ok_or(StreamDamage::Damaged("has a record of an unknown keyspace"))?;
    let (key_length, value_length) = (usize::from(reader.u16()?), reader.u32()? as usize);
    let key = reader.take(key_length)?;
    let value = reader.take(value_length)?;
    let value = match (kind, value_length) {
        (WRITTEN, _) => Some(value),
        (DELETED, 0) => None,
        _ => return Err(StreamDamage::Damaged("has a record of an unknown kind")),
    };
    Ok(StreamRecord { space, key, value })
}

/// Decodes bytes as a body, for fuzzing. Whatever is decoded is encoded again and compared.
///
/// # Panics
/// If the decoded body is not encoded to the same bytes again.
pub(crate) fn reread(bytes: &[u8]) -> usize {
    let again = match decode_body(bytes) {
        Ok(StreamBody::Head(head)) => encode_head(&head),
        Ok(StreamBody::Records(records)) => {
            let mut body = records_body();
            for record in records {
                push_record(&mut body, record);
            }
            body
        }
        Ok(StreamBody::End(records)) => encode_end(records),
        Err(_) => return 0,
    };
    assert_eq!(again, bytes, "a body of a stream");
    1
}

/// Returns bodies that [`reread`] accepts.
pub(crate) fn body_examples() -> Vec<Vec<u8>> {
    let head = StreamHead {
        block_bytes: 16 << 10,
        inline_bytes: 2 << 10,
        order: ContentOrder::ByPath,
        snapshot: "tuesday".to_owned(),
        stamp: [7; 16],
        since: Some(("monday".to_owned(), [6; 16])),
    };
    let mut records = records_body();
    for value in [Some(&b"value"[..]), None] {
        let (space, key) = (RecordSpace::Names, &b"a name"[..]);
        push_record(&mut records, StreamRecord { space, key, value });
    }
    vec![encode_head(&head), records, encode_end(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_version_2_are_fixed() {
        let [head, records, end] = <[Vec<u8>; 3]>::try_from(body_examples()).unwrap();
        let mut expected = b"\x01ALLUSEND\x02\0\0\x40\0\0\0\x08\0\0\x01".to_vec();
        expected.extend([7; 16]);
        expected.push(1);
        expected.extend([6; 16]);
        expected.extend(b"\x07tuesdaymonday");
        assert_eq!(head, expected);
        assert_eq!(
            records,
            b"\x02\x01\0\x06\0\x05\0\0\0a namevalue\x02\0\x06\0\0\0\0\0a name"
        );
        assert_eq!(end, b"\x03\x02\0\0\0\0\0\0\0");
        let (mut sent, mut received) = (FrameChain::default(), FrameChain::default());
        let mut last = 0;
        for body in [head, end] {
            let framed = sent.frame(&body);
            assert_eq!(framed.len(), FRAME_HEADER + body.len());
            assert_eq!(received.next_body(&framed), Ok(Some(&body[..])));
            assert_eq!(framed[..4], (body.len() as u32).to_le_bytes());
            last = checksum::seeded(last, &body);
            assert_eq!(framed[4..12], last.to_le_bytes());
        }
    }

    #[test]
    fn all_bodies_are_read_again() {
        for body in body_examples() {
            assert_eq!(reread(&body), 1);
            for cut in 0..body.len() {
                reread(&body[..cut]);
            }
        }
    }

    #[test]
    fn no_changed_bit_of_a_frame_is_accepted() {
        let chain = FrameChain { last: 5 };
        let framed = { chain }.frame(&body_examples()[1]);
        for bit in 0..framed.len() * 8 {
            let mut changed = framed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let read = { chain }.next_body(&changed);
            // A longer length needs more bytes, and never comes to an end.
            assert!(!matches!(read, Ok(Some(_))), "bit {bit}");
        }
        let another = FrameChain { last: 6 }.next_body(&framed).map(drop);
        assert!(another.is_err(), "another place");
        assert_eq!({ chain }.next_body(&framed[..framed.len() - 1]), Ok(None));
    }

    #[test]
    fn newer_versions_are_named() {
        let mut head = body_examples().swap_remove(0);
        head[9] = 9;
        assert_eq!(decode_body(&head), Err(StreamDamage::Newer(9)));
    }
}
