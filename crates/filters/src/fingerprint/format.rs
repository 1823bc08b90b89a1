//! Encoding of a fingerprint function, version 1. All integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  version, 1
//!      1     1  bits of a fingerprint, 8 to 128
//!      2     2  independence: how many keys have independent fingerprints; 0 for XXH3
//!      4     4  zero
//!      8    16  seed
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{FingerprintFamily, HashIndependence};
use crate::{Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter};

const VERSION: u8 = 1;

impl FingerprintFamily {
    /// Length of an encoded fingerprint function, in bytes.
    pub const BYTES: usize = 24;

    /// Encodes the fingerprint function.
    ///
    /// ```
    /// use alluvium_filters::fingerprint::{FingerprintFamily, HashIndependence};
    /// let family = FingerprintFamily::new(9, 64, HashIndependence::Words(16)).unwrap();
    /// let again = FingerprintFamily::decode(&family.encode()).unwrap();
    /// assert_eq!(again.of(b"key"), family.of(b"key"));
    /// ```
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        ByteWriter::new(&mut bytes)
            .u8(VERSION)
            .u8(self.width() as u8)
            .u16(match self.independence() {
                HashIndependence::Words(words) => words,
                HashIndependence::Assumed => 0,
            })
            .u32(0)
            .u128(self.seed());
        bytes
    }

    /// Decodes a fingerprint function.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bytes are not a valid fingerprint function.
    pub fn decode(bytes: &[u8]) -> Result<FingerprintFamily> {
        let mut reader = ByteReader::new(bytes);
        let (version, width, words, zero, seed) = (
            reader.u8()?,
            reader.u8()?,
            reader.u16()?,
            reader.u32()?,
            reader.u128()?,
        );
        for (what, found, expected) in [
            (
                "version of a fingerprint function",
                u64::from(version),
                u64::from(VERSION),
            ),
            ("padding of a fingerprint function", u64::from(zero), 0),
            ("bytes after a fingerprint function", reader.remaining() as u64, 0),
        ] {
            if found != expected {
                return Err(Error::damaged_bits(
                    0,
                    what,
                    expected.to_string(),
                    found.to_string(),
                ));
            }
        }
        let independence = if words == 0 {
            HashIndependence::Assumed
        } else {
            HashIndependence::Words(words)
        };
        FingerprintFamily::new(seed, u32::from(width), independence)
            .map_err(|error| Error::damaged_bits(0, "fingerprint function", "a valid one", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_never_change() {
        let family = FingerprintFamily::new(0x0102, 64, HashIndependence::Words(32)).unwrap();
        let mut expected = vec![1, 64, 32, 0, 0, 0, 0, 0, 2, 1];
        expected.resize(24, 0);
        assert_eq!(family.encode(), expected);
    }

    #[test]
    fn wrong_bytes_are_errors() {
        let good = FingerprintFamily::new(7, 64, HashIndependence::Assumed)
            .unwrap()
            .encode();
        for at in 0..good.len() {
            assert!(FingerprintFamily::decode(&good[..at]).is_err());
        }
        for (at, value) in [(0, 2), (1, 7), (1, 129), (4, 1), (2, 255), (3, 255)] {
            let mut bad = good.clone();
            bad[at] = value;
            let wanted = at == 2;
            assert_eq!(FingerprintFamily::decode(&bad).is_ok(), wanted, "{at} {value}");
        }
        let mut long = good;
        long.push(0);
        assert!(FingerprintFamily::decode(&long).is_err());
    }
}
