//! On-disk format of a superblock, version 2. All integers are little-endian.
//!
//! The file `superblock` has four slots of 4096 bytes. Slots 0 and 1 hold two copies of one
//! generation, and slots 2 and 3 two copies of another. The first 16 and last 8 bytes will keep
//! their meaning in all later versions.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  magic "ALLUVIUM"
//!      8     4  format version: 2
//!     12     4  slot: 0 to 3
//!     16    16  store id
//!     32     8  generation, at least 1
//!     40     8  cut: every commit with a sequence number up to this one is in this generation
//!     48     8  log sequence that was known to be synced
//!     56     4  page size in bytes
//!     60     1  number of tiers
//!     61     1  zero
//!     62     2  length of the payload, at most 3,960
//!     64    48  pointer to the extent map: see `extents/format.rs`
//!    112    16  zero
//!    128     …  payload: what the floor above keeps (the root of its tree), then zeros
//!   4088     8  XXH3-64 of bytes 0 to 4087
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::extents::MapPointer;
use crate::{DiskLocation, Error, IMPOSSIBLE, OnDiskObject, PageSize, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum;

/// The format version of new superblocks, which is also the only version that can be read.
pub const FORMAT_VERSION: u32 = 2;
/// Size in bytes of a slot, which holds one copy of a superblock.
pub const SLOT_BYTES: usize = 4096;
/// Number of slots, for two copies of each of two generations.
pub const SLOTS: usize = 4;
/// Maximum size in bytes of the payload in a superblock.
pub const MAX_PAYLOAD: usize = CHECKSUM_AT - PAYLOAD_AT;

const MAGIC: &[u8; 8] = b"ALLUVIUM";
const MAP_POINTER_AT: usize = 64;
const PAYLOAD_AT: usize = 128;
const CHECKSUM_AT: usize = SLOT_BYTES - 8;

const _: () = assert!(MAP_POINTER_AT + MapPointer::BYTES <= PAYLOAD_AT);
const _: () = assert!(MAX_PAYLOAD == 3960 && MAX_PAYLOAD <= u16::MAX as usize);

/// The contents of a superblock, which describe one generation of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The id of the store.
    pub store: u128,
    /// The number of the generation, starting at 1.
    pub generation: u64,
    /// The generation contains every commit up to this sequence number.
    pub cut: u64,
    /// The synced watermark of the log when the superblock was written.
    pub synced: u64,
    pub page_size: PageSize,
    pub tiers: u8,
    /// Pointer to the extent map of this generation.
    pub map: MapPointer,
    /// Bytes that the next higher crate keeps in the superblock.
    pub payload: Vec<u8>,
}

/// The contents of one slot.
#[derive(Debug)]
pub enum SuperblockSlot {
    /// All zeros: the slot was never written.
    Empty,
    Valid(Superblock),
    /// The slot is invalid for this reason.
    Bad(Error),
}

/// Returns the location of a slot, for error messages.
pub(super) fn place(slot: usize) -> DiskLocation {
    DiskLocation::new(OnDiskObject::Superblock, super::FILE, (slot * SLOT_BYTES) as u64)
}

impl Superblock {
    /// Returns the bytes of this superblock for its copy in `slot`.
    ///
    /// # Panics
    /// If the payload is longer than [`MAX_PAYLOAD`].
    #[must_use]
    pub fn encode(&self, slot: usize) -> Vec<u8> {
        assert!(
            self.payload.len() <= MAX_PAYLOAD,
            "a payload of {} bytes",
            self.payload.len()
        );
        let mut out = Vec::with_capacity(SLOT_BYTES);
        ByteWriter::new(&mut out)
            .bytes(MAGIC)
            .u32(FORMAT_VERSION)
            .u32(slot as u32)
            .u128(self.store)
            .u64(self.generation)
            .u64(self.cut)
            .u64(self.synced)
            .u32(self.page_size.bytes() as u32)
            .u8(self.tiers)
            .u8(0)
            .u16(self.payload.len() as u16);
        self.map.encode(&mut out);
        out.resize(PAYLOAD_AT, 0);
        out.extend_from_slice(&self.payload);
        out.resize(CHECKSUM_AT, 0);
        debug_assert_eq!(out.len(), CHECKSUM_AT, "the checksum is last");
        let sum = checksum(&out);
        ByteWriter::new(&mut out).u64(sum);
        out
    }
}

