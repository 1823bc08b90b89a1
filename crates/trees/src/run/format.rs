//! The encoding shared by all nodes of a run, version 3: the first byte, packed integers, and nodes
//! that are too long to be stored as a single node. All integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  what the node is: 1 a leaf, 2 an index node, 3 a footer, 4 the head of a long node
//! ```
//!
//! A packed column stores one unsigned integer of 0 to 8 bytes per entry: the entry's difference
//! from a common base. If the width is 0 bytes, every entry is equal to the base.
//!
//! A leaf or an index node with long keys can exceed the maximum size of a node. It is then
//! replaced by the head of a long node:
//!
//! ```text
//! OFFSET    SIZE  MEANING
//!      0       1  4
//!      1       3  zero
//!      4       4  bytes of the whole
//!      8  32 × n  pointers to its parts, in order: as many bytes each as the largest node has, fewer
//!                 in the last
//!                 zeros
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::MalformedNode;
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_storage::{DiskLocation, NodePointer, PageSize};

/// The format version of a run's nodes, which is stored in the footer.
pub(super) const VERSION: u8 = 3;

/// The first byte of a leaf.
pub(super) const LEAF: u8 = 1;
/// The first byte of an index node.
pub(super) const INDEX: u8 = 2;
/// The first byte of a footer.
pub(super) const FOOTER: u8 = 3;
/// The first byte of the head of a long node.
pub(super) const LONG: u8 = 4;

/// Maximum size of a long node in bytes. It is enough for two separators, or for a key and a value,
/// of maximum length.
pub(super) const MAX_LONG: usize = 1 << 20;

/// Returns the number of bytes needed to store `value`.
pub(super) fn width(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(8)
}

/// Appends the lowest `width` bytes of an integer.
#[inline]
#[allow(clippy::indexing_slicing, reason = "an integer has at most eight bytes")]
pub(super) fn put(out: &mut Vec<u8>, value: u64, width: usize) {
    out.extend_from_slice(&value.to_le_bytes()[..width]);
}

/// Returns the integer of `width` bytes at offset `at`, or `None` if it is outside of `bytes`. The
/// maximum width is 8.
#[inline]
pub(super) fn get(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    if let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let mask = if width == 8 {
            u64::MAX
        } else {
            (1u64 << (8 * width)) - 1
        };
        return Some(u64::from_le_bytes(*eight) & mask);
    }
    let mut eight = [0; 8];
    eight
        .get_mut(..width)?
        .copy_from_slice(bytes.get(at..at.checked_add(width)?)?);
    Some(u64::from_le_bytes(eight))
}

/// Returns the first eight bytes of `bytes[start..end]`, padded with zeros, as a big-endian
/// integer. These integers order like the byte strings.
#[inline]
pub(super) fn head(bytes: &[u8], start: usize, end: usize) -> Option<u64> {
    let len = end.checked_sub(start)?;
    if let Some(eight) = bytes.get(start..).and_then(<[u8]>::first_chunk::<8>) {
        let head = u64::from_be_bytes(*eight);
        let rest = if len < 8 { u64::MAX >> (8 * len) } else { 0 };
        return Some(head & !rest);
    }
    let mut eight = [0; 8];
    let len = len.min(8);
    eight
        .get_mut(..len)?
        .copy_from_slice(bytes.get(start..start.checked_add(len)?)?);
    Some(u64::from_be_bytes(eight))
}

/// Returns the `u16` at offset `at`, or `None` if it is outside of `bytes`.
#[inline]
pub(super) fn u16_in(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the `u16` at offset `at` of a header.
#[inline]
#[allow(
    clippy::indexing_slicing,
    reason = "places in a header are constants of the format"
)]
pub(super) fn u16_at<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_le_bytes([header[at], header[at + 1]])
}

/// Returns the `u32` at offset `at` of a header.
#[inline]
pub(super) fn u32_at<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    u32::from(u16_at(header, at)) | u32::from(u16_at(header, at + 2)) << 16
}

/// Returns the `u64` at offset `at` of a header.
#[inline]
pub(super) fn u64_at<const N: usize>(header: &[u8; N], at: usize) -> u64 {
    u64::from(u32_at(header, at)) | u64::from(u32_at(header, at + 4)) << 32
}

/// Appends the head of a long node of `len` bytes that consists of `parts`.
pub(super) fn encode_long(len: usize, parts: &[NodePointer], out: &mut Vec<u8>) {
    ByteWriter::new(out).u8(LONG).u8(0).u16(0).u32(len as u32);
    for part in parts {
        part.encode(out);
    }
}

