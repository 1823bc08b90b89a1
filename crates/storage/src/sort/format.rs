//! Format of sorted runs in temporary files, version 1. All integers are little-endian.
//!
//! A run is a sequence of frames, each of which has a multiple of 512 bytes:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic "ASRT"
//!      4     4  records in the frame
//!      8     8  number of the run
//!     16     8  number of the frame in its run
//!     24     4  bytes of records: n
//!     28     4  version, 1
//!     32     8  XXH3-64 of bytes 0 to 31 and of the records
//!     40     n  records
//! 40 + n     –  zero
//! ```
//!
//! A record of fixed length is stored unchanged. Any other record is stored as the lengths of its
//! key and value, both as LEB128 varints, followed by the key and the value. A record is always
//! entirely inside one frame; if it is longer than a normal frame, its frame is longer too.
//!
//! Only the process that wrote a run reads it, and keeps the frame lengths in memory.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::options::SortRecordLayout;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum::seeded_parts;

/// Size in bytes of a frame header.
pub const HEADER_BYTES: usize = 40;

const MAGIC: [u8; 4] = *b"ASRT";
const VERSION: u32 = 1;
const SUMMED: usize = 32;

/// The positions of the key and the value in an encoded record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordParts {
    /// Offset in bytes of the key in the record.
    pub key_at: usize,
    /// Size of the key in bytes.
    pub key_bytes: usize,
    /// Offset in bytes of the value in the record. In a record of fixed length it is 0, because the
    /// value is the whole record.
    pub value_at: usize,
    /// Size of the record in bytes.
    pub bytes: usize,
}

impl SortRecordLayout {
    /// Returns the layout of the record at the start of `bytes`, or `None` if the record is
    /// incomplete.
    #[inline]
    #[must_use]
    pub fn parts(self, bytes: &[u8]) -> Option<RecordParts> {
        match self {
            SortRecordLayout::Fixed {
                record_bytes,
                key_offset,
                key_bytes,
            } => (bytes.len() >= record_bytes as usize).then_some(RecordParts {
                key_at: key_offset as usize,
                key_bytes: key_bytes as usize,
                value_at: 0,
                bytes: record_bytes as usize,
            }),
            SortRecordLayout::Variable => {
                // For nearly all records, a single byte is enough for each of the two lengths.
                let (key_bytes, value_bytes, key_at) = match bytes {
                    [key @ 0..=127, value @ 0..=127, ..] => (u64::from(*key), u64::from(*value), 2),
                    _ => {
                        let mut reader = ByteReader::new(bytes);
                        let lengths = (reader.varint().ok()?, reader.varint().ok()?);
                        (lengths.0, lengths.1, reader.position())
                    }
                };
                let value_at = (key_at as u64).checked_add(key_bytes)?;
                let end = value_at.checked_add(value_bytes)?;
                (end <= bytes.len() as u64).then_some(RecordParts {
                    key_at,
                    key_bytes: key_bytes as usize,
                    value_at: value_at as usize,
                    bytes: end as usize,
                })
            }
        }
    }
}

/// Appends the encoded record of a key and a value.
pub(super) fn push_pair(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    ByteWriter::new(out)
        .varint(key.len() as u64)
        .varint(value.len() as u64)
        .bytes(key)
        .bytes(value);
}

/// Returns the maximum size in bytes of an encoded record with this key and value.
pub(super) fn pair_bytes(key: &[u8], value: &[u8]) -> usize {
    20 + key.len() + value.len()
}

/// Returns eight bytes of a key, after its first `skip` bytes, as a number. Numbers have the same
/// order as the bytes. Bytes beyond the end of the key count as zero.
#[inline]
pub(super) fn prefix(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    match rest.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => rest.iter().enumerate().fold(0, |sum, (at, &byte)| {
            sum | u64::from(byte) << (56 - 8 * at.min(7))
        }),
    }
}

/// A frame header, without the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFrameHeader {
    /// Number of the run to which the frame belongs.
    pub run: u64,
    /// Number of the frame in its run.
    pub number: u64,
    pub records: u32,
    /// Total size in bytes of the records in the frame.
    pub bytes: u32,
}

impl RunFrameHeader {
    /// Writes this header to the start of a frame that already contains its records, and fills the
    /// rest of the frame with zeros.
    ///
    /// # Panics
    /// If the records do not fit into the frame.
    pub fn seal(&self, frame: &mut [u8]) {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        ByteWriter::new(&mut header)
            .bytes(&MAGIC)
            .u32(self.records)
            .u64(self.run)
            .u64(self.number)
            .u32(self.bytes)
            .u32(VERSION);
        let end = HEADER_BYTES + self.bytes as usize;
        let records = frame.get(HEADER_BYTES..end).unwrap_or_default();
        assert_eq!(records.len(), self.bytes as usize, "records within the frame");
        let sum = seeded_parts(0, [&header, records]);
        ByteWriter::new(&mut header).u64(sum);
        if let Some(space) = frame.get_mut(..HEADER_BYTES) {
            space.copy_from_slice(&header);
        }
        frame.get_mut(end..).unwrap_or_default().fill(0);
    }

