//! The encoding of nodes and of the root record of an affine dictionary, version 2. All integers
//! are little-endian.
//!
//! An index contains the pivots of a node and the locations of its parts. It is in front of its
//! node (V0, V1, B-tree), or in the parent's segment for the node (V2, V3).
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  height; 0 for a leaf
//!      1     4  n: parts
//!      5        n parts:
//!               4  bytes of the part
//!               8  XXH3-64 of the part
//!               2  k: bytes of the first key
//!               k  the first key that belongs to the part
//!               and where the height is not 0:
//!               8  first byte of the child
//!               4  bytes of the child
//!               8  weight of the child: leaves below it
//!               and where indexes are in front:
//!               4  bytes of the child's index
//!               8  XXH3-64 of the child's index
//! ```
//!
//! A segment is a part of an inner node:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  m: bytes of the child's index; 0 where indexes are in front
//!      4     m  the child's index
//!  4 + m        messages in key order, to the end:
//!               2  k: bytes of the key
//!               4  v: bytes of the operand
//!               1  1: set, 2: combine, 3: delete
//!               k  the key
//!               v  the operand
//! ```
//!
//! A sub-block, a part of a leaf, contains pairs in key order, to the end: k (2), v (4), key,
//! value.
//!
//! A root:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  version: 2, or 1 without the bytes of a sub-block
//!      1     1  0: B-tree, 1 to 4: V0 to V3
//!      2     4  bytes of a node
//!      6     4  fanout
//!     10     4  bytes of an element
//!     14     4  bytes of a sub-block of a leaf; 0 for those of a node by the fanout
//!     18     8  first byte of the root node
//!     26     8  bytes of the root node
//!     34     4  bytes of its index, which is in front
//!     38     8  XXH3-64 of that
//!     46     1  h: heights
//!     47    8h  nodes of each height, leaves first
//!            2  m: bytes of the owner
//!            m  the owner's bytes
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::error::{Error, Result};
use super::node::{ChildLocation, LeafPair, NodeIndex, NodePart, TreeMessage};
use super::options::{AffineOptions, AffineVariant};
use super::space::SpaceExtent;
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_trees::paged::node::MessageAction;

/// The version with the size of sub-blocks, and the older version, which has no such field.
const VERSION: u8 = 2;
const BEFORE: u8 = 1;
/// The maximum number of heights: far more than any device can hold.
pub(super) const MOST_HEIGHTS: usize = 64;
/// The maximum size of the owner's data in bytes.
pub(super) const MOST_OWN: usize = 512;

/// The size of an index before its parts, in bytes.
pub(super) const INDEX_HEAD: usize = 5;
/// The size of a part in an index without its key, in bytes: in a leaf, in a node whose
/// children's indexes are in it, and in a node whose children's indexes are in front of the
/// children.
pub(super) const LEAF_PART: usize = 14;
pub(super) const INNER_PART: usize = 34;
pub(super) const FRONT_PART: usize = 46;
/// The size of a segment before its child's index, in bytes.
pub(super) const SEGMENT_HEAD: usize = 4;

/// Returns whether indexes are in front of their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexPlacement {
    Front,
    Parent,
}

/// Returns the size of an index in bytes.
pub(super) fn encode_index(index: &NodeIndex, indexes: IndexPlacement) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ByteWriter::new(&mut out);
    writer.u8(index.height).u32(index.parts.len() as u32);
    for part in &index.parts {
        writer
            .u32(part.bytes)
            .u64(part.sum)
            .u16(part.from.len() as u16)
            .bytes(&part.from);
        assert_eq!(
            part.below.is_some(),
            index.height > 0,
            "nodes above leaves have children"
        );
        if let Some(below) = &part.below {
            writer
                .u64(below.extent.at)
                .u32(below.extent.bytes as u32)
                .u64(below.weight);
            assert_eq!(
                below.front.is_some(),
                indexes == IndexPlacement::Front,
                "all indexes are alike"
            );
            if let Some((bytes, sum)) = below.front {
                writer.u32(bytes).u64(sum);
            }
        }
    }
    out
}

