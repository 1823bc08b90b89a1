//! The encoding of a tree for a parallel device, version 1. All integers are little-endian.
//!
//! The header is at offset 0, padded to a block of the tree.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  magic: "alvpdam\0"
//!      8     4  version: 1
//!     12     4  bytes of a block
//!     16     4  blocks of a node
//!     20     4  bytes of a key
//!     24     4  bytes of a value
//!     28     4  0
//!     32     8  the tree's id
//!     40     8  keys
//!     48     8  checksum of bytes 0 to 47 (XXH3-64)
//! ```
//!
//! Each block after it:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  checksum of the rest of the block (XXH3-64), seeded with id + number · 2^64/φ;
//!               the block's number counts from the header, which is 0
//!      8        entries: in a leaf key and value, elsewhere a key; zeros where there are none
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::shape::PdamShape;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum::{checksum, seeded};
use alluvium_storage::{DiskLocation, Error, Result};

const MAGIC: &[u8; 8] = b"alvpdam\0";
const VERSION: u32 = 1;

/// The size of the header in bytes.
pub const HEADER: usize = 56;

/// The number of bytes before the entries of a block.
pub const BLOCK_HEAD: usize = 8;

/// 2^64 / φ, rounded to an odd number: neighbouring blocks get seeds that are far apart.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The decoded contents of the first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PdamHeader {
    /// The sizes of blocks, nodes and entries.
    pub shape: PdamShape,
    /// The number that distinguishes the tree's blocks from those of other trees.
    pub id: u64,
    pub keys: u64,
}