impl SuperblockSlot {
    /// Decodes the contents of `slot`. Errors are returned as [`SuperblockSlot::Bad`].
    #[must_use]
    pub fn decode(bytes: &[u8], slot: usize) -> SuperblockSlot {
        if bytes.len() == SLOT_BYTES && bytes.iter().all(|&byte| byte == 0) {
            return SuperblockSlot::Empty;
        }
        match decode(bytes, slot) {
            Ok(superblock) => SuperblockSlot::Valid(superblock),
            Err(error) => SuperblockSlot::Bad(error),
        }
    }
}

fn decode(bytes: &[u8], slot: usize) -> Result<Superblock> {
    let bad = |expected: &str, found: String| Error::corrupt(place(slot), expected, found);
    if bytes.len() != SLOT_BYTES {
        return Err(bad("4096 bytes", format!("{} bytes", bytes.len())));
    }
    let short = |error: TruncatedInput| bad("a superblock", error.to_string());
    let (body, sum) = bytes.split_at(CHECKSUM_AT);
    let mut reader = ByteReader::new(body);
    let magic = reader.take(MAGIC.len()).map_err(short)?;
    if magic != MAGIC {
        return Err(bad(
            "the magic \"ALLUVIUM\"",
            format!("{:?}", String::from_utf8_lossy(magic)),
        ));
    }
    let (written, found) = (ByteReader::new(sum).u64().map_err(short)?, checksum(body));
    if written != found {
        return Err(bad(&format!("checksum {written:016x}"), format!("{found:016x}")));
    }
    let version = reader.u32().map_err(short)?;
    if version < FORMAT_VERSION {
        return Err(Error::OlderFormat {
            place: place(slot),
            found: version,
            supported: FORMAT_VERSION,
        });
    }
    if version > FORMAT_VERSION {
        return Err(Error::NewerFormat {
            place: place(slot),
            found: version,
            supported: FORMAT_VERSION,
        });
    }
    let named = reader.u32().map_err(short)?;
    if named as usize != slot {
        return Err(bad(
            &format!("the copy of slot {slot}"),
            format!("that of slot {named}"),
        ));
    }
    fields(&mut reader, slot)
}

