//! The encoding of a record, version 1. All integers are little-endian; lengths are LEB128.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  bit 0: a delete; bit 1: key and value are outside
//!      1     1  index of the run before that holds the prefix; its own for none
//!      2     8  fingerprint, its first 64 bits; 16 bytes where fingerprints are longer
//!      …     …  length of what follows
//!      …     …  length of the key, key, value; or
//!               place (8) and length (8) of the extent that holds those
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{MAX_BYTES, RecordBody, TableRecord};
use crate::blocks::{BlockExtent, BlockStreamReader as Stream, Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_filters::fingerprint::WideFingerprint;
use alluvium_filters::golomb::ByteSource as _;

/// A source from which records are decoded.
pub(crate) trait RecordSource {
    fn take(&mut self, bytes: u64, out: &mut Vec<u8>) -> Result<()>;
    fn byte(&mut self) -> Result<Option<u8>>;
    fn place(&self) -> u64;
    fn left(&self) -> u64;
}

impl RecordSource for Stream<'_> {
    fn take(&mut self, bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        Stream::take(self, bytes, out)
    }

    fn byte(&mut self) -> Result<Option<u8>> {
        alluvium_filters::golomb::ByteSource::byte(self)
    }

    fn place(&self) -> u64 {
        Stream::place(self)
    }

    fn left(&self) -> u64 {
        Stream::left(self)
    }
}

/// Bytes in memory, with the offset from which they were read.
pub(crate) struct SliceSource<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) place: u64,
}

impl RecordSource for SliceSource<'_> {
    fn take(&mut self, bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        let taken = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| self.bytes.split_at_checked(bytes));
        let Some((taken, rest)) = taken else {
            return Err(Error::damaged(
                self.place,
                "length",
                format!("at most {}", self.bytes.len()),
                bytes,
            ));
        };
        out.extend_from_slice(taken);
        self.place += bytes;
        self.bytes = rest;
        Ok(())
    }

    fn byte(&mut self) -> Result<Option<u8>> {
        self.place += 1;
        Ok(self.bytes.byte()?)
    }

    fn place(&self) -> u64 {
        self.place
    }

    fn left(&self) -> u64 {
        self.bytes.len() as u64
    }
}

fn varint(source: &mut impl RecordSource) -> Result<u64> {
    let at = source.place();
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let Some(byte) = source.byte()? else { break };
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::damaged(
        at,
        "length",
        "at most five bytes",
        "more, or the end",
    ))
}

fn width_bytes(width: u32) -> u64 {
    if width > 64 { 16 } else { 8 }
}

/// Returns the maximum size of a record whose body has `body` bytes.
pub(crate) fn entry_bytes(width: u32, body: u64) -> u64 {
    2 + width_bytes(width) + varint_bytes(body) + body
}

fn varint_bytes(value: u64) -> u64 {
    u64::from((64 - (value | 1).leading_zeros()).div_ceil(7))
}

pub(super) fn join(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(5 + key.len() + value.len());
    ByteWriter::new(&mut bytes)
        .varint(key.len() as u64)
        .bytes(key)
        .bytes(value);
    bytes
}

/// Splits a body into key and value.
pub(super) fn split(body: &[u8]) -> Result<(&[u8], &[u8])> {
    let mut reader = ByteReader::new(body);
    let key = reader.varint()?;
    let key = reader.take(usize::try_from(key).unwrap_or(usize::MAX))?;
    let value = reader.take(reader.remaining())?;
    Ok((key, value))
}

impl TableRecord {
    /// Returns the encoded size of the record in bytes.
    pub(crate) fn bytes(&self, width: u32) -> u64 {
        let body = match &self.body {
            RecordBody::Here(bytes) => bytes.len() as u64,
            RecordBody::Outside(_) => 16,
        };
        entry_bytes(width, body)
    }

    pub(crate) fn encode(&self, width: u32, out: &mut Vec<u8>) {
        let outside = matches!(self.body, RecordBody::Outside(_));
        let mut writer = ByteWriter::new(out);
        writer
            .u8(u8::from(self.tombstone) | u8::from(outside) << 1)
            .u8(self.previous);
        if width > 64 {
            writer.u128(self.fingerprint.0);
        } else {
            writer.u64((self.fingerprint.0 >> 64) as u64);
        }
        match &self.body {
            RecordBody::Here(bytes) => writer.varint(bytes.len() as u64).bytes(bytes),
            RecordBody::Outside(extent) => writer.varint(16).u64(extent.at).u64(extent.bytes),
        };
    }
}