/// Decodes an index, which extends to the end of the bytes. `at` is their offset, for errors.
pub(super) fn decode_index(bytes: &[u8], indexes: IndexPlacement, at: u64) -> Result<NodeIndex> {
    let mut reader = ByteReader::new(bytes);
    let (height, count) = (reader.u8()?, reader.u32()? as usize);
    if usize::from(height) >= MOST_HEIGHTS || count == 0 || count > bytes.len() / LEAF_PART {
        let found = format!("height {height}, {count} parts in {} bytes", bytes.len());
        return Err(Error::damaged(
            at,
            "an index",
            "of a height below 64, with parts",
            found,
        ));
    }
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let (part_bytes, sum) = (reader.u32()?, reader.u64()?);
        let len = usize::from(reader.u16()?);
        let from = reader.take(len)?.into();
        let below = match height {
            0 => None,
            _ => Some(decode_below(&mut reader, indexes)?),
        };
        parts.push(NodePart {
            from,
            bytes: part_bytes,
            sum,
            below,
        });
    }
    if reader.remaining() > 0 {
        return Err(Error::damaged(
            at,
            "an index",
            "without more bytes",
            reader.remaining(),
        ));
    }
    if !parts.is_sorted_by(|one, next| one.from < next.from) {
        return Err(Error::damaged(at, "the pivots of an index", "in order", "others"));
    }
    Ok(NodeIndex { height, parts })
}

fn decode_below(reader: &mut ByteReader<'_>, indexes: IndexPlacement) -> Result<ChildLocation> {
    let (at, bytes, weight) = (reader.u64()?, u64::from(reader.u32()?), reader.u64()?);
    let front = match indexes {
        IndexPlacement::Front => Some((reader.u32()?, reader.u64()?)),
        IndexPlacement::Parent => None,
    };
    let extent = SpaceExtent { at, bytes };
    if extent.end().is_none() {
        return Err(Error::damaged(
            at,
            "a child",
            "below 2^64",
            format!("{bytes} bytes"),
        ));
    }
    Ok(ChildLocation {
        extent,
        weight,
        front,
    })
}

/// Appends a segment: the length of its index, the index, and its messages.
pub(super) fn encode_segment(out: &mut Vec<u8>, index: &[u8], messages: &[TreeMessage]) {
    let mut writer = ByteWriter::new(out);
    writer.u32(index.len() as u32).bytes(index);
    for message in messages {
        writer
            .u16(message.key.len() as u16)
            .u32(message.operand.len() as u32)
            .u8(message.action as u8)
            .bytes(&message.key)
            .bytes(&message.operand);
    }
}

/// Decodes a segment into the bytes of the child's index, and the messages.
pub(super) fn decode_segment(bytes: &[u8], at: u64) -> Result<(&[u8], Vec<TreeMessage>)> {
    let mut reader = ByteReader::new(bytes);
    let len = reader.u32()? as usize;
    let index = reader.take(len)?;
    let mut messages: Vec<TreeMessage> = Vec::new();
    while reader.remaining() > 0 {
        let (key, operand) = (usize::from(reader.u16()?), reader.u32()? as usize);
        let number = reader.u8()?;
        let action = MessageAction::of(number)
            .ok_or_else(|| Error::damaged(at, "the action of a message", "1 to 3", number))?;
        let (key, operand) = (reader.take(key)?.into(), reader.take(operand)?.into());
        messages.push(TreeMessage { key, action, operand });
    }
    if !messages.is_sorted_by(|one, next| one.key < next.key) {
        return Err(Error::damaged(at, "messages", "in key order", "others"));
    }
    Ok((index, messages))
}

/// Appends a pair to a sub-block.
pub(super) fn encode_pair(out: &mut Vec<u8>, pair: &LeafPair) {
    ByteWriter::new(out)
        .u16(pair.key.len() as u16)
        .u32(pair.value.len() as u32)
        .bytes(&pair.key)
        .bytes(&pair.value);
}

/// Decodes a sub-block and appends its pairs to `pairs`.
pub(super) fn decode_pairs(bytes: &[u8], at: u64, pairs: &mut Vec<LeafPair>) -> Result<()> {
    let mut reader = ByteReader::new(bytes);
    while reader.remaining() > 0 {
        let (key, value) = (usize::from(reader.u16()?), reader.u32()? as usize);
        let (key, value): (Box<[u8]>, _) = (reader.take(key)?.into(), reader.take(value)?.into());
        if pairs.last().is_some_and(|last| last.key >= key) {
            return Err(Error::damaged(at, "pairs", "in key order", "others"));
        }
        pairs.push(LeafPair { key, value });
    }
    Ok(())
}

/// The data stored by a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RootRecord {
    pub(super) options: AffineOptions,
    pub(super) extent: SpaceExtent,
    pub(super) front: (u32, u64),
    pub(super) levels: Vec<u64>,
    pub(super) own: Vec<u8>,
}