    /// Verifies the checksum of a frame and that it is frame `number` of run `run`, and decodes its
    /// header.
    ///
    /// # Errors
    /// What was expected, and what was found instead.
    pub fn open(frame: &[u8], run: u64, number: u64) -> Result<RunFrameHeader, (String, String)> {
        let short = |error: TruncatedInput| ("a frame".to_owned(), error.to_string());
        let mut reader = ByteReader::new(frame);
        let magic = reader.take(MAGIC.len()).map_err(short)?;
        let mut read = || {
            let first = (reader.u32()?, reader.u64()?, reader.u64()?);
            Ok((first, reader.u32()?, reader.u32()?, reader.u64()?))
        };
        let ((records, of_run, of_frame), bytes, version, sum) = read().map_err(short)?;
        if magic != MAGIC || version != VERSION {
            return Err(("ASRT 1".to_owned(), format!("{magic:02x?} {version}")));
        }
        if (of_run, of_frame) != (run, number) {
            let text = |run, frame| format!("frame {frame} of run {run}");
            return Err((text(run, number), text(of_run, of_frame)));
        }
        let body = frame
            .get(HEADER_BYTES..)
            .and_then(|rest| rest.get(..bytes as usize));
        let Some(body) = body else {
            let expected = format!(
                "at most {} bytes of records",
                frame.len().saturating_sub(HEADER_BYTES)
            );
            return Err((expected, bytes.to_string()));
        };
        let expected = seeded_parts(0, [frame.get(..SUMMED).unwrap_or_default(), body]);
        if expected != sum {
            return Err((format!("checksum {expected:016x}"), format!("{sum:016x}")));
        }
        Ok(RunFrameHeader {
            run,
            number,
            records,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_frame_are_these() {
        let mut records = Vec::new();
        push_pair(&mut records, b"key", b"v");
        push_pair(&mut records, &[b'k'; 130], b"");
        let mut frame = vec![0xaa; 512];
        frame[HEADER_BYTES..HEADER_BYTES + records.len()].copy_from_slice(&records);
        let header = RunFrameHeader {
            run: 3,
            number: 5,
            records: 2,
            bytes: records.len() as u32,
        };
        header.seal(&mut frame);
        let mut expected = b"ASRT\x02\0\0\0".to_vec();
        expected.extend([
            3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 139, 0, 0, 0, 1, 0, 0, 0,
        ]);
        let mut body = b"\x03\x01keyv\x82\x01\x00".to_vec();
        body.extend([b'k'; 130]);
        let sum = seeded_parts(0, [&expected, &body]);
        expected.extend(sum.to_le_bytes());
        expected.extend(&body);
        expected.resize(512, 0);
        assert_eq!(frame, expected);
        assert_eq!(RunFrameHeader::open(&frame, 3, 5), Ok(header));
        assert!(RunFrameHeader::open(&frame, 3, 4).is_err() && RunFrameHeader::open(&frame, 2, 5).is_err());
        for at in (0..HEADER_BYTES + records.len()).step_by(3) {
            let mut flipped = frame.clone();
            flipped[at] ^= 4;
            assert!(RunFrameHeader::open(&flipped, 3, 5).is_err(), "byte {at}");
        }
    }

    #[test]
    fn records_are_found_in_bytes_and_never_outside() {
        let mut bytes = Vec::new();
        push_pair(&mut bytes, &[7; 200], &[9; 300]);
        let parts = SortRecordLayout::Variable.parts(&bytes).unwrap();
        let key = &bytes[parts.key_at..parts.key_at + parts.key_bytes];
        assert_eq!(
            (key, &bytes[parts.value_at..parts.bytes]),
            (&[7; 200][..], &[9; 300][..])
        );
        for len in 0..bytes.len() {
            assert_eq!(SortRecordLayout::Variable.parts(&bytes[..len]), None);
        }
        assert_eq!(SortRecordLayout::Variable.parts(&[0xff; 30]), None);
    }

    #[test]
    fn prefixes_sort_as_keys_do() {
        let keys: [&[u8]; 6] = [b"", b"a", b"ab", b"abcdefgh", b"abcdefgi", b"b"];
        for pair in keys.windows(2) {
            assert!(prefix(pair[0], 0) < prefix(pair[1], 0), "{pair:?}");
        }
        assert_eq!(prefix(b"xxabcdefghi", 2), prefix(b"abcdefgh", 0));
        assert_eq!(prefix(b"x", 2), 0);
    }
}