/// Decodes the next record, whose fingerprint has `width` bits.
pub(crate) fn decode(source: &mut impl RecordSource, width: u32) -> Result<TableRecord> {
    let at = source.place();
    let mut head = Vec::with_capacity(18);
    source.take(2 + width_bytes(width), &mut head)?;
    let mut reader = ByteReader::new(&head);
    let (flags, previous) = (reader.u8()?, reader.u8()?);
    let fingerprint = if width > 64 {
        reader.u128()?
    } else {
        u128::from(reader.u64()?) << 64
    };
    if flags > 3 || fingerprint << (width - 1) << 1 != 0 {
        return Err(Error::damaged(
            at,
            "record",
            "known flags and a fingerprint of its length",
            flags,
        ));
    }
    let length = varint(source)?;
    if length > 2 * MAX_BYTES as u64 + 16 || length > source.left() {
        return Err(Error::damaged(
            at,
            "length of a record",
            format!("at most {}", source.left()),
            length,
        ));
    }
    let mut body = Vec::with_capacity(length as usize);
    source.take(length, &mut body)?;
    let body = if flags & 2 == 0 {
        split(&body).map_err(|error| error.within(at))?;
        RecordBody::Here(body)
    } else {
        let mut reader = ByteReader::new(&body);
        let extent = BlockExtent {
            at: reader.u64()?,
            bytes: reader.u64()?,
        };
        if reader.remaining() > 0 || extent.end().is_none() {
            return Err(Error::damaged(
                at,
                "place of a record",
                "an extent",
                format!("{extent:?}"),
            ));
        }
        RecordBody::Outside(extent)
    };
    Ok(TableRecord {
        fingerprint: WideFingerprint(fingerprint),
        tombstone: flags & 1 != 0,
        previous,
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], width: u32) -> Result<TableRecord> {
        decode(&mut SliceSource { bytes, place: 0 }, width)
    }

    #[test]
    fn the_bytes_never_change() {
        let mut entry = TableRecord::new(WideFingerprint(0xab << 120), b"key", Some(b"value")).unwrap();
        entry.previous = 3;
        let mut bytes = Vec::new();
        entry.encode(64, &mut bytes);
        assert_eq!(bytes, b"\x00\x03\0\0\0\0\0\0\0\xab\x09\x03keyvalue");
        assert_eq!(decoded(&bytes, 64).unwrap(), entry);
        entry.body = RecordBody::Outside(BlockExtent { at: 258, bytes: 7 });
        entry.tombstone = true;
        bytes.clear();
        entry.encode(64, &mut bytes);
        assert_eq!(
            bytes,
            b"\x03\x03\0\0\0\0\0\0\0\xab\x10\x02\x01\0\0\0\0\0\0\x07\0\0\0\0\0\0\0"
        );
        assert_eq!(
            (decoded(&bytes, 64).unwrap(), entry.bytes(64)),
            (entry, bytes.len() as u64)
        );
    }

    #[test]
    fn no_bytes_make_the_decoder_panic() {
        let mut random = fastrand::Rng::with_seed(5);
        let entry = TableRecord::new(WideFingerprint(u128::MAX), &[1; 20], Some(&[2; 300])).unwrap();
        for width in [64, 128, 9] {
            let mut good = Vec::new();
            let entry = TableRecord {
                fingerprint: WideFingerprint(u128::MAX << (128 - width)),
                ..entry.clone()
            };
            entry.encode(width, &mut good);
            assert_eq!(
                (decoded(&good, width).unwrap(), entry.bytes(width)),
                (entry, good.len() as u64)
            );
            for cut in 0..good.len() {
                assert!(decoded(&good[..cut], width).is_err());
            }
            for _ in 0..3000 {
                let mut bad = good.clone();
                bad[random.usize(..30)] = random.u8(..);
                let _ = decoded(&bad, width);
            }
        }
    }
}
