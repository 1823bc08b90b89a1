//! On-disk encoding of routing tree lists, version 1, and of the trees in the contents of a
//! structure. All integers are little-endian. A *varint* is LEB128 of at most 10 bytes.
//!
//! The description of a list:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic "AHTL"
//!      4     1  version, 1
//!      5     1  bits of a hash before the prefix, at most 12
//!      6     1  bits of a prefix before the characters of its height, from 8 on
//!      7     1  bits of a character, 1 to 8
//!      8     1  height of the tree; 0 of the digest of a leaf
//!      9     1  zero
//!     10     2  children of a node; 0 of a digest
//!     12     4  zero
//!     16     8  entries
//!     24     8  entries that are probably of older records of a key
//!     32        a listing of its pages: `hashed/lists/format.rs`
//! ```
//!
//! The payload of a node entry consists of a check character, a next character and a child, from
//! the lowest bit to the highest. A leaf digest has prefixes of 40 bits. A tree digest has prefixes
//! as long as those of the next height. The payload of a digest entry consists of the hash bits
//! after the prefix.
//!
//! The tree of a level is encoded in the contents of a structure as follows:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  1 of a run that a rebuild has made, or 0
//!      1     1  bits of a prefix before the characters of its height
//!      2     1  height
//!      3        its root, a node:
//!                 1 and the pointer to its list's description (40); 0 if it has none
//!                 1 and the pointer to its digest's description (40); 0 if it has none
//!                 children (varint), each: at height 1 the pointer to a digest, in the same form;
//!                   above it a node
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::names::{ChildName, NodeName, TreeName};
use super::{HashLayout, ListHeader, RoutingListDescription};
use crate::hashed::lists::{PageListing, PagedDescription};
use crate::hashed::pages::{self, DescriptionError};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::{DiskLocation, PageSize, Result};

const MAGIC: [u8; 4] = *b"AHTL";
const VERSION: u8 = 1;

impl PagedDescription for RoutingListDescription {
    const NAME: &'static str = "a list of a routing tree";

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let ListHeader {
            cut,
            height,
            children,
        } = self.head;
        ByteWriter::new(&mut out)
            .bytes(&MAGIC)
            .u8(VERSION)
            .u8(cut.skipped_bits)
            .u8(cut.base_bits)
            .u8(cut.character_bits)
            .u8(height)
            .u8(0)
            .u16(children)
            .u32(0)
            .u64(self.entries)
            .u64(self.hidden);
        self.listing.encode(&mut out);
        out
    }

    fn decode(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<RoutingListDescription> {
        pages::decode(bytes, place, Self::NAME, (MAGIC, VERSION), |reader| {
            read(reader, place, page_size)
        })
    }

    fn listing(&self) -> &PageListing {
        &self.listing
    }

    fn entry_bits(&self) -> (u32, u32) {
        (self.head.prefix_bits(), self.head.payload_bits())
    }

    fn entries(&self) -> u64 {
        self.entries
    }
}

fn read(
    reader: &mut ByteReader<'_>,
    place: &DiskLocation,
    page_size: PageSize,
) -> std::result::Result<RoutingListDescription, DescriptionError> {
    let (magic, version) = (reader.take(MAGIC.len())?, reader.u8()?);
    let cut = HashLayout {
        skipped_bits: reader.u8()?,
        base_bits: reader.u8()?,
        character_bits: reader.u8()?,
    };
    let (height, zero, children, zeros) = (reader.u8()?, reader.u8()?, reader.u16()?, reader.u32()?);
    if magic != MAGIC || version != VERSION || zero != 0 || zeros != 0 {
        return Err(DescriptionError::Other(format!(
            "{magic:02x?} {version} {zero} {zeros}"
        )));
    }
    let head = ListHeader {
        cut,
        height,
        children,
    };
    head.validate()
        .map_err(|error| DescriptionError::Other(error.to_string()))?;
    let (entries, hidden) = (reader.u64()?, reader.u64()?);
    if hidden > entries {
        return Err(DescriptionError::Other(format!("{hidden} of {entries} entries")));
    }
    Ok(RoutingListDescription {
        head,
        entries,
        hidden,
        listing: PageListing::decode(reader, place, page_size, true)?,
    })
}

