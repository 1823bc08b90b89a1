//! The encoding of a log record, version 1. All integers are little-endian.
//!
//! ```text
//! OFFSET   SIZE  MEANING
//!      0      8  XXH3-64 of the record's other bytes, without the zeros at its end, with the log's
//!                number as its seed
//!      8      1  kind: 1 put, 2 delete
//!      9      1  zero
//!     10      2  bytes of the key, k
//!     12      4  bytes of the value, v; 0 for a delete
//!     16      k  key
//! 16 + k      v  value
//!      …      …  zeros, up to a multiple of 16
//! ```
//!
//! A log is a sequence of records without gaps. It ends at the first position without a valid
//! record: at its last byte, at zeros, or at a torn record.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::silt::{Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum::seeded;

/// The alignment of records in bytes: 32-bit unit numbers address a log of 64 GiB.
pub const UNIT: u64 = 16;

/// The maximum length of a value in bytes.
pub const MAX_VALUE_BYTES: u32 = 1 << 26;

const HEADER_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiltRecordKind {
    /// The key has the value.
    Put = 1,
    Delete = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiltLogRecord<'b> {
    /// The kind of the record.
    pub kind: SiltRecordKind,
    pub key: &'b [u8],
    /// The value; empty for a delete.
    pub value: &'b [u8],
}

impl<'b> SiltLogRecord<'b> {
    /// Appends the encoded record to the log with the given number.
    ///
    /// ```
    /// use research_hashes::silt::log::{SiltRecordKind, SiltLogRecord};
    /// let record = SiltLogRecord { kind: SiltRecordKind::Put, key: b"k", value: b"value" };
    /// let mut log = Vec::new();
    /// record.encode(5, &mut log)?;
    /// assert_eq!(SiltLogRecord::decode(5, &log, 0)?, (record, 32));
    /// assert!(SiltLogRecord::decode(6, &log, 0).is_err(), "of another log");
    /// # Ok::<(), research_hashes::silt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLong`] when the key or the value is too long.
    pub fn encode(&self, log: u64, out: &mut Vec<u8>) -> Result<()> {
        let (key_bytes, value_bytes) = (self.key.len(), self.value.len());
        if key_bytes > u16::MAX.into() || value_bytes > MAX_VALUE_BYTES as usize {
            return Err(Error::TooLong {
                key_bytes,
                value_bytes,
                what: "a record",
                most: MAX_VALUE_BYTES.into(),
            });
        }
        let mut rest = Vec::with_capacity(HEADER_BYTES + key_bytes + value_bytes);
        ByteWriter::new(&mut rest)
            .u8(self.kind as u8)
            .u8(0)
            .u16(key_bytes as u16)
            .u32(value_bytes as u32)
            .bytes(self.key)
            .bytes(self.value);
        let end = out.len() + (CHECKSUM_BYTES + rest.len()).next_multiple_of(UNIT as usize);
        ByteWriter::new(out).u64(seeded(log, &rest)).bytes(&rest);
        out.resize(end, 0);
        Ok(())
    }

    /// Reads the record at the beginning of some bytes, which begin at byte `at` of their log.
    /// Returns it and its bytes, those of the zeros included.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the bytes do not start with a record of this log.
    pub fn decode(log: u64, bytes: &'b [u8], at: u64) -> Result<(SiltLogRecord<'b>, u64)> {
        let bad = |what, expected: String, found: String| Error::Corrupt {
            structure: "log record",
            at,
            what,
            expected,
            found,
        };
        let mut reader = ByteReader::new(bytes);
        let mut read = || -> std::result::Result<_, TruncatedInput> {
            let (sum, kind, zero) = (reader.u64()?, reader.u8()?, reader.u8()?);
            let (key_bytes, value_bytes) = (reader.u16()?, reader.u32()?);
            let (key, value) = (reader.take(key_bytes.into())?, reader.take(value_bytes as usize)?);
            Ok((sum, kind, zero, key, value, reader.position()))
        };
        let (sum, kind, zero, key, value, end) =
            read().map_err(|short| bad("length", "a whole record".into(), short.to_string()))?;
        let computed = seeded(log, bytes.get(CHECKSUM_BYTES..end).unwrap_or_default());
        if sum != computed {
            return Err(bad("checksum", format!("{computed:016x}"), format!("{sum:016x}")));
        }
        let kind = match (kind, zero) {
            (1, 0) => SiltRecordKind::Put,
            (2, 0) if value.is_empty() => SiltRecordKind::Delete,
            _ => {
                return Err(bad(
                    "kind",
                    "1 or 2, then 0".into(),
                    format!("{kind}, then {zero}"),
                ));
            }
        };
        Ok((
            SiltLogRecord { kind, key, value },
            end.next_multiple_of(UNIT as usize) as u64,
        ))
    }
}

