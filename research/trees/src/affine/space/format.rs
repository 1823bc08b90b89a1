//! The encoding of the first blocks of an affine dictionary's file and of its map of extents,
//! version 1. All integers are little-endian.
//!
//! A file starts with two slots of 4 KiB. The parity of a commit's generation selects the slot
//! that the commit writes. The valid slot with the higher generation is current.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  XXH3-64 of the slot from byte 8 on
//!      8     4  "AAFF"
//!     12     4  version, 1
//!     16     8  generation
//!     24     8  first byte of the map
//!     32     8  bytes of the map
//!     40     8  XXH3-64 of the map
//!     48     2  n: bytes of the root
//!     50     n  the root
//!            …  zeros
//! ```
//!
//! A map lists the extents in use, in order, as varints: the number of 512-byte blocks between
//! the end of the previous extent and the start of this one, and the size in bytes.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::SpaceExtent;
use crate::affine::error::{Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_base::checksum::checksum;

const MAGIC: u32 = u32::from_le_bytes(*b"AAFF");
const VERSION: u32 = 1;
/// The size of a slot in bytes.
pub(super) const SLOT: u64 = 4096;
/// The alignment of extents in bytes.
pub(super) const BLOCK: u64 = 512;
/// The maximum size of a root in bytes.
pub(super) const MOST_ROOT: usize = 2048;
const _: () = assert!(50 + MOST_ROOT as u64 <= SLOT && alluvium_device::BLOCK == BLOCK);

/// The decoded contents of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitSlot {
    pub(super) generation: u64,
    pub(super) map: SpaceExtent,
    pub(super) map_sum: u64,
    pub(super) root: Vec<u8>,
}

impl CommitSlot {
    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(self.root.len() <= MOST_ROOT, "a root fits a slot");
        let mut rest = Vec::with_capacity(SLOT as usize);
        ByteWriter::new(&mut rest)
            .u32(MAGIC)
            .u32(VERSION)
            .u64(self.generation)
            .u64(self.map.at)
            .u64(self.map.bytes)
            .u64(self.map_sum)
            .u16(self.root.len() as u16)
            .bytes(&self.root);
        rest.resize(SLOT as usize - 8, 0);
        let mut out = Vec::with_capacity(SLOT as usize);
        ByteWriter::new(&mut out).u64(checksum(&rest)).bytes(&rest);
        out
    }

    /// Decodes a slot; `None` if it is invalid.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<CommitSlot>> {
        let mut reader = ByteReader::new(bytes);
        let sum = reader.u64()?;
        if bytes.len() as u64 != SLOT || checksum(bytes.get(8..).unwrap_or_default()) != sum {
            return Ok(None);
        }
        if reader.u32()? != MAGIC {
            return Ok(None);
        }
        let version = reader.u32()?;
        if version != VERSION {
            return Err(Error::damaged(12, "the version of the file", VERSION, version));
        }
        let (generation, at, bytes, map_sum) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        let len = usize::from(reader.u16()?);
        if len > MOST_ROOT {
            return Err(Error::damaged(48, "the length of the root", MOST_ROOT, len));
        }
        let root = reader.take(len)?.to_vec();
        let map = SpaceExtent { at, bytes };
        Ok(Some(CommitSlot {
            generation,
            map,
            map_sum,
            root,
        }))
    }
}

pub(super) fn encode_map(extents: impl Iterator<Item = SpaceExtent>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ByteWriter::new(&mut out);
    let mut end = 0;
    for extent in extents {
        debug_assert!(extent.at >= end, "extents are in order");
        writer.varint((extent.at - end) / BLOCK).varint(extent.bytes);
        end = (extent.at + extent.bytes).next_multiple_of(BLOCK);
    }
    out
}

pub(super) fn decode_map(bytes: &[u8]) -> Result<Vec<SpaceExtent>> {
    let mut reader = ByteReader::new(bytes);
    let mut extents = Vec::new();
    let mut end = 0u64;
    while reader.remaining() > 0 {
        let position = reader.position() as u64;
        let (gap, bytes) = (reader.varint()?, reader.varint()?);
        let at = gap.checked_mul(BLOCK).and_then(|gap| end.checked_add(gap));
        let after = at
            .and_then(|at| at.checked_add(bytes))
            .and_then(|after| after.checked_next_multiple_of(BLOCK));
        let (Some(at), Some(after)) = (at, after) else {
            let found = format!("{bytes} bytes {gap} blocks behind {end}");
            return Err(Error::damaged(position, "an extent", "below 2^64", found));
        };
        extents.push(SpaceExtent { at, bytes });
        end = after;
    }
    Ok(extents)
}

/// Decodes bytes as a slot or a map, for fuzzing.
pub(in crate::affine) fn reread(bytes: &[u8]) -> usize {
    let mut found = 0;
    if let Ok(Some(slot)) = CommitSlot::decode(bytes) {
        assert_eq!(
            CommitSlot::decode(&slot.encode()).ok().flatten(),
            Some(slot),
            "a slot"
        );
        found += 1;
    }
    if let Ok(extents) = decode_map(bytes) {
        let again = encode_map(extents.iter().copied());
        assert_eq!(decode_map(&again).ok(), Some(extents), "a map");
        found += 1;
    }
    found
}

/// Returns sample bytes for a slot and a map.
pub(in crate::affine) fn examples() -> Vec<Vec<u8>> {
    let extents = [
        SpaceExtent { at: 8192, bytes: 700 },
        SpaceExtent {
            at: 10_240,
            bytes: 512,
        },
    ];
    let map = encode_map(extents.into_iter());
    let slot = CommitSlot {
        generation: 7,
        map: SpaceExtent {
            at: 16_384,
            bytes: map.len() as u64,
        },
        map_sum: checksum(&map),
        root: b"root".to_vec(),
    };
    vec![slot.encode(), map]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_slots_and_maps_never_change() {
        let [slot, map] = examples().try_into().unwrap();
        assert_eq!(map, [16, 0xbc, 5, 2, 0x80, 4]);
        let head = [
            b'A', b'A', b'F', b'F', 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0,
            0, 0, 0, 0,
        ];
        assert_eq!(slot[8..40], head);
        assert_eq!(slot[48..56], [4, 0, b'r', b'o', b'o', b't', 0, 0]);
        assert_eq!(slot.len() as u64, SLOT);
    }

    #[test]
    fn torn_slots_and_impossible_extents_are_refused() {
        let [mut slot, _] = examples().try_into().unwrap();
        slot[100] ^= 1;
        assert!(CommitSlot::decode(&slot).unwrap().is_none());
        assert!(CommitSlot::decode(&slot[..4000]).unwrap().is_none());
        assert!(CommitSlot::decode(&[]).is_err());
        let mut far = Vec::new();
        ByteWriter::new(&mut far).varint(u64::MAX).varint(1);
        let error = decode_map(&far).unwrap_err().to_string();
        assert!(error.contains("an extent"), "{error}");
        assert!(decode_map(&[0x80]).is_err());
    }
}