impl RootRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(
            self.levels.len() <= MOST_HEIGHTS && self.own.len() <= MOST_OWN,
            "a root fits"
        );
        let mut out = Vec::new();
        let mut writer = ByteWriter::new(&mut out);
        let variant = AffineVariant::ALL
            .iter()
            .position(|variant| *variant == self.options.variant);
        writer
            .u8(VERSION)
            .u8(variant.unwrap_or_default() as u8)
            .u32(self.options.node_bytes)
            .u32(self.options.fanout)
            .u32(self.options.element_bytes)
            .u32(self.options.leaf_block_bytes.unwrap_or_default())
            .u64(self.extent.at)
            .u64(self.extent.bytes)
            .u32(self.front.0)
            .u64(self.front.1)
            .u8(self.levels.len() as u8);
        for nodes in &self.levels {
            writer.u64(*nodes);
        }
        writer.u16(self.own.len() as u16).bytes(&self.own);
        out
    }

    /// Decodes a root. The caller provides the memory limit, which is not stored.
    pub(super) fn decode(bytes: &[u8], memory_bytes: u64) -> Result<RootRecord> {
        let mut reader = ByteReader::new(bytes);
        let (version, number) = (reader.u8()?, reader.u8()?);
        let variant = AffineVariant::ALL.get(usize::from(number)).copied();
        let (BEFORE | VERSION, Some(variant)) = (version, variant) else {
            let found = format!("version {version}, variant {number}");
            return Err(Error::damaged(
                0,
                "the root",
                "of version 1 or 2, with a variant below 5",
                found,
            ));
        };
        let options = AffineOptions {
            node_bytes: reader.u32()?,
            fanout: reader.u32()?,
            element_bytes: reader.u32()?,
            leaf_block_bytes: match version {
                BEFORE => None,
                _ => Some(reader.u32()?).filter(|bytes| *bytes > 0),
            },
            variant,
            memory_bytes,
        };
        let options = options.checked()?;
        let (at, bytes) = (reader.u64()?, reader.u64()?);
        let front = (reader.u32()?, reader.u64()?);
        let heights = usize::from(reader.u8()?);
        if !(2..=MOST_HEIGHTS).contains(&heights) {
            return Err(Error::damaged(46, "the heights", "2 to 64", heights));
        }
        let mut levels = Vec::with_capacity(heights);
        for _ in 0..heights {
            levels.push(reader.u64()?);
        }
        let len = usize::from(reader.u16()?);
        let own = reader.take(len)?.to_vec();
        if len > MOST_OWN || reader.remaining() > 0 {
            return Err(Error::damaged(
                47,
                "the owner's bytes",
                "512 at most, then nothing",
                len,
            ));
        }
        let extent = SpaceExtent { at, bytes };
        Ok(RootRecord {
            options,
            extent,
            front,
            levels,
            own,
        })
    }
}

/// Decodes bytes as each of the formats, for fuzzing. Decoded values must encode to the same
/// bytes.
pub(super) fn reread(bytes: &[u8]) -> usize {
    let mut found = 0;
    for indexes in [IndexPlacement::Front, IndexPlacement::Parent] {
        if let Ok(index) = decode_index(bytes, indexes, 0) {
            assert_eq!(encode_index(&index, indexes), bytes, "an index");
            found += 1;
        }
    }
    if let Ok((index, messages)) = decode_segment(bytes, 0) {
        let mut again = Vec::new();
        encode_segment(&mut again, index, &messages);
        assert_eq!(again, bytes, "a segment");
        found += 1;
    }
    let mut pairs = Vec::new();
    if decode_pairs(bytes, 0, &mut pairs).is_ok() {
        let mut again = Vec::new();
        pairs.iter().for_each(|pair| encode_pair(&mut again, pair));
        assert_eq!(again, bytes, "a sub-block");
        found += 1;
    }
    if let Ok(root) = RootRecord::decode(bytes, 0) {
        let again = root.encode();
        if bytes.first() == Some(&VERSION) {
            assert_eq!(again, bytes, "a root");
        }
        assert_eq!(
            RootRecord::decode(&again, 0).ok(),
            Some(root),
            "a root of either version"
        );
        found += 1;
    }
    found
}

