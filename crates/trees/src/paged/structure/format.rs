//! What the pages of a structure have for a key, version 1: the messages about it that a reader may
//! still ask for. A *varint* is LEB128 of at most 10 bytes.
//!
//! The value of a key in a leaf or in a message of a node:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  0: messages follow; 1: they are in pages of their own
//!      1        messages, newest first, up to the end, each:
//!                 sequence (varint), kind (1), expiry in milliseconds (varint),
//!                 length of the operand (varint), operand
//!               or the first page (varint), bytes of the messages (varint)
//! ```
//!
//! Sequences descend. Earlier versions gave the put at the end the sequence of the merge above it
//! where the put expires, or where the merge operator refuses it. No reader's place lies between the
//! two, so such a put is read with a sequence that is one less.
//!
//! A page of messages that do not fit into a node:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  4
//!      1     1  0
//!      2     2  n: bytes that are here
//!      4     8  the next page plus 1, 0 for none
//!     12     n  bytes of the messages
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use alluvium_base::bytes::{Reader, Truncated, Writer};
use alluvium_base::{Kind, Message, Sequence};

/// The first byte of a page of messages.
const APART: u8 = 4;
/// Bytes of such a page before the messages.
pub(super) const APART_HEADER: usize = 12;

/// A message that is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) sequence: Sequence,
    pub(super) kind: Kind,
    pub(super) expires_ms: u64,
    pub(super) operand: Box<[u8]>,
}

impl Entry {
    pub(super) fn message(&self) -> Message<'_> {
        Message {
            sequence: self.sequence,
            kind: self.kind,
            expires_ms: self.expires_ms,
            operand: &self.operand,
        }
    }
}

/// What a value in a page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'v> {
    /// The bytes of the messages.
    Here(&'v [u8]),
    /// Where they are.
    Apart(Pointer),
}

/// Messages in pages of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    /// The first page.
    pub(super) page: u64,
    /// Bytes of the messages.
    pub(super) len: u64,
}

impl Value<'_> {
    /// Returns the bytes of the value.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        match self {
            Value::Here(messages) => writer.u8(0).bytes(messages),
            Value::Apart(Pointer { page, len }) => writer.u8(1).varint(*page).varint(*len),
        };
        out
    }

    /// Reads a value.
    pub(super) fn decode(bytes: &[u8]) -> Result<Value<'_>, String> {
        let (Some(tag), Some(rest)) = (bytes.first(), bytes.get(1..)) else {
            return Err("a value without bytes".to_owned());
        };
        let mut reader = Reader::new(rest);
        let mut pointer = || -> Result<Pointer, Truncated> {
            let (page, len) = (reader.varint()?, reader.varint()?);
            Ok(Pointer { page, len })
        };
        match tag {
            0 => Ok(Value::Here(rest)),
            1 => {
                let pointer = pointer().map_err(|cut| cut.to_string())?;
                match reader.left() {
                    0 => Ok(Value::Apart(pointer)),
                    left => Err(format!("{left} bytes behind a pointer")),
                }
            }
            other => Err(format!("a value of kind {other}")),
        }
    }
}

/// Returns the bytes of messages, which are newest first.
pub(super) fn encode(entries: &[Entry]) -> Vec<u8> {
    assert!(
        entries.is_sorted_by(|newer, older| newer.sequence > older.sequence),
        "the messages of a key are newest first (PV2)"
    );
    let mut out = Vec::new();
    for entry in entries {
        Writer::new(&mut out)
            .varint(entry.sequence)
            .u8(entry.kind as u8)
            .varint(entry.expires_ms)
            .varint(entry.operand.len() as u64)
            .bytes(&entry.operand);
    }
    out
}

/// Reads messages.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let mut reader = Reader::new(bytes);
    let mut entries: Vec<Entry> = Vec::new();
    while reader.left() > 0 {
        let entry = read(&mut reader).map_err(|cut| cut.to_string())?;
        let entry = entry.ok_or_else(|| "a message of an unknown kind".to_owned())?;
        let mut entry = entry;
        if let Some(newer) = entries.last()
            && newer.sequence <= entry.sequence
        {
            // Written by earlier versions: see above.
            let is_base = newer.kind == Kind::Merge && entry.kind == Kind::Put && reader.left() == 0;
            if !is_base || newer.sequence != entry.sequence || entry.sequence < 2 {
                return Err("messages out of order".to_owned());
            }
            entry.sequence -= 1;
        }
        entries.push(entry);
    }
    if entries.is_empty() {
        return Err("a key without a message".to_owned());
    }
    Ok(entries)
}

fn read(reader: &mut Reader<'_>) -> Result<Option<Entry>, Truncated> {
    let sequence = reader.varint()?;
    let kind = Kind::try_from(reader.u8()?);
    let expires_ms = reader.varint()?;
    let len = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    let operand = reader.take(len)?.into();
    Ok(kind.ok().map(|kind| Entry {
        sequence,
        kind,
        expires_ms,
        operand,
    }))
}

/// Makes the content of a page that of a piece of messages.
pub(super) fn write_apart(content: &mut [u8], piece: &[u8], next: Option<u64>) {
    assert!(
        piece.len() + APART_HEADER <= content.len() && piece.len() <= usize::from(u16::MAX),
        "a piece fits into a page"
    );
    let mut header = Vec::with_capacity(APART_HEADER);
    Writer::new(&mut header)
        .u8(APART)
        .u8(0)
        .u16(piece.len() as u16)
        .u64(next.map_or(0, |next| next + 1));
    let bytes = header.iter().chain(piece);
    content
        .iter_mut()
        .zip(bytes)
        .for_each(|(place, byte)| *place = *byte);
}

