//! On-disk format of a node pointer, version 1. All integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  offset of the encoded node in its tier's file, bytes, a multiple of 512
//!      8     8  birth: the generation that was being built when its writer began
//!     16     8  XXH3-64 of the encoded bytes, or its lower half
//!     24     4  length of the encoded bytes
//!     28     1  tier
//!     29     1  pages: 1 to 16; the node decodes to pages × page size bytes
//!     30     1  codec: 0 none, 1 LZ4, 2 Zstd
//!     31     1  zero
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{MAX_PAGES, NodeCodec, PageSize};
use crate::{DiskLocation, Error, OnDiskObject, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_base::checksum;
use alluvium_device::BLOCK;

/// A pointer to a node: the node's location and encoding, and a checksum that verifies the node
/// when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodePointer {
    /// Offset in bytes of the encoded node in the tier's data file.
    pub offset: u64,
    /// The generation that was under construction when the node was written.
    pub birth: u64,
    /// XXH3-64 checksum of the encoded bytes. If its upper 32 bits are zero, only the lower 32 bits
    /// are compared, so that structures with many pointers in memory need to store only 32 bits of
    /// each checksum.
    pub checksum: u64,
    /// Length of the encoded node in bytes, without padding.
    pub encoded_len: u32,
    /// The tier whose data file contains the node.
    pub tier: u8,
    /// Number of pages of the decoded node, from 1 to 16.
    pub pages: u8,
    /// The codec that encoded the node.
    pub codec: NodeCodec,
}

impl NodePointer {
    /// Size of an encoded pointer in bytes.
    pub const BYTES: usize = 32;

    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!((1..=MAX_PAGES).contains(&self.pages), "{self:?} (N2)");
        debug_assert!(self.offset.is_multiple_of(BLOCK), "{self:?} (N3)");
        ByteWriter::new(out)
            .u64(self.offset)
            .u64(self.birth)
            .u64(self.checksum)
            .u32(self.encoded_len)
            .u8(self.tier)
            .u8(self.pages)
            .u8(self.codec.number())
            .u8(0);
    }

    /// Decodes a pointer, and checks that its values are plausible.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place` if the bytes are not a valid pointer.
    pub fn decode(
        reader: &mut ByteReader<'_>,
        place: &DiskLocation,
        page_size: PageSize,
    ) -> Result<NodePointer> {
        let bad = |found: String| Error::corrupt(place.clone(), "a node pointer", found);
        let bytes = reader.take(Self::BYTES).map_err(|error| bad(error.to_string()))?;
        let mut reader = ByteReader::new(bytes);
        let mut read = || -> std::result::Result<_, alluvium_base::bytes::TruncatedInput> {
            let (offset, birth, checksum) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let (encoded_len, tier, pages) = (reader.u32()?, reader.u8()?, reader.u8()?);
            Ok((
                offset,
                birth,
                checksum,
                encoded_len,
                tier,
                pages,
                reader.u8()?,
                reader.u8()?,
            ))
        };
        let (offset, birth, checksum, encoded_len, tier, pages, codec, zero) =
            read().map_err(|error| bad(error.to_string()))?;
        let codec = NodeCodec::from_number(codec).ok_or_else(|| bad(format!("codec {codec}")))?;
        let pointer = NodePointer {
            offset,
            birth,
            checksum,
            encoded_len,
            tier,
            pages,
            codec,
        };
        if zero != 0 || !pointer.is_plausible(page_size) {
            return Err(bad(format!("{pointer:?}")));
        }
        Ok(pointer)
    }

    /// Checks that this pointer is plausible for a store with this page size.
    pub(crate) fn check(&self, place: &DiskLocation, page_size: PageSize) -> Result<()> {
        if self.is_plausible(page_size) {
            return Ok(());
        }
        Err(Error::corrupt(
            place.clone(),
            "a node pointer",
            format!("{self:?}"),
        ))
    }

    fn is_plausible(&self, page_size: PageSize) -> bool {
        let decoded = page_size.node_bytes(self.pages) as u64;
        let len = u64::from(self.encoded_len);
        let end_fits = self.offset.checked_add(len.next_multiple_of(BLOCK)).is_some();
        let shape = match self.codec {
            NodeCodec::None => len == decoded && self.offset.is_multiple_of(page_size.bytes() as u64),
            NodeCodec::Lz4 | NodeCodec::Zstd => len > 0 && len < decoded && self.offset.is_multiple_of(BLOCK),
        };
        (1..=MAX_PAGES).contains(&self.pages) && end_fits && shape
    }

    /// Returns how many bytes must be read from the device to read the whole encoded node, which is
    /// a multiple of the logical block size.
    #[must_use]
    pub fn read_len(&self) -> usize {
        (self.encoded_len as usize).next_multiple_of(BLOCK as usize)
    }

    /// Returns the location of the node, for error messages.
    #[must_use]
    pub fn place(&self) -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, crate::node::tier_file(self.tier), self.offset)
    }

    /// Checks that `encoded`, which must have at least `encoded_len` bytes, matches the pointer's
    /// checksum (invariant N1).
    ///
    /// # Errors
    /// [`Error::Corrupt`] if `encoded` is too short or its checksum differs.
    pub fn verify(&self, encoded: &[u8]) -> Result<()> {
        let found = match encoded.get(..self.encoded_len as usize) {
            Some(encoded) => checksum(encoded),
            None => {
                let expected = format!("{} bytes", self.encoded_len);
                return Err(Error::corrupt(
                    self.place(),
                    expected,
                    format!("{} bytes", encoded.len()),
                ));
            }
        };
        let is_half = self.checksum >> 32 == 0;
        if found == self.checksum || (is_half && found as u32 == self.checksum as u32) {
            return Ok(());
        }
        let expected = format!("checksum {:016x} (birth {})", self.checksum, self.birth);
        Err(Error::corrupt(self.place(), expected, format!("{found:016x}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTER: NodePointer = NodePointer {
        offset: 0x10_0000,
        birth: 7,
        checksum: 0x0102_0304_0506_0708,
        encoded_len: 8192,
        tier: 1,
        pages: 2,
        codec: NodeCodec::None,
    };

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "test", 0)
    }

    #[test]
    fn half_a_checksum_is_enough_and_must_be_right() {
        let bytes = [7; 8192];
        let whole = checksum(&bytes);
        let check = |checksum| NodePointer { checksum, ..POINTER }.verify(&bytes);
        check(whole).unwrap();
        check(whole & 0xffff_ffff).unwrap();
        for wrong in [
            whole ^ 1,
            whole ^ 1 << 32,
            (whole ^ 1) & 0xffff_ffff,
            whole & !0xffff_ffff,
        ] {
            assert!(check(wrong).is_err(), "{wrong:x}");
        }
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let mut bytes = Vec::new();
        POINTER.encode(&mut bytes);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "0000100000000000070000000000000008070605040302010020000001020000"
        );
    }

    #[test]
    fn a_pointer_is_read_back_and_any_implausible_one_is_refused() {
        let mut bytes = Vec::new();
        POINTER.encode(&mut bytes);
        let decode = |bytes: &[u8]| NodePointer::decode(&mut ByteReader::new(bytes), &place(), PageSize::MIN);
        assert_eq!(decode(&bytes).unwrap(), POINTER);
        for (at, value) in [(0, 1), (24, 1), (29, 0), (29, 17), (30, 3), (30, 1), (31, 1)] {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert!(
                matches!(decode(&bad), Err(Error::Corrupt { .. })),
                "byte {at} = {value}"
            );
        }
        assert!(decode(&bytes[..31]).is_err());
    }
}