/// Decodes the head of a long node. Returns the length of the node and the pointers to its parts.
pub(super) fn decode_long(
    bytes: &[u8],
    place: &DiskLocation,
    page_size: PageSize,
) -> alluvium_storage::Result<(usize, Vec<NodePointer>)> {
    let bad =
        |found: String| alluvium_storage::Error::corrupt(place.clone(), "the head of a long node", found);
    let mut reader = ByteReader::new(bytes);
    let mut read = || -> Result<_, alluvium_base::bytes::TruncatedInput> {
        Ok((reader.u8()?, reader.take(3)? == [0; 3], reader.u32()? as usize))
    };
    let (kind, zero, len) = read().map_err(|error| bad(error.to_string()))?;
    if kind != LONG || !zero || !(1..=MAX_LONG).contains(&len) {
        return Err(bad(format!("kind {kind}, {len} bytes")));
    }
    let largest = page_size.node_bytes(alluvium_storage::node::MAX_PAGES);
    let mut parts = Vec::new();
    for _ in 0..len.div_ceil(largest) {
        parts.push(NodePointer::decode(&mut reader, place, page_size)?);
    }
    Ok((len, parts))
}

/// Returns an error unless the node's first byte is that of the expected kind.
pub(super) fn expect(bytes: &[u8], kind: u8) -> Result<(), MalformedNode> {
    match bytes.first() {
        Some(&found) if found == kind => Ok(()),
        _ => Err(MalformedNode("a first byte that is not its kind's")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::{NodeCodec, OnDiskObject};

    fn pointer() -> NodePointer {
        NodePointer {
            offset: 4096,
            birth: 7,
            checksum: 9,
            encoded_len: 65536,
            tier: 0,
            pages: 16,
            codec: NodeCodec::None,
        }
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let mut bytes = Vec::new();
        encode_long(65537, &[pointer()], &mut bytes);
        put(&mut bytes, 0x0102_0304, 3);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "04000000010001000010000000000000070000000000000009000000000000000000010000100000040302"
        );
    }

    #[test]
    fn an_integer_is_read_back_at_any_place_and_width() {
        let values = [
            0,
            1,
            255,
            256,
            65535,
            65536,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ];
        for value in values {
            for padding in 0..9 {
                let mut bytes = vec![0xee; 3];
                put(&mut bytes, value, width(value));
                bytes.resize(bytes.len() + padding, 0xee);
                assert_eq!(get(&bytes, 3, width(value)), Some(value));
                assert_eq!(get(&bytes, bytes.len(), 1), None);
            }
        }
        assert_eq!((width(0), width(255), width(256), width(u64::MAX)), (0, 1, 2, 8));
    }

    #[test]
    fn heads_compare_as_their_bytes_do() {
        let bytes = b"abcdefghij";
        assert_eq!(head(bytes, 0, 10), Some(0x6162_6364_6566_6768));
        assert_eq!(head(bytes, 1, 3), Some(0x6263_0000_0000_0000));
        assert_eq!(head(bytes, 9, 10), Some(0x6a00_0000_0000_0000));
        assert_eq!(head(bytes, 4, 4), Some(0));
        assert_eq!(head(bytes, 10, 10), Some(0));
        assert_eq!((head(bytes, 9, 11), head(bytes, 3, 2)), (None, None));
        let header = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(u16_at(&header, 1), 0x0302);
        assert_eq!(u32_at(&header, 1), 0x0504_0302);
        assert_eq!(u64_at(&header, 1), 0x0908_0706_0504_0302);
    }

    #[test]
    fn the_head_of_a_long_node_is_read_back_and_a_wrong_one_is_refused() {
        let place = DiskLocation::new(OnDiskObject::Node, "test", 0);
        let mut bytes = Vec::new();
        encode_long(65537, &[pointer(), pointer()], &mut bytes);
        let decode = |bytes: &[u8]| decode_long(bytes, &place, PageSize::MIN);
        assert_eq!(decode(&bytes).unwrap(), (65537, vec![pointer(), pointer()]));
        for (at, value) in [(0, 1), (1, 1), (6, 3), (7, 1), (37, 0)] {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert!(decode(&bad).is_err(), "byte {at}");
        }
        assert!(decode(&bytes[..71]).is_err());
    }
}