/// Reads the records of a log in order, up to its end.
#[derive(Clone, Debug)]
pub struct SiltLogScan<'b> {
    log: u64,
    bytes: &'b [u8],
    at: u64,
}

impl<'b> SiltLogScan<'b> {
    /// Starts at the first record of a log.
    #[must_use]
    pub fn new(log: u64, bytes: &'b [u8]) -> SiltLogScan<'b> {
        SiltLogScan { log, bytes, at: 0 }
    }

    /// Returns the offset after the last record read; at the end, this is the end of the log.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.at
    }
}

impl<'b> Iterator for SiltLogScan<'b> {
    /// The record, and the unit at which it begins.
    type Item = (u32, SiltLogRecord<'b>);

    fn next(&mut self) -> Option<(u32, SiltLogRecord<'b>)> {
        let bytes = self.bytes.get(self.at as usize..)?;
        let (record, len) = SiltLogRecord::decode(self.log, bytes, self.at).ok()?;
        let unit = u32::try_from(self.at / UNIT).ok()?;
        self.at += len;
        Some((unit, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_record_are_these() {
        let mut log = Vec::new();
        let record = SiltLogRecord {
            kind: SiltRecordKind::Put,
            key: b"key",
            value: b"value",
        };
        record.encode(3, &mut log).unwrap();
        let rest = b"\x01\0\x03\0\x05\0\0\0keyvalue";
        let mut expected = seeded(3, rest).to_le_bytes().to_vec();
        expected.extend(rest);
        expected.resize(32, 0);
        assert_eq!(log, expected);
    }

    #[test]
    fn a_log_is_read_up_to_the_record_that_was_torn() {
        let mut log = Vec::new();
        let keys: Vec<Vec<u8>> = (0..50u8).map(|key| vec![key; usize::from(key)]).collect();
        let mut ends = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let (kind, value) = if number % 3 == 0 {
                (SiltRecordKind::Delete, &b""[..])
            } else {
                (SiltRecordKind::Put, &b"value"[..])
            };
            SiltLogRecord { kind, key, value }.encode(1, &mut log).unwrap();
            ends.push(log.len() as u64);
        }
        for len in 0..=log.len() {
            let mut scan = SiltLogScan::new(1, &log[..len]);
            let read: Vec<&[u8]> = scan.by_ref().map(|(_, record)| record.key).collect();
            // A record is complete even if its padding is missing.
            let whole = read.len();
            assert!(read.iter().zip(&keys).all(|(read, key)| read == key));
            assert!(whole == 50 || ends[whole] > len as u64, "{whole} at {len}");
            assert!(whole == 0 || ends[whole - 1] < len as u64 + UNIT);
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let mut damaged = log.clone();
            let at = random.usize(..log.len());
            damaged[at] ^= 1 << random.u8(0..8);
            let read: Vec<_> = SiltLogScan::new(1, &damaged).collect();
            let before = ends.partition_point(|&end| end <= at as u64);
            let all = SiltLogScan::new(1, &log);
            assert!(
                read.iter()
                    .zip(all)
                    .take(before)
                    .all(|(read, expected)| *read == expected)
            );
            assert!(read.len() == before || read.len() == 50, "{} at {at}", read.len());
        }
    }
}
