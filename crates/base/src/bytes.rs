//! Encodes and decodes little-endian integers, varints and raw bytes. Only files named `format.rs`
//! use this module.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use thiserror::Error;

/// The error for input that ends early or contains an invalid length or integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{wanted} bytes are needed at offset {at}, but {left} are left")]
pub struct TruncatedInput {
    /// Offset in the slice at which the failed read started.
    pub at: usize,
    /// Number of bytes that the failed read needed.
    pub wanted: usize,
    /// Number of bytes that were left at that offset.
    pub left: usize,
}

/// A cursor over untrusted bytes. Every read is bounds-checked and returns an error if too few
/// bytes are left.
///
/// ```
/// use alluvium_base::bytes::ByteReader;
/// let mut reader = ByteReader::new(&[1, 0, 2, 0, 0, 0, 9]);
/// assert_eq!(reader.u16().unwrap(), 1);
/// assert_eq!(reader.u32().unwrap(), 2);
/// assert!(reader.u64().is_err(), "one byte is left");
/// ```
#[derive(Clone, Debug)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

macro_rules! read_integers {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!("The next `", stringify!($type), "`, little-endian.\n\n# Errors\n[`TruncatedInput`] when the bytes end first.")]
        pub fn $name(&mut self) -> Result<$type, TruncatedInput> {
            let mut raw = [0u8; size_of::<$type>()];
            raw.copy_from_slice(self.take(size_of::<$type>())?);
            Ok(<$type>::from_le_bytes(raw))
        }
    )*};
}

impl<'a> ByteReader<'a> {
    /// Creates a reader that starts at the first byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        ByteReader { bytes, at: 0 }
    }

    read_integers!(u8: u8, u16: u16, u32: u32, u64: u64, u128: u128);

    /// Reads the next `len` bytes.
    ///
    /// # Errors
    /// [`TruncatedInput`] if fewer than `len` bytes are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], TruncatedInput> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..len) else {
            return Err(TruncatedInput {
                at: self.at,
                wanted: len,
                left: rest.len(),
            });
        };
        self.at += len;
        Ok(taken)
    }

    /// Reads an unsigned LEB128 integer of at most ten bytes.
    ///
    /// # Errors
    /// [`TruncatedInput`] if the input ends before the integer does, or if the integer does not fit
    /// into 64 bits.
    pub fn varint(&mut self) -> Result<u64, TruncatedInput> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let low = u64::from(byte & 0x7f);
            if shift == 63 && low > 1 {
                break;
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(TruncatedInput {
            at: start,
            wanted: 10,
            left: self.bytes.len() - start,
        })
    }

    /// Returns the number of bytes that have not been read yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns the number of bytes that have been read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }
}

/// A writer that appends little-endian integers to a byte vector.
///
/// ```
/// use alluvium_base::bytes::{ByteReader, ByteWriter};
/// let mut bytes = Vec::new();
/// ByteWriter::new(&mut bytes).u16(7).varint(300).bytes(b"xy");
/// let mut reader = ByteReader::new(&bytes);
/// assert_eq!((reader.u16().unwrap(), reader.varint().unwrap()), (7, 300));
/// assert_eq!(reader.take(2).unwrap(), b"xy");
/// ```
#[derive(Debug)]
pub struct ByteWriter<'a> {
    out: &'a mut Vec<u8>,
}

macro_rules! write_integers {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!("Appends a `", stringify!($type), "`, little-endian.")]
        pub fn $name(&mut self, value: $type) -> &mut Self {
            self.out.extend_from_slice(&value.to_le_bytes());
            self
        }
    )*};
}

impl<'a> ByteWriter<'a> {
    /// Creates a writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        ByteWriter { out }
    }

    write_integers!(u8: u8, u16: u16, u32: u32, u64: u64, u128: u128);

    /// Appends bytes unchanged, without a length prefix.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend_from_slice(bytes);
        self
    }

    /// Appends an unsigned LEB128 integer.
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.out.push((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(a: u8, b: u16, c: u32, d: u64, e: u128, v: u64, tail: Vec<u8>) {
            let mut bytes = Vec::new();
            ByteWriter::new(&mut bytes).u8(a).u16(b).u32(c).u64(d).u128(e).varint(v).bytes(&tail);
            let mut reader = ByteReader::new(&bytes);
            prop_assert_eq!(reader.u8().unwrap(), a);
            prop_assert_eq!(reader.u16().unwrap(), b);
            prop_assert_eq!(reader.u32().unwrap(), c);
            prop_assert_eq!(reader.u64().unwrap(), d);
            prop_assert_eq!(reader.u128().unwrap(), e);
            prop_assert_eq!(reader.varint().unwrap(), v);
            prop_assert_eq!(reader.take(reader.remaining()).unwrap(), &tail[..]);
        }

        #[test]
        fn no_bytes_make_a_reader_panic(bytes: Vec<u8>, wants in proptest::collection::vec(0usize..40, 0..20)) {
            let mut reader = ByteReader::new(&bytes);
            for want in wants {
                let before = reader.position();
                let _ = if want < 10 { reader.varint().map(|_| ()) } else { reader.take(want).map(|_| ()) };
                prop_assert!(reader.position() >= before && reader.position() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_varint_that_does_not_fit_is_refused() {
        assert!(ByteReader::new(&[0xff; 10]).varint().is_err());
        assert_eq!(
            ByteReader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).varint(),
            Ok(u64::MAX)
        );
    }
}