/// Decodes the fields that follow the slot number.
fn fields(reader: &mut ByteReader<'_>, slot: usize) -> Result<Superblock> {
    let bad = |found: String| Error::corrupt(place(slot), "a plausible superblock", found);
    let mut read = || -> std::result::Result<_, TruncatedInput> {
        let (store, generation, cut, synced) = (reader.u128()?, reader.u64()?, reader.u64()?, reader.u64()?);
        let (page_size, tiers, zero, len) = (reader.u32()?, reader.u8()?, reader.u8()?, reader.u16()?);
        let map = reader.take(MapPointer::BYTES)?;
        let padding = reader.take(PAYLOAD_AT - MAP_POINTER_AT - MapPointer::BYTES)?;
        let payload = reader.take(usize::from(len))?.to_vec();
        let zeros = zero == 0 && padding.iter().all(|&byte| byte == 0);
        Ok((
            store, generation, cut, synced, page_size, tiers, zeros, map, payload,
        ))
    };
    let (store, generation, cut, synced, page_size, tiers, zeros, map, payload) =
        read().map_err(|error| bad(error.to_string()))?;
    let page_size = PageSize::new(page_size).map_err(|error| bad(error.to_string()))?;
    let map = MapPointer::decode(&mut ByteReader::new(map), &place(slot))?;
    if generation == 0 || !zeros || !(1..=crate::tiers::MAX_TIERS).contains(&usize::from(tiers)) {
        return Err(bad(format!("generation {generation}, {tiers} tiers")));
    }
    let growing = [generation, cut, synced, map.file, map.generation];
    if growing.iter().any(|&number| number >= IMPOSSIBLE) {
        return Err(bad(format!(
            "generation {generation}, cut {cut}, synced {synced}, {map:?}"
        )));
    }
    Ok(Superblock {
        store,
        generation,
        cut,
        synced,
        page_size,
        tiers,
        map,
        payload,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            store: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
            generation: 9,
            cut: 77,
            synced: 78,
            page_size: PageSize::MIN,
            tiers: 2,
            map: MapPointer {
                file: 3,
                length: 1024,
                checksum: 0x4d,
                generation: 9,
                snapshot: 512,
                records: 2,
            },
            payload: b"root".to_vec(),
        }
    }

    #[test]
    fn the_bytes_of_version_2_do_not_change() {
        let bytes = superblock().encode(3);
        let hex: String = bytes[..132].iter().map(|byte| format!("{byte:02x}")).collect();
        let map = "030000000000000000040000000000004d0000000000000009000000000000000002000000000000\
                   020000000000000000000000000000000000000000000000";
        let fixed = "414c4c555649554d0200000003000000100f0e0d0c0b0a0908070605040302010900000000000000\
                     4d000000000000004e000000000000000010000002000400";
        assert_eq!(hex, format!("{fixed}{map}726f6f74"));
        assert_eq!(
            checksum(&bytes),
            SNAPSHOT,
            "the rest of the slot, its checksum included"
        );
    }

    const SNAPSHOT: u64 = 6517008359724140220;

    #[test]
    fn a_superblock_is_read_back_from_its_own_slot_only() {
        let bytes = superblock().encode(2);
        assert!(
            matches!(SuperblockSlot::decode(&bytes, 2), SuperblockSlot::Valid(found) if found == superblock())
        );
        assert!(
            matches!(
                SuperblockSlot::decode(&bytes, 0),
                SuperblockSlot::Bad(Error::Corrupt { .. })
            ),
            "a misdirected copy"
        );
        assert!(matches!(
            SuperblockSlot::decode(&[0; SLOT_BYTES], 1),
            SuperblockSlot::Empty
        ));
        assert!(matches!(
            SuperblockSlot::decode(&bytes[..4000], 2),
            SuperblockSlot::Bad(_)
        ));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = superblock().encode(0);
        for bit in 0..SLOT_BYTES * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(SuperblockSlot::decode(&bad, 0), SuperblockSlot::Bad(_)),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_newer_version_is_its_own_error() {
        let mut bytes = superblock().encode(0);
        bytes[8] = 3;
        sign(&mut bytes);
        assert!(matches!(
            SuperblockSlot::decode(&bytes, 0),
            SuperblockSlot::Bad(Error::NewerFormat { found: 3, .. })
        ));
    }

    fn sign(bytes: &mut Vec<u8>) {
        let sum = checksum(&bytes[..CHECKSUM_AT]);
        bytes.truncate(CHECKSUM_AT);
        ByteWriter::new(bytes).u64(sum);
    }

    #[test]
    fn an_older_version_is_refused_with_the_command_that_exports_the_store() {
        let mut bytes = superblock().encode(0);
        bytes[8] = 1;
        sign(&mut bytes);
        let SuperblockSlot::Bad(error @ Error::OlderFormat { found: 1, .. }) =
            SuperblockSlot::decode(&bytes, 0)
        else {
            panic!("version 1 is not read any more");
        };
        assert!(error.to_string().contains("`alluvium export"), "{error}");
    }

    #[test]
    fn an_impossibly_high_number_is_damage() {
        let good = superblock();
        for bad in [
            Superblock {
                generation: IMPOSSIBLE,
                ..good.clone()
            },
            Superblock {
                cut: u64::MAX,
                ..good.clone()
            },
            Superblock {
                synced: u64::MAX,
                ..good
            },
        ] {
            let read = SuperblockSlot::decode(&bad.encode(1), 1);
            assert!(
                matches!(read, SuperblockSlot::Bad(Error::Corrupt { .. })),
                "{read:?}"
            );
        }
    }
}