/// Returns the piece in a page, and the page that follows; none if there is something else.
pub(super) fn read_apart(content: &[u8]) -> Option<(&[u8], Option<u64>)> {
    let mut reader = Reader::new(content);
    let (tag, zero) = (reader.u8().ok()?, reader.u8().ok()?);
    let len = usize::from(reader.u16().ok()?);
    let next = reader.u64().ok()?;
    let piece = reader.take(len).ok()?;
    (tag == APART && zero == 0).then_some((piece, next.checked_sub(1)))
}

/// Returns whether the content of a page is a piece of messages.
pub(in crate::paged) fn is_apart(content: &[u8]) -> bool {
    read_apart(content).is_some()
}

/// Reads bytes as a value, and returns how many they are: what is read is written the same again.
pub(in crate::paged) fn reread_value(bytes: &[u8]) -> usize {
    let Ok(value) = Value::decode(bytes) else {
        return 0;
    };
    let again = value.encode();
    assert_eq!(
        Value::decode(&again),
        Ok(value),
        "a value is written as it was read"
    );
    if let Value::Here(messages) = value
        && let Ok(entries) = decode(messages)
    {
        assert_eq!(decode(&encode(&entries)), Ok(entries), "and so are messages");
    }
    1
}

/// Returns bytes of values, and of a page of messages.
pub(in crate::paged) fn examples() -> Vec<Vec<u8>> {
    let entries = [Entry {
        sequence: 7,
        kind: Kind::Put,
        expires_ms: 0,
        operand: b"1094"[..].into(),
    }];
    let messages = encode(&entries);
    let mut page = vec![0; APART_HEADER + messages.len()];
    write_apart(&mut page, &messages, Some(6));
    let pointer = Value::Apart(Pointer { page: 6, len: 9 });
    vec![Value::Here(&messages).encode(), pointer.encode(), page]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sequence: Sequence, kind: Kind, expires_ms: u64, operand: &[u8]) -> Entry {
        Entry {
            sequence,
            kind,
            expires_ms,
            operand: operand.into(),
        }
    }

    const BYTES: &[u8] = b"\xac\x02\x02\x00\x01+\x07\x00\x05\x041094";

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let entries = [entry(300, Kind::Merge, 0, b"+"), entry(7, Kind::Put, 5, b"1094")];
        assert_eq!(encode(&entries), BYTES);
        assert_eq!(decode(BYTES).unwrap(), entries);
        let here = Value::Here(BYTES).encode();
        assert_eq!(here, [&[0], BYTES].concat());
        assert_eq!(Value::decode(&here), Ok(Value::Here(BYTES)));
        let pointer = Value::Apart(Pointer { page: 300, len: 9 });
        assert_eq!(pointer.encode(), [1, 0xac, 2, 9]);
        assert_eq!(Value::decode(&pointer.encode()), Ok(pointer));
        let mut page = [9; 16];
        write_apart(&mut page, b"Elb", Some(6));
        assert_eq!(page, *b"\x04\0\x03\0\x07\0\0\0\0\0\0\0Elb\x09");
        assert_eq!(read_apart(&page), Some((&b"Elb"[..], Some(6))));
    }

    #[test]
    fn what_is_cut_or_out_of_order_is_refused() {
        assert!(decode(b"").is_err() && Value::decode(b"").is_err());
        for len in (1..BYTES.len()).filter(|len| *len != 6) {
            assert!(decode(&BYTES[..len]).is_err(), "{len} bytes");
        }
        let refused = |at: usize, byte: u8| {
            let mut bytes = BYTES.to_vec();
            bytes[at] = byte;
            decode(&bytes).is_err()
        };
        assert!(refused(2, 3), "a kind that there is not");
        assert!(
            decode(b"\x07\x00\x00\x00\x07\x00\x00\x00").is_err(),
            "messages out of order"
        );
        let twice = decode(b"\x07\x02\x00\x01x\x07\x00\x05\x01v").unwrap();
        assert_eq!(
            twice,
            [entry(7, Kind::Merge, 0, b"x"), entry(6, Kind::Put, 5, b"v")],
            "a base that earlier versions numbered as the merge above it"
        );
        for bytes in [
            &b"\x07\x02\x00\x00\x07\x02\x00\x00"[..],
            b"\x07\x02\x00\x00\x07\x00\x05\x00\x06\x00\x00\x00",
            b"\x07\x02\x00\x00\x08\x00\x05\x00",
            b"\x01\x02\x00\x00\x01\x00\x05\x00",
        ] {
            assert!(decode(bytes).is_err(), "{bytes:?}");
        }
        assert!(Value::decode(&[2, 1]).is_err() && Value::decode(&[1, 1]).is_err());
        assert!(Value::decode(&[1, 1, 1, 1]).is_err());
        let mut page = [0; 16];
        write_apart(&mut page, b"Elbe", None);
        assert_eq!(read_apart(&page), Some((&b"Elbe"[..], None)));
        assert_eq!(read_apart(&page[..15]), None);
        page[0] = 1;
        assert_eq!(read_apart(&page), None);
    }
}