impl PdamHeader {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER);
        ByteWriter::new(&mut out)
            .bytes(MAGIC)
            .u32(VERSION)
            .u32(self.shape.block_bytes())
            .u32(self.shape.node_blocks())
            .u32(self.shape.key_bytes())
            .u32(self.shape.value_bytes())
            .u32(0)
            .u64(self.id)
            .u64(self.keys);
        let sum = checksum(&out);
        ByteWriter::new(&mut out).u64(sum);
        debug_assert_eq!(out.len(), HEADER, "as the table says");
        out
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place`, or [`Error::NewerFormat`].
    pub fn decode(bytes: &[u8], place: &DiskLocation) -> Result<PdamHeader> {
        let bad = |expected: &str, found: String| Error::corrupt(place.clone(), expected, found);
        let cut = |cut: TruncatedInput| bad("the header of a tree", cut.to_string());
        let mut reader = ByteReader::new(bytes);
        let magic = reader.take(MAGIC.len()).map_err(cut)?;
        if magic != MAGIC {
            return Err(bad("the header of a tree", format!("{}", magic.escape_ascii())));
        }
        let version = reader.u32().map_err(cut)?;
        if version > VERSION {
            return Err(Error::NewerFormat {
                place: place.clone(),
                found: version,
                supported: VERSION,
            });
        }
        let mut sizes = [0; 5];
        for size in &mut sizes {
            *size = reader.u32().map_err(cut)?;
        }
        let (id, keys) = (reader.u64().map_err(cut)?, reader.u64().map_err(cut)?);
        let covered = bytes.get(..reader.position()).unwrap_or_default();
        let (wanted, found) = (checksum(covered), reader.u64().map_err(cut)?);
        if wanted != found {
            return Err(bad(&format!("checksum {wanted:#018x}"), format!("{found:#018x}")));
        }
        let [block, nodes, key, value, zero] = sizes;
        if version != VERSION || zero != 0 {
            let found = format!("version {version}, reserved bytes {zero}");
            return Err(bad("version 1, reserved bytes 0", found));
        }
        let shape = PdamShape::new(block, nodes, key, value)
            .map_err(|why| bad("sizes of a tree", why.to_string()))?;
        Ok(PdamHeader { shape, id, keys })
    }
}

fn seed(id: u64, number: u64) -> u64 {
    id.wrapping_add(number.wrapping_mul(SPREAD))
}

/// Completes a block with its entries in place: writes the checksum in front of them.
pub fn seal(block: &mut [u8], id: u64, number: u64) {
    if let Some((head, entries)) = block.split_first_chunk_mut::<BLOCK_HEAD>() {
        *head = seeded(seed(id, number), entries).to_le_bytes();
    }
}

/// Returns the entries of a block.
///
/// # Errors
/// [`Error::Corrupt`] at `place` unless it is the block with this number of the tree (PD3).
pub fn entries(block: &[u8], id: u64, number: u64, place: impl FnOnce() -> DiskLocation) -> Result<&[u8]> {
    let Some((head, entries)) = block.split_first_chunk::<BLOCK_HEAD>() else {
        let found = format!("{} bytes", block.len());
        return Err(Error::corrupt(place(), "a block", found));
    };
    let (wanted, found) = (seeded(seed(id, number), entries), u64::from_le_bytes(*head));
    if wanted != found {
        let wanted = format!("checksum {wanted:#018x}");
        return Err(Error::corrupt(place(), wanted, format!("{found:#018x}")));
    }
    Ok(entries)
}

/// Returns the range of an entry within the entries of a block; `None` if it is beyond the end.
#[must_use]
pub fn entry(entries: &[u8], index: usize, bytes: usize) -> Option<&[u8]> {
    let start = index.checked_mul(bytes)?;
    entries.get(start..start.checked_add(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::OnDiskObject;

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "tree", 512)
    }

    fn example() -> PdamHeader {
        PdamHeader {
            shape: PdamShape::new(4096, 8, 16, 100).unwrap(),
            id: 0x0102_0304_0506_0708,
            keys: 1000,
        }
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let bytes = example().encode();
        let start = b"alvpdam\0\x01\0\0\0\0\x10\0\0\x08\0\0\0\x10\0\0\0\x64\0\0\0\0\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01\xe8\x03\0\0\0\0\0\0";
        assert_eq!(&bytes[..48], start);
        assert_eq!(bytes[48..], checksum(start).to_le_bytes());
        assert_eq!(PdamHeader::decode(&bytes, &place()).unwrap(), example());
        let mut block = [0; 16];
        block[8..].copy_from_slice(b"ABCDEFGH");
        seal(&mut block, 7, 1);
        assert_eq!(
            block[..8],
            seeded(0x9E37_79B9_7F4A_7C1C, b"ABCDEFGH").to_le_bytes()
        );
        let found = entries(&block, 7, 1, place).unwrap();
        assert_eq!(entry(found, 1, 4), Some(&b"EFGH"[..]));
        assert_eq!((entry(found, 2, 4), entry(found, usize::MAX, 4)), (None, None));
    }

    #[test]
    fn damage_is_an_error_with_the_place() {
        let bytes = example().encode();
        for len in 0..HEADER {
            assert!(PdamHeader::decode(&bytes[..len], &place()).is_err(), "{len}");
            let mut damaged = bytes.clone();
            damaged[len] ^= 0x10;
            let error = PdamHeader::decode(&damaged, &place()).unwrap_err().to_string();
            assert!(error.contains("tree") && error.contains("offset 512"), "{error}");
        }
        let mut newer = bytes.clone();
        newer[8] = 2;
        let found = PdamHeader::decode(&newer, &place());
        assert!(matches!(found, Err(Error::NewerFormat { found: 2, .. })));
        let mut block = [3; 512];
        seal(&mut block, 1, 9);
        assert!(entries(&block, 1, 9, place).is_ok());
        for (id, number) in [(2, 9), (1, 8), (1, 0)] {
            assert!(
                entries(&block, id, number, place).is_err(),
                "another block's place"
            );
        }
        for at in [0, 7, 8, 511] {
            let mut damaged = block;
            damaged[at] ^= 1;
            assert!(entries(&damaged, 1, 9, place).is_err(), "byte {at}");
        }
        assert!(entries(&block[..7], 1, 9, place).is_err());
    }
}
