//! The binary format of exports, version 1. Each key and value is preceded by its length.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  `ALLUVKV` and the version, 1
//!      8        records, one behind the other
//!            4  all bits set: no key is so long
//!            8  how many records there are
//! ```
//!
//! A record:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  length of the key
//!      4     4  length of the value
//!      8        the key
//!              the value
//! ```
//!
//! Integers are stored in little-endian byte order. If the end marker is missing, the stream is
//! incomplete.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

/// The magic bytes at the beginning of a stream.
pub const MAGIC: [u8; 8] = *b"ALLUVKV\x01";
/// Length in bytes of the header that precedes each record.
pub const HEAD: usize = 8;
/// Marks the end of the stream, in place of a key's length.
const END: u32 = u32::MAX;
/// Length of the end marker in bytes.
pub const END_LEN: usize = 12;

/// The header of a record, or the marker at the end of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryFrameHeader {
    /// A record with these lengths of its key and value follows.
    Record(usize, usize),
    /// The stream ends after this number of records.
    End(u64),
}

/// Encodes the header of a record from the lengths of its key and value.
#[must_use]
pub fn encode_head(key: u32, value: u32) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&key.to_le_bytes());
    head[4..].copy_from_slice(&value.to_le_bytes());
    head
}

#[must_use]
pub fn encode_end(records: u64) -> [u8; END_LEN] {
    let mut end = [0xff; END_LEN];
    end[4..].copy_from_slice(&records.to_le_bytes());
    end
}

/// Decodes a header or an end marker. Returns `None` if the buffer does not contain enough bytes.
#[must_use]
pub fn decode_head(bytes: &[u8]) -> Option<BinaryFrameHeader> {
    let (key, rest) = bytes.split_first_chunk::<4>()?;
    let key = u32::from_le_bytes(*key);
    if key == END {
        let (records, _) = rest.split_first_chunk::<8>()?;
        return Some(BinaryFrameHeader::End(u64::from_le_bytes(*records)));
    }
    let (value, _) = rest.split_first_chunk::<4>()?;
    Some(BinaryFrameHeader::Record(
        key as usize,
        u32::from_le_bytes(*value) as usize,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        assert_eq!(&MAGIC, b"ALLUVKV\x01");
        assert_eq!(encode_head(3, 258), [3, 0, 0, 0, 2, 1, 0, 0]);
        assert_eq!(encode_end(7), [255, 255, 255, 255, 7, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_encoded_is_decoded_and_what_is_short_is_nothing() {
        assert_eq!(
            decode_head(&encode_head(3, 258)),
            Some(BinaryFrameHeader::Record(3, 258))
        );
        assert_eq!(decode_head(&encode_end(7)), Some(BinaryFrameHeader::End(7)));
        assert_eq!(decode_head(&encode_end(7)[..11]), None);
        assert_eq!(decode_head(&[1, 2, 3]), None);
    }
}