/// Returns sample bytes for each of the formats.
pub(super) fn examples() -> Vec<Vec<u8>> {
    let part = |from: &[u8], below| NodePart {
        from: from.into(),
        bytes: 3,
        sum: 4,
        below,
    };
    let below = |front| ChildLocation {
        extent: SpaceExtent { at: 5, bytes: 6 },
        weight: 7,
        front,
    };
    let front = NodeIndex {
        height: 1,
        parts: vec![
            part(b"", Some(below(Some((8, 9))))),
            part(b"m", Some(below(Some((8, 9))))),
        ],
    };
    let parent = NodeIndex {
        height: 1,
        parts: vec![part(b"", Some(below(None)))],
    };
    let leaf = NodeIndex {
        height: 0,
        parts: vec![part(b"", None), part(b"m", None)],
    };
    let leaf = encode_index(&leaf, IndexPlacement::Parent);
    let message = |key: &[u8], action, operand: &[u8]| TreeMessage {
        key: key.into(),
        action,
        operand: operand.into(),
    };
    let mut segment = Vec::new();
    let messages = [
        message(b"a", MessageAction::Insert, b"12"),
        message(b"b", MessageAction::Delete, b""),
    ];
    encode_segment(&mut segment, &leaf, &messages);
    let mut pairs = Vec::new();
    for (key, value) in [(&b"Elbe"[..], &b"1094"[..]), (b"Oder", b"840")] {
        let (key, value) = (key.into(), value.into());
        encode_pair(&mut pairs, &LeafPair { key, value });
    }
    let root = RootRecord {
        options: AffineOptions::default(),
        extent: SpaceExtent { at: 1, bytes: 2 },
        front: (3, 4),
        levels: vec![9, 1],
        own: b"own".to_vec(),
    };
    vec![
        encode_index(&front, IndexPlacement::Front),
        encode_index(&parent, IndexPlacement::Parent),
        leaf,
        segment,
        pairs,
        root.encode(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_never_change() {
        let all = examples();
        let sums: Vec<u64> = all.iter().map(|bytes| alluvium_base::checksum(bytes)).collect();
        let lens: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(
            lens,
            [
                INDEX_HEAD + 2 * FRONT_PART + 1,
                INDEX_HEAD + INNER_PART,
                INDEX_HEAD + 2 * LEAF_PART + 1,
                SEGMENT_HEAD + 34 + 2 * 7 + 4,
                2 * 6 + 15,
                47 + 16 + 2 + 3
            ]
        );
        assert_eq!(sums, SUMS);
        assert_eq!(all[4][..10], [4, 0, 4, 0, 0, 0, b'E', b'l', b'b', b'e']);
    }

    const SUMS: [u64; 6] = [
        5_475_770_567_396_437_380,
        2_347_713_521_069_333_124,
        13_764_813_057_356_273_481,
        2_237_997_898_361_054_748,
        6_316_791_366_837_556_086,
        14_017_559_815_376_032_516,
    ];

    #[test]
    fn a_root_of_version_1_is_read_and_chose_no_sub_block() {
        let now = examples().pop().unwrap();
        let mut before = now.clone();
        before[0] = 1;
        before.drain(14..18);
        assert_eq!(
            RootRecord::decode(&before, 9).unwrap(),
            RootRecord::decode(&now, 9).unwrap()
        );
        assert!(reread(&before) > 0);
        let mut chosen = RootRecord::decode(&now, 9).unwrap();
        chosen.options.leaf_block_bytes = Some(64 << 10);
        let bytes = chosen.encode();
        assert_eq!(bytes[14..18], [0, 0, 1, 0]);
        assert_eq!(RootRecord::decode(&bytes, 9).unwrap(), chosen);
    }

    #[test]
    fn wrong_bytes_are_refused_with_what_was_found() {
        for example in examples() {
            assert!(reread(&example) > 0);
            for end in 0..example.len() {
                let _ = reread(&example[..end]);
            }
            for at in 0..example.len() {
                let mut wrong = example.clone();
                wrong[at] ^= 0x41;
                let _ = reread(&wrong);
            }
        }
        let many = [0, 0xff, 0xff, 0xff, 0xff, 0, 0];
        let error = decode_index(&many, IndexPlacement::Front, 77)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("byte 77") && error.contains("4294967295 parts"),
            "{error}"
        );
        assert!(
            RootRecord::decode(&[3, 0], 0)
                .unwrap_err()
                .to_string()
                .contains("version 3")
        );
        assert!(decode_segment(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9], 3).is_err());
    }
}
