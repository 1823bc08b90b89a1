//! The format of an ordered map's contents in a checkpoint, version 1. All integers are
//! little-endian; a *varint* is LEB128 of at most 10 bytes.
//!
//! The root stores the version number (see `crates/dictionary/src/blob/format.rs`). The contents
//! are:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0        keys (varint), ascending, each: length (varint), bytes,
//!                 messages (varint), newest first, each:
//!                   sequence (varint), kind (1), expiry in milliseconds (varint), length of the operand (varint), operand
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{MapRecord, MapRecords};
use alluvium_base::MessageKind;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_storage::{DiskLocation, Error, Result};
use std::sync::Arc;

/// Encodes the contents of a map.
#[must_use]
pub fn encode(keys: &MapRecords) -> Vec<u8> {
    let mut out = Vec::new();
    ByteWriter::new(&mut out).varint(keys.len() as u64);
    for (key, entries) in keys {
        debug_assert!(!entries.is_empty(), "a key has a message (P3)");
        debug_assert!(
            entries.is_sorted_by(|newer, older| newer.sequence > older.sequence),
            "the messages of a key are newest first (P3)"
        );
        ByteWriter::new(&mut out)
            .varint(key.len() as u64)
            .bytes(key)
            .varint(entries.len() as u64);
        for entry in entries.iter() {
            ByteWriter::new(&mut out)
                .varint(entry.sequence)
                .u8(entry.kind as u8)
                .varint(entry.expires_ms)
                .varint(entry.operand.len() as u64)
                .bytes(&entry.operand);
        }
    }
    out
}

/// Decodes the contents of a map. Error messages name `place` as the location of `bytes`.
///
/// # Errors
/// [`Error::Corrupt`] at `place` if the contents are invalid.
pub fn decode(bytes: &[u8], place: &DiskLocation) -> Result<MapRecords> {
    let bad = |found: String| Error::corrupt(place.clone(), "the contents of a map", found);
    let mut reader = ByteReader::new(bytes);
    let keys = read(&mut reader).map_err(|cut| bad(cut.to_string()))?;
    match keys {
        Some(keys) if reader.remaining() == 0 => Ok(keys),
        _ => Err(bad(format!(
            "something out of order up to byte {}",
            reader.position()
        ))),
    }
}

fn part<'b>(reader: &mut ByteReader<'b>) -> std::result::Result<&'b [u8], TruncatedInput> {
    let len = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    reader.take(len)
}

/// Decodes the keys and their messages. Returns `None` if they are out of order or otherwise
/// invalid.
fn read(reader: &mut ByteReader<'_>) -> std::result::Result<Option<MapRecords>, TruncatedInput> {
    let mut keys = MapRecords::new();
    // If a damaged count is too high, decoding stops at the end of the input, because every item
    // takes at least one byte.
    for _ in 0..reader.varint()? {
        let key = part(reader)?;
        if keys.last_key_value().is_some_and(|(last, _)| **last >= *key) {
            return Ok(None);
        }
        let mut entries: Vec<MapRecord> = Vec::new();
        for _ in 0..reader.varint()? {
            let sequence = reader.varint()?;
            let Ok(kind) = MessageKind::try_from(reader.u8()?) else {
                return Ok(None);
            };
            let expires_ms = reader.varint()?;
            let operand = part(reader)?.into();
            if entries.last().is_some_and(|newer| newer.sequence <= sequence) {
                return Ok(None);
            }
            entries.push(MapRecord {
                sequence,
                kind,
                expires_ms,
                operand,
            });
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let before = keys.insert(Arc::from(key), entries.into());
        assert!(before.is_none(), "keys ascend, as was just checked");
    }
    Ok(Some(keys))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_dictionary::blob::BlobRoot;
    use alluvium_storage::OnDiskObject;
    use alluvium_storage::PageSize;

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "a map", 0)
    }

    fn example() -> MapRecords {
        let entry = |sequence, kind, expires_ms, operand: &[u8]| MapRecord {
            sequence,
            kind,
            expires_ms,
            operand: operand.into(),
        };
        let elbe = vec![
            entry(300, MessageKind::Merge, 0, b"+"),
            entry(7, MessageKind::Put, 5, b"1094"),
        ];
        MapRecords::from([
            (
                Arc::from(&b""[..]),
                vec![entry(0, MessageKind::Put, 0, b"")].into(),
            ),
            (Arc::from(&b"Elbe"[..]), elbe.into()),
        ])
    }

    const BYTES: &[u8] = b"\x02\x00\x01\x00\x00\x00\x00\x04Elbe\x02\xac\x02\x02\x00\x01+\x07\x00\x05\x041094";

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        assert_eq!(encode(&example()), BYTES);
        assert_eq!(decode(BYTES, &place()).unwrap(), example());
        let root = BlobRoot::Here(BYTES).encode();
        assert_eq!(&root[..2], [1, 0]);
        let read = BlobRoot::decode(&root, &place(), PageSize::MIN).unwrap();
        assert_eq!(read, BlobRoot::Here(BYTES));
    }

    #[test]
    fn contents_that_are_cut_or_out_of_order_are_refused() {
        for len in 0..BYTES.len() {
            assert!(decode(&BYTES[..len], &place()).is_err(), "{len} bytes");
        }
        assert!(decode(&[BYTES, b"\0"].concat(), &place()).is_err());
        let refused = |at: usize, byte: u8| {
            let mut bytes = BYTES.to_vec();
            bytes[at] = byte;
            decode(&bytes, &place()).is_err()
        };
        assert!(refused(4, 4), "a kind that there is not");
        assert!(refused(13, 0x07), "messages out of order");
        let mut newer = BlobRoot::Here(BYTES).encode();
        newer[0] = 2;
        let read = BlobRoot::decode(&newer, &place(), PageSize::MIN);
        assert!(matches!(read, Err(Error::NewerFormat { found: 2, .. })));
        assert!(BlobRoot::decode(&[1, 2], &place(), PageSize::MIN).is_err());
        assert!(BlobRoot::decode(&[1], &place(), PageSize::MIN).is_err());
    }
}
