//! On-disk encoding of a static data index, version 1. Integers are little-endian, except for
//! hashes.
//!
//! The index file is encoded as follows:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  magic "ALLUINDX"
//!      8     4  version, 1
//!     12     4  kind: 1 dense tries, 2 sparse tries, 3 block index
//!     16     8  seed of the hash
//!     24     4  bytes of a key
//!     28     4  bytes of a value
//!     32     4  bytes of a block
//!     36     4  keys of a trie on average
//!     40     4  up to how many keys tries are Huffman-coded
//!     44     4  zero
//!     48     8  records
//!     56     8  id of the file of records
//!     64     8  bytes of tries or block index: n
//!     72     8  XXH3-64 of bytes 0 to 71 and of the tries or the block index
//!     80     n  tries or block index, as the crate `filters` defines them
//! 80 + n     –  zero, up to a multiple of 512
//! ```
//!
//! The data file is a sequence of blocks, all of which are full except possibly the last:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     –  records in the order of their hashes: key, value
//!      –     –  zero
//!  b - 8     8  XXH3-64 of everything before, with the block's number as seed
//! ```
//!
//! The hash of a record consists of two XXH3-64 hashes of its key, each in big-endian order. The
//! first uses the seed, and the second uses the seed plus one. The ID of a data file starts as a
//! hash of the record and block lengths and the seed, and is then updated with the checksum of each
//! block.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::options::{FixedRecordLayout, StaticIndexKind};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum::{seeded, seeded_parts};

/// The format version that this code writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// Size of the header before the tries or the block index, in bytes.
pub const HEADER_BYTES: usize = 80;
/// Length of a hash in bytes.
pub const HASH_BYTES: usize = 16;
/// Length of a block's checksum in bytes.
pub const SUM_BYTES: usize = 8;

const MAGIC: &[u8; 8] = b"ALLUINDX";
const SUMMED: usize = 72;

/// Header of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFileHeader {
    pub kind: StaticIndexKind,
    /// Hash seed for keys.
    pub seed: u64,
    /// Lengths of records and blocks.
    pub shape: FixedRecordLayout,
    /// Average number of keys in a trie.
    pub keys_per_bucket: u32,
    /// Maximum number of keys in a Huffman-coded trie.
    pub hmax: u32,
    pub records: u64,
    /// ID of the data file, which is part of its name.
    pub data: u64,
}

/// Why bytes are not a valid index file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexFormatError {
    /// The file's format version, which is newer than the supported ones.
    Newer(u32),
    /// The file is damaged: the offset in bytes, what was expected there, and what was found.
    Damaged(u64, String, String),
}

impl IndexFileHeader {
    /// Encodes an index file with this header, without the zeros that pad the file to a multiple of
    /// 512 bytes.
    #[must_use]
    pub fn encode(&self, index: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + index.len());
        let kind = match self.kind {
            StaticIndexKind::Dense => 1,
            StaticIndexKind::Sparse => 2,
            StaticIndexKind::Blocks => 3,
        };
        ByteWriter::new(&mut out)
            .bytes(MAGIC)
            .u32(FORMAT_VERSION)
            .u32(kind)
            .u64(self.seed)
            .u32(self.shape.key_bytes)
            .u32(self.shape.value_bytes)
            .u32(self.shape.block_bytes)
            .u32(self.keys_per_bucket)
            .u32(self.hmax)
            .u32(0)
            .u64(self.records)
            .u64(self.data)
            .u64(index.len() as u64);
        let sum = seeded_parts(0, [&out, index]);
        ByteWriter::new(&mut out).u64(sum).bytes(index);
        out
    }

    /// Decodes an index file. Returns its header, and its tries or block index in encoded form.
    ///
    /// # Errors
    /// [`IndexFormatError`] if the bytes are not a valid index file.
    pub fn decode(bytes: &[u8]) -> Result<(IndexFileHeader, &[u8]), IndexFormatError> {
        let bad =
            |at, expected: &str, found: String| IndexFormatError::Damaged(at, expected.to_owned(), found);
        let short = |error: TruncatedInput| bad(0, "an index", error.to_string());
        let mut reader = ByteReader::new(bytes);
        let magic = reader.take(MAGIC.len()).map_err(short)?;
        if magic != MAGIC {
            return Err(bad(0, "ALLUINDX", magic.escape_ascii().to_string()));
        }
        let version = reader.u32().map_err(short)?;
        if version > FORMAT_VERSION {
            return Err(IndexFormatError::Newer(version));
        }
        let mut read = || -> Result<_, TruncatedInput> {
            let (kind, seed) = (reader.u32()?, reader.u64()?);
            let lengths = (reader.u32()?, reader.u32()?, reader.u32()?);
            let tries = (reader.u32()?, reader.u32()?, reader.u32()?);
            let counts = (reader.u64()?, reader.u64()?, reader.u64()?);
            Ok((kind, seed, lengths, tries, counts, reader.u64()?))
        };
        let (kind, seed, lengths, (keys_per_bucket, hmax, zero), counts, sum) = read().map_err(short)?;
        let (records, data, len) = counts;
        let rest = bytes.get(HEADER_BYTES..).unwrap_or_default();
        let index = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let index = index.ok_or_else(|| {
            let expected = format!("at most {} bytes of index", rest.len());
            bad(64, &expected, len.to_string())
        })?;
        let expected = seeded_parts(0, [bytes.get(..SUMMED).unwrap_or_default(), index]);
        if sum != expected {
            return Err(bad(
                SUMMED as u64,
                &format!("{expected:016x}"),
                format!("{sum:016x}"),
            ));
        }
        let kind = match (version, kind, zero) {
            (1, 1, 0) => StaticIndexKind::Dense,
            (1, 2, 0) => StaticIndexKind::Sparse,
            (1, 3, 0) => StaticIndexKind::Blocks,
            other => return Err(bad(8, "version 1 and a kind from 1 to 3", format!("{other:?}"))),
        };
        let shape = FixedRecordLayout {
            key_bytes: lengths.0,
            value_bytes: lengths.1,
            block_bytes: lengths.2,
        };
        shape
            .verify()
            .map_err(|error| bad(24, "valid lengths", error.to_string()))?;
        let header = IndexFileHeader {
            kind,
            seed,
            shape,
            keys_per_bucket,
            hmax,
            records,
            data,
        };
        Ok((header, index))
    }
}

