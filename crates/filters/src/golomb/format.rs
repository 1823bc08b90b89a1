//! Encoding of difference lists as bits, version 1: how integers are packed into bytes, and the
//! header of a list.
//!
//! The bits of a byte are used from the lowest to the highest, and the lowest bit of an integer is
//! written first. With parameter k, a difference d is encoded as ⌊d / 2^k⌋ ones, a zero, and the k
//! lowest bits of d. The entry's payload follows. The last byte is padded with zeros.
//!
//! A self-contained list is encoded as follows:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  version, 1
//!      1     1  bits of an entry (the universe), 1 to 63
//!      2     1  bits of a payload, 0 to 128
//!      3     1  parameter k
//!      4     4  zero
//!      8     8  how many entries
//!     16     …  entries: delta from the entry before (the first from zero), payload
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{DeltaCoder, RiceCode};
use crate::{Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 16;

/// Source of the bytes for a bit reader: a slice, or a stream that is read block by block.
pub trait ByteSource {
    /// Error for bytes that cannot be read, or for invalid bits.
    type Error: From<Error>;

    /// Returns the next byte, or `None` at the end of the source.
    ///
    /// # Errors
    /// If the byte cannot be read.
    fn byte(&mut self) -> std::result::Result<Option<u8>, Self::Error>;
}

impl ByteSource for &[u8] {
    type Error = Error;

    fn byte(&mut self) -> Result<Option<u8>> {
        let Some((&first, rest)) = self.split_first() else {
            return Ok(None);
        };
        *self = rest;
        Ok(Some(first))
    }
}

/// Bit writer, whose complete bytes can be taken at any time.
#[derive(Clone, Debug, Default)]
pub struct StreamBitWriter {
    bytes: Vec<u8>,
    word: u64,
    filled: u32,
    bits: u64,
}

impl StreamBitWriter {
    #[must_use]
    pub fn new() -> StreamBitWriter {
        StreamBitWriter::default()
    }

    /// Appends the lowest `bits` bits of `value`, at most 56.
    #[inline]
    pub fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= 56, "{bits} bits");
        self.word |= (value & ((1 << bits) - 1)) << self.filled;
        self.filled += bits;
        self.bits += u64::from(bits);
        while self.filled >= 8 {
            self.bytes.push(self.word as u8);
            self.word >>= 8;
            self.filled -= 8;
        }
    }

    /// Appends the lowest `bits` bits of `value`, at most 128.
    #[inline]
    pub fn put_wide(&mut self, value: u128, bits: u32) {
        let mut done = 0;
        while done < bits {
            let step = (bits - done).min(56);
            self.put((value >> done) as u64, step);
            done += step;
        }
    }

    /// Appends `count` ones, followed by a zero.
    #[inline]
    pub fn unary(&mut self, mut count: u64) {
        while count >= 32 {
            self.put(u64::MAX, 32);
            count -= 32;
        }
        self.put((1 << count) - 1, count as u32 + 1);
    }

    /// Returns the number of bits appended so far.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Returns the number of complete bytes that have not been taken yet.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.bytes.len()
    }

    /// Removes and returns the complete bytes. The bits of the last, partial byte stay in the
    /// writer.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Pads the last byte with zeros, and returns all bytes that have not been taken yet.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if self.filled > 0 {
            self.bytes.push(self.word as u8);
        }
        self.bytes
    }
}

/// Bit reader over a byte source.
#[derive(Clone, Debug)]
pub struct BitReader<S> {
    source: S,
    word: u64,
    filled: u32,
    position: u64,
}

impl<S: ByteSource> BitReader<S> {
    /// Creates a reader at bit 0 of the source.
    pub fn new(source: S) -> BitReader<S> {
        BitReader {
            source,
            word: 0,
            filled: 0,
            position: 0,
        }
    }

    /// Returns the number of bits read so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Reads `bits` bits, at most 56, as a number.
    ///
    /// # Errors
    /// If the source has fewer bits left, or cannot be read.
    #[inline]
    pub fn get(&mut self, bits: u32) -> std::result::Result<u64, S::Error> {
        debug_assert!(bits <= 56, "{bits} bits");
        while self.filled < bits {
            let Some(byte) = self.source.byte()? else {
                let (wanted, left) = (format!("{bits} bits"), self.filled.to_string());
                return Err(Error::damaged_bits(self.position, "list", wanted, left).into());
            };
            self.word |= u64::from(byte) << self.filled;
            self.filled += 8;
        }
        let value = self.word & ((1 << bits) - 1);
        self.word >>= bits;
        self.filled -= bits;
        self.position += u64::from(bits);
        Ok(value)
    }

