//! Encoding of the frame that all packed structures share. Integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic
//!      4     1  version
//!      5     n  the structure
//!  5 + n     8  XXH3-64 of everything before
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::PackedViolation;
use crate::{Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum;

/// Length of the checksum at the end, in bytes.
pub(crate) const CHECKSUM_BYTES: u64 = 8;

/// A kind of packed structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedFrame {
    /// Name of this kind of structure, for error messages.
    pub(crate) structure: &'static str,
    pub(crate) magic: [u8; 4],
    pub(crate) version: u8,
}

impl PackedFrame {
    /// Writes the magic bytes and the version.
    pub(crate) fn begin(&self, bytes: &mut Vec<u8>) {
        ByteWriter::new(bytes).bytes(&self.magic).u8(self.version);
    }

    /// Checks the magic bytes and the version, calls `read` on the bytes after them, and returns
    /// its result.
    pub(crate) fn open<'b, T>(
        &self,
        bytes: &'b [u8],
        read: impl FnOnce(&mut ByteReader<'b>) -> std::result::Result<T, TruncatedInput>,
    ) -> Result<T> {
        let mut reader = ByteReader::new(bytes);
        let head = || Ok((reader.take(self.magic.len())?, reader.u8()?, read(&mut reader)?));
        let (magic, version, header) = head().map_err(|short: TruncatedInput| {
            let expected = format!("{} bytes or more", short.at + short.wanted);
            self.damaged(0, "length", expected, bytes.len().to_string())
        })?;
        if magic != self.magic || version != self.version {
            let expected = format!("{} {}", self.magic.escape_ascii(), self.version);
            let found = format!("{} {version}", magic.escape_ascii());
            return Err(self.damaged(0, "magic and version", expected, found));
        }
        Ok(header)
    }

    /// Checks the number of bytes. `expected` is `None` if it would exceed the address space.
    pub(crate) fn check_len(&self, bytes: &[u8], expected: Option<u64>) -> Result<()> {
        let len = bytes.len() as u64;
        if expected == Some(len) {
            return Ok(());
        }
        let expected = expected.map_or("less".to_owned(), |expected| expected.to_string());
        Err(self.damaged(0, "length in bytes", expected, len.to_string()))
    }

    /// Returns the error for bytes that violate the format.
    #[cold]
    pub(crate) fn damaged(
        &self,
        at: u64,
        what: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        Error::damaged(self.structure, at, what, expected, found)
    }
}

/// Appends the checksum of all bytes written so far.
pub(crate) fn seal(bytes: &mut Vec<u8>) {
    let sum = checksum(bytes);
    ByteWriter::new(bytes).u64(sum);
}

/// Writes the checksum of the first `len` bytes after them. Returns the length including the
/// checksum, or `None` if `space` is too short.
pub(crate) fn put_checksum(space: &mut [u8], len: usize) -> Option<usize> {
    let sum = checksum(space.get(..len)?);
    *space.get_mut(len..)?.first_chunk_mut()? = sum.to_le_bytes();
    Some(len + CHECKSUM_BYTES as usize)
}

/// Returns a violation if the checksum at the end of the bytes is wrong.
pub(crate) fn wrong_checksum(bytes: &[u8]) -> Option<PackedViolation> {
    let (rest, stored) = bytes.split_last_chunk()?;
    let (stored, computed) = (u64::from_le_bytes(*stored), checksum(rest));
    let text = format!("checksum {stored:016x} should be {computed:016x}");
    (stored != computed).then(|| PackedViolation::of_all(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: PackedFrame = PackedFrame {
        structure: "test",
        magic: *b"TEST",
        version: 3,
    };

    #[test]
    fn the_bytes_of_a_frame_are_these() {
        let mut bytes = Vec::new();
        FRAME.begin(&mut bytes);
        bytes.extend([7, 0]);
        seal(&mut bytes);
        let mut expected = b"TEST\x03\x07\0".to_vec();
        expected.extend(checksum(&expected).to_le_bytes());
        assert_eq!(bytes, expected);
        bytes[7..].fill(0);
        assert_eq!(put_checksum(&mut bytes, 7), Some(15));
        assert_eq!(bytes, expected);
    }

    #[test]
    fn wrong_bytes_are_told() {
        let mut bytes = b"TEST\x03\x07\0".to_vec();
        seal(&mut bytes);
        let open = |bytes: &[u8]| {
            FRAME
                .open(bytes, ByteReader::u16)
                .map_err(|error| error.to_string())
        };
        assert_eq!(open(&bytes), Ok(7));
        assert!(wrong_checksum(&bytes).is_none());
        assert!(
            open(&bytes[..6])
                .unwrap_err()
                .contains("7 bytes or more, found 6")
        );
        bytes[4] = 4;
        assert!(open(&bytes).unwrap_err().contains("TEST 3, found TEST 4"));
        assert!(
            wrong_checksum(&bytes)
                .unwrap()
                .to_string()
                .starts_with("checksum ")
        );
        assert!(FRAME.check_len(&bytes, Some(15)).is_ok());
        let long = FRAME.check_len(&bytes, Some(16)).unwrap_err().to_string();
        assert!(long.contains("16, found 15"), "{long}");
        assert!(FRAME.check_len(&bytes, None).is_err());
    }
}