/// Returns the hash that sorts and locates the record of a key.
#[must_use]
pub fn hash_of(seed: u64, key: &[u8]) -> [u8; HASH_BYTES] {
    let (first, second) = (seeded(seed, key), seeded(seed.wrapping_add(1), key));
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

/// Returns the first 64 bits of a hash as an integer.
#[must_use]
pub fn head_of(hash: &[u8; HASH_BYTES]) -> u64 {
    (u128::from_be_bytes(*hash) >> 64) as u64
}

/// Returns the initial ID of a data file, before any block is added.
#[must_use]
pub fn begin_id(seed: u64, shape: &FixedRecordLayout) -> u64 {
    let mut bytes = Vec::with_capacity(12);
    ByteWriter::new(&mut bytes)
        .u32(shape.key_bytes)
        .u32(shape.value_bytes)
        .u32(shape.block_bytes);
    seeded(seed, &bytes)
}

/// Completes block number `number`: fills it with zeros after its first `used` bytes, and writes
/// its checksum. Returns the data file's ID, updated with this block.
pub fn seal_block(number: u64, block: &mut [u8], used: usize, id: u64) -> u64 {
    let end = block.len().saturating_sub(SUM_BYTES);
    if let Some(space) = block.get_mut(used..end) {
        space.fill(0);
    }
    let sum = seeded(number, block.get(..end).unwrap_or_default()).to_le_bytes();
    if let Some(place) = block.get_mut(end..) {
        place.copy_from_slice(&sum);
    }
    seeded(id, &sum)
}

/// Verifies the checksum of block number `number`. Returns the data file's ID, updated with this
/// block.
///
/// # Errors
/// If the checksum is wrong, what was expected and what was found.
pub fn open_block(number: u64, block: &[u8], id: u64) -> Result<u64, (String, String)> {
    let Some((body, sum)) = block.split_last_chunk::<SUM_BYTES>() else {
        return Err(("a block".to_owned(), format!("{} bytes", block.len())));
    };
    let (expected, found) = (seeded(number, body), u64::from_le_bytes(*sum));
    if expected == found {
        Ok(seeded(id, sum))
    } else {
        Err((format!("checksum {expected:016x}"), format!("{found:016x}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: IndexFileHeader = IndexFileHeader {
        kind: StaticIndexKind::Sparse,
        seed: 7,
        shape: FixedRecordLayout {
            key_bytes: 20,
            value_bytes: 4,
            block_bytes: 512,
        },
        keys_per_bucket: 256,
        hmax: 64,
        records: 100,
        data: 0x0102_0304_0506_0708,
    };

    #[test]
    fn the_bytes_of_an_index_are_these() {
        let bytes = HEADER.encode(b"tries");
        let mut expected = b"ALLUINDX\x01\0\0\0\x02\0\0\0\x07\0\0\0\0\0\0\0\x14\0\0\0\x04\0\0\0".to_vec();
        expected.extend(b"\0\x02\0\0\0\x01\0\0\x40\0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0");
        expected.extend(b"\x08\x07\x06\x05\x04\x03\x02\x01\x05\0\0\0\0\0\0\0");
        let sum = seeded_parts(0, [&expected, b"tries"]);
        expected.extend(sum.to_le_bytes());
        expected.extend(b"tries");
        assert_eq!(bytes, expected);
        assert_eq!(IndexFileHeader::decode(&bytes), Ok((HEADER, &b"tries"[..])));
        for at in 0..bytes.len() {
            assert!(IndexFileHeader::decode(&bytes[..at]).is_err());
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(IndexFileHeader::decode(&flipped).is_err(), "byte {at}");
        }
    }

    #[test]
    fn the_bytes_of_a_block_and_a_hash_are_these() {
        let mut block = vec![0xaa; 512];
        let id = seal_block(3, &mut block, 500, 9);
        assert!(block[..500].iter().all(|&byte| byte == 0xaa) && block[500..504] == [0; 4]);
        assert_eq!(block[504..], seeded(3, &block[..504]).to_le_bytes());
        assert_eq!(open_block(3, &block, 9), Ok(id));
        assert!(open_block(2, &block, 9).is_err() && open_block(3, &block[1..], 9).is_err());
        let hash = hash_of(5, b"key");
        assert_eq!(hash[..8], seeded(5, b"key").to_be_bytes());
        assert_eq!(hash[8..], seeded(6, b"key").to_be_bytes());
        assert_eq!(head_of(&hash), seeded(5, b"key"));
    }
}