    /// Reads `bits` bits, at most 128, as a number.
    ///
    /// # Errors
    /// The same errors as [`BitReader::get`].
    #[inline]
    pub fn get_wide(&mut self, bits: u32) -> std::result::Result<u128, S::Error> {
        let (mut value, mut done) = (0, 0);
        while done < bits.min(128) {
            let step = (bits - done).min(56);
            value |= u128::from(self.get(step)?) << done;
            done += step;
        }
        Ok(value)
    }

    /// Reads ones up to and including the next zero. Returns the number of ones.
    ///
    /// # Errors
    /// The same errors as [`BitReader::get`], and an error if there are more than `most` ones.
    #[inline]
    pub fn unary(&mut self, most: u64) -> std::result::Result<u64, S::Error> {
        let mut count = 0;
        loop {
            if self.filled == 0 {
                let bit = self.get(1)?;
                if bit == 0 {
                    return Ok(count);
                }
                count += 1;
            }
            let ones = u64::from((!self.word).trailing_zeros().min(self.filled));
            count += ones;
            if count > most {
                let found = format!("{count} or more");
                return Err(Error::damaged_bits(
                    self.position,
                    "ones of a delta",
                    format!("at most {most}"),
                    found,
                )
                .into());
            }
            self.word >>= ones;
            self.filled -= ones as u32;
            self.position += ones;
            if self.filled > 0 {
                self.get(1)?;
                return Ok(count);
            }
        }
    }
}

/// Encodes entries, which must be sorted, and their payloads as a self-contained list.
///
/// ```
/// use alluvium_filters::golomb::{decode, encode};
/// let bytes = encode(16, 3, &[(5, 1), (5, 7), (900, 0)]);
/// assert_eq!(decode(&bytes).unwrap(), [(5, 1), (5, 7), (900, 0)]);
/// ```
///
/// # Panics
/// If the entries are not sorted, or if an entry or a payload has too many bits.
#[must_use]
pub fn encode(universe_bits: u32, payload_bits: u32, entries: &[(u64, u128)]) -> Vec<u8> {
    assert!(
        (1..=63).contains(&universe_bits) && payload_bits <= 128,
        "a list has a shape"
    );
    let rice = RiceCode::new(entries.len() as u64, universe_bits);
    let mut bytes = Vec::new();
    ByteWriter::new(&mut bytes)
        .u8(VERSION)
        .u8(universe_bits as u8)
        .u8(payload_bits as u8)
        .u8(rice.parameter() as u8)
        .u32(0)
        .u64(entries.len() as u64);
    let (mut bits, mut delta) = (StreamBitWriter::new(), DeltaCoder::new(rice, 0));
    for &(entry, payload) in entries {
        assert!(
            entry >> universe_bits == 0,
            "{entry} is not of {universe_bits} bits"
        );
        assert!(
            payload_bits == 128 || payload >> payload_bits == 0,
            "{payload} has over {payload_bits} bits"
        );
        delta.write(&mut bits, entry);
        bits.put_wide(payload, payload_bits);
    }
    bytes.extend(bits.finish());
    bytes
}

/// Decodes a self-contained list. Returns its entries and their payloads.
///
/// # Errors
/// [`Error::Damaged`] if the bytes are not a valid list.
pub fn decode(bytes: &[u8]) -> Result<Vec<(u64, u128)>> {
    let mut header = ByteReader::new(bytes);
    let (version, universe, payload_bits, parameter, zero, count) = (
        header.u8()?,
        header.u8()?,
        header.u8()?,
        header.u8()?,
        header.u32()?,
        header.u64()?,
    );
    let wrong = |what, expected: &str, found: u64| Error::damaged_bits(0, what, expected, found.to_string());
    if version != VERSION || zero != 0 {
        return Err(wrong("version of a list", "1, then zeros", u64::from(version)));
    }
    if !(1..=63).contains(&universe) || payload_bits > 128 {
        return Err(wrong(
            "bits of an entry",
            "1 to 63, with a payload of at most 128",
            u64::from(universe),
        ));
    }
    let rice = RiceCode::new(count, u32::from(universe));
    if u32::from(parameter) != rice.parameter() {
        return Err(wrong(
            "parameter of a list",
            &rice.parameter().to_string(),
            u64::from(parameter),
        ));
    }
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let smallest = u64::from(rice.parameter()) + 1 + u64::from(payload_bits);
    if count > body.len() as u64 * 8 / smallest {
        return Err(wrong("entries of a list", "as many as its bytes can hold", count));
    }
    let (mut bits, mut delta) = (BitReader::new(body), DeltaCoder::new(rice, 0));
    let mut entries = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let entry = delta.read(&mut bits, (1 << universe) - 1)?;
        entries.push((entry, bits.get_wide(u32::from(payload_bits))?));
    }
    let read = bits.position().div_ceil(8);
    if read != body.len() as u64 {
        return Err(Error::damaged_bits(
            bits.position(),
            "end of a list",
            read.to_string(),
            body.len().to_string(),
        ));
    }
    Ok(entries)
}