/// Callback that decodes an optional pointer in the contents of a structure.
pub(in crate::hashed) type PointerDecoder<'p, E> =
    dyn Fn(&mut ByteReader<'_>) -> std::result::Result<Option<ValuePointer>, E> + 'p;

fn put(pointer: Option<&ValuePointer>, out: &mut Vec<u8>) {
    ByteWriter::new(out).u8(u8::from(pointer.is_some()));
    if let Some(pointer) = pointer {
        pointer.encode(out);
    }
}

impl NodeName {
    fn encode(&self, out: &mut Vec<u8>) {
        put(self.node.as_ref(), out);
        put(self.digest.as_ref(), out);
        ByteWriter::new(out).varint(self.children.len() as u64);
        for child in &self.children {
            match child {
                ChildName::Leaf(digest) => put(digest.as_ref(), out),
                ChildName::Node(node) => node.encode(out),
            }
        }
    }

    fn decode<E: From<TruncatedInput> + From<String>>(
        reader: &mut ByteReader<'_>,
        height: u8,
        most: u64,
        pointer: &PointerDecoder<'_, E>,
    ) -> std::result::Result<NodeName, E> {
        let (node, digest, count) = (pointer(reader)?, pointer(reader)?, reader.varint()?);
        if count > most {
            return Err(format!("{count} children of a node (V1)").into());
        }
        let mut children = Vec::new();
        for _ in 0..count {
            children.push(match height {
                0 | 1 => ChildName::Leaf(pointer(reader)?),
                above => ChildName::Node(NodeName::decode(reader, above - 1, most, pointer)?),
            });
        }
        Ok(NodeName {
            node,
            digest,
            children,
        })
    }
}

impl TreeName {
    pub(in crate::hashed) fn encode(&self, out: &mut Vec<u8>) {
        ByteWriter::new(out)
            .u8(u8::from(self.is_settled))
            .u8(self.base_bits)
            .u8(self.height);
        self.root.encode(out);
    }

    /// Decodes the tree of a level with `runs` runs, and checks its shape (V1).
    pub(in crate::hashed) fn decode<E: From<TruncatedInput> + From<String>>(
        reader: &mut ByteReader<'_>,
        (skipped_bits, character_bits): (u8, u8),
        runs: usize,
        pointer: &PointerDecoder<'_, E>,
    ) -> std::result::Result<TreeName, E> {
        let (settled, base_bits, height) = (reader.u8()?, reader.u8()?, reader.u8()?);
        let cut = HashLayout {
            skipped_bits,
            base_bits,
            character_bits,
        };
        if settled > 1 || cut.validate(height).is_err() || (settled == 1 && height != 1) {
            return Err(format!("a tree {settled} of height {height}, {base_bits} bits").into());
        }
        let root = NodeName::decode(reader, height, cut.lambda().into(), pointer)?;
        if root.leaves() != runs || root.children.len() >= cut.lambda() as usize {
            let (leaves, children) = (root.leaves(), root.children.len());
            return Err(format!("{leaves} leaves of {runs} runs below {children} children (V1)").into());
        }
        Ok(TreeName {
            is_settled: settled == 1,
            base_bits,
            height,
            root,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashed::pages::{PageList, PageSegment};
    use alluvium_base::checksum;
    use alluvium_storage::extents::Extent;
    use alluvium_storage::{Error, NodeCodec, NodePointer, OnDiskObject};

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "a list", 0)
    }

    fn meta(height: u8, children: u16) -> RoutingListDescription {
        let pages = PageList {
            page_size: PageSize::MIN,
            segments: [PageSegment {
                first: 0,
                pages: 2,
                tier: 0,
                offset: 8192,
                birth: 3,
            }]
            .into(),
            checksums: [5, 6].into(),
        };
        let extent = Extent {
            tier: 0,
            start: 1,
            units: 2,
        };
        RoutingListDescription {
            head: ListHeader {
                cut: HashLayout::of_leaf(4, 4, 1000),
                height,
                children,
            },
            entries: 77,
            hidden: 7,
            listing: PageListing {
                pages,
                firsts: [9, 12].into(),
                extents: [(extent, 8192)].into(),
            },
        }
    }

    #[test]
    fn the_bytes_of_a_description_are_those_of_version_1_and_no_change_of_it_panics() {
        let sums = [meta(2, 3), meta(0, 0), meta(2, 0)].map(|meta| {
            let bytes = meta.encode();
            assert_eq!(
                bytes[..16],
                [
                    b'A',
                    b'H',
                    b'T',
                    b'L',
                    1,
                    4,
                    10,
                    4,
                    meta.head.height,
                    0,
                    meta.head.children as u8,
                    0,
                    0,
                    0,
                    0,
                    0
                ]
            );
            let decode = |bytes: &[u8]| RoutingListDescription::decode(bytes, &place(), PageSize::MIN);
            assert_eq!(decode(&bytes).unwrap(), meta);
            for len in 0..bytes.len() {
                assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
            }
            assert!(decode(&[&bytes[..], b"\0"].concat()).is_err());
            for at in 0..bytes.len() {
                for byte in [0, 1, 2, 9, 41, 0x7f, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] = byte;
                    if let Ok(meta) = decode(&damaged) {
                        let entry = meta.head.entry(u64::MAX / 3, 1);
                        assert!(entry.prefix < 1 << 40);
                    }
                }
            }
            let with = |at: usize, byte: u8| {
                let mut damaged = bytes.clone();
                damaged[at] = byte;
                decode(&damaged).is_err()
            };
            assert!(with(5, 13) && with(6, 7) && with(7, 9) && with(8, 60), "bits");
            assert!(
                with(10, 17) && with(9, 1) && with(12, 1) && with(24, 78),
                "counts"
            );
            let mut newer = bytes.clone();
            newer[4] = 2;
            assert!(matches!(decode(&newer), Err(Error::NewerFormat { found: 2, .. })));
            format!("{:016x}", checksum(&bytes))
        });
        assert_eq!(
            sums,
            ["b824fa49122989e2", "9ff66597f6c8862d", "686483268b9dea95"],
            "the bytes of version 1 do not change"
        );
    }

    #[derive(Debug)]
    struct DecodeRejection(#[allow(dead_code, reason = "it is shown")] String);

    impl From<TruncatedInput> for DecodeRejection {
        fn from(cut: TruncatedInput) -> DecodeRejection {
            DecodeRejection(cut.to_string())
        }
    }

    impl From<String> for DecodeRejection {
        fn from(why: String) -> DecodeRejection {
            DecodeRejection(why)
        }
    }

    #[test]
    fn a_tree_is_read_back_and_one_that_cannot_be_is_refused() {
        let node = NodePointer {
            offset: 8192,
            birth: 3,
            checksum: 5,
            encoded_len: 4096,
            tier: 0,
            pages: 1,
            codec: NodeCodec::None,
        };
        let pointer = ValuePointer {
            node,
            at: 0,
            len: 4000,
        };
        let inner = |leaves: usize| NodeName {
            node: Some(pointer),
            digest: None,
            children: vec![ChildName::Leaf(Some(pointer)); leaves],
        };
        let tree = TreeName {
            is_settled: false,
            base_bits: 9,
            height: 2,
            root: NodeName {
                node: None,
                digest: Some(pointer),
                children: vec![ChildName::Node(inner(4)), ChildName::Node(inner(3))],
            },
        };
        let mut bytes = Vec::new();
        tree.encode(&mut bytes);
        let decode = |bytes: &[u8], runs| {
            let read = |reader: &mut ByteReader<'_>| match reader.u8()? {
                0 => Ok(None),
                _ => {
                    let bytes = reader.take(ValuePointer::BYTES)?;
                    let pointer = ValuePointer::decode(bytes, &place(), PageSize::MIN);
                    Ok(Some(pointer.map_err(|error| DecodeRejection(error.to_string()))?))
                }
            };
            TreeName::decode::<DecodeRejection>(&mut ByteReader::new(bytes), (1, 2), runs, &read)
        };
        assert_eq!(bytes[..5], [0, 9, 2, 0, 1]);
        assert_eq!(bytes.len(), 3 + 1 + 41 + 1 + 2 * (41 + 1 + 1) + 7 * 41);
        assert_eq!(decode(&bytes, 7).unwrap(), tree);
        assert!(decode(&bytes, 6).is_err(), "another number of runs");
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], 7).is_err(), "{len} bytes");
        }
        let with = |at: usize, byte: u8| {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            decode(&damaged, 7).is_err()
        };
        assert!(with(0, 2) && with(0, 1) && with(1, 41) && with(2, 0) && with(2, 40));
        assert!(with(3 + 1 + 41, 4) && with(3 + 1 + 41, 1), "children of a root");
    }
}
