//! Format, version 1, of value pointers and of the pointer nodes of long values. All integers are
//! little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0    32  pointer to the node that holds the value, or to the root of its nodes
//!     32     4  where the value begins in the node, 0 for a long one
//!     36     4  its length in bytes
//! ```
//!
//! A value that is not longer than the largest node is stored in a single node, possibly with other
//! values. A longer value is split into nodes of maximum length, except that the last may be
//! shorter. Levels of pointer nodes are added above them until a single root remains.
//!
//! ```text
//! OFFSET    SIZE  MEANING
//!      0  32 × n  pointers to the nodes below, in order: as many as fit the largest node, fewer in the last
//!                 zeros
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::ValuePointer;
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_storage::{DiskLocation, Error, NodePointer, PageSize, Result};

impl ValuePointer {
    /// Length of an encoded pointer in bytes.
    pub const BYTES: usize = NodePointer::BYTES + 8;

    pub fn encode(&self, out: &mut Vec<u8>) {
        self.node.encode(out);
        ByteWriter::new(out).u32(self.at).u32(self.len);
    }

    /// Decodes a pointer and checks that its fields are plausible. Errors report `place` as its
    /// location.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes are not a valid pointer.
    pub fn decode(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<ValuePointer> {
        let mut reader = ByteReader::new(bytes);
        let node = NodePointer::decode(&mut reader, place, page_size)?;
        let bad = |found: String| Error::corrupt(place.clone(), "a pointer to a value", found);
        let mut read = || -> std::result::Result<_, alluvium_base::bytes::TruncatedInput> {
            Ok((reader.u32()?, reader.u32()?))
        };
        let (at, len) = read().map_err(|error| bad(error.to_string()))?;
        let pointer = ValuePointer { node, at, len };
        if pointer.is_plausible(page_size) && reader.remaining() == 0 {
            Ok(pointer)
        } else {
            Err(bad(format!("{pointer:?}")))
        }
    }
}

/// Appends the encoding of a pointer node with the given pointers to `out`.
pub(super) fn encode_pointers(pointers: &[NodePointer], out: &mut Vec<u8>) {
    for pointer in pointers {
        pointer.encode(out);
    }
}

/// Decodes the `count` pointers in a pointer node.
pub(super) fn decode_pointers(
    bytes: &[u8],
    count: usize,
    place: &DiskLocation,
    page_size: PageSize,
) -> Result<Vec<NodePointer>> {
    let mut reader = ByteReader::new(bytes);
    let mut pointers = Vec::new();
    for _ in 0..count {
        pointers.push(NodePointer::decode(&mut reader, place, page_size)?);
    }
    Ok(pointers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::OnDiskObject;

    fn pointer() -> ValuePointer {
        ValuePointer::some(96, 4000)
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let mut bytes = Vec::new();
        pointer().encode(&mut bytes);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "00200000000000000300000000000000050000000000000000100000010100006000 0000a00f0000"
                .replace(' ', "")
        );
    }

    #[test]
    fn a_pointer_is_read_back_and_an_impossible_one_is_refused() {
        let place = DiskLocation::new(OnDiskObject::Node, "test", 0);
        let decode = |pointer: &ValuePointer| {
            let mut bytes = Vec::new();
            pointer.encode(&mut bytes);
            ValuePointer::decode(&bytes, &place, PageSize::MIN)
        };
        assert_eq!(decode(&pointer()).unwrap(), pointer());
        let beyond = ValuePointer { at: 97, ..pointer() };
        let long = ValuePointer {
            len: 65537,
            ..pointer()
        };
        let empty_root = ValuePointer {
            at: 0,
            len: 65537,
            ..pointer()
        };
        assert!(decode(&beyond).is_err() && decode(&long).is_err());
        assert!(
            decode(&empty_root).is_ok(),
            "a root of one page holds two pointers"
        );
        let mut bytes = Vec::new();
        pointer().encode(&mut bytes);
        assert!(ValuePointer::decode(&bytes[..39], &place, PageSize::MIN).is_err());
    }
}
