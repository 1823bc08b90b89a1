//! On-disk format of the marker file of a tier's directory, version 1. All integers are
//! little-endian.
//!
//! The directory of every tier but the first contains a marker file of 4096 bytes. Its first 16 and
//! last 8 bytes will keep their meaning in all later versions.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  magic "ALLUTIER"
//!      8     4  format version: 1
//!     12     4  number of the tier: 1 to 7
//!     16    16  id of the store, as in its superblock
//!     32  4056  zero
//!   4088     8  XXH3-64 of bytes 0 to 4087
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::MAX_TIERS;
use crate::{DiskLocation, Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum;

/// The format version of new marker files, which is also the newest that can be read.
pub const FORMAT_VERSION: u32 = 1;
/// Size of a marker file in bytes.
pub const MARK_BYTES: usize = 4096;

const MAGIC: &[u8; 8] = b"ALLUTIER";
const CHECKSUM_AT: usize = MARK_BYTES - 8;

const _: () = assert!((MARK_BYTES as u64).is_multiple_of(alluvium_device::BLOCK));
const _: () = assert!(
    MAX_TIERS <= u8::MAX as usize,
    "a tier's number is a byte in pointers"
);

/// The contents of a marker file, which identify a tier's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierMark {
    /// The identity of the store to which the tier belongs.
    pub store: u128,
    /// The number of the tier, from 1 to 7.
    pub tier: u8,
}

impl TierMark {
    /// Returns the contents of the marker file.
    ///
    /// # Panics
    /// If the tier is 0, which has no marker file, or above the maximum.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(
            is_further(self.tier.into()),
            "tier {} has no mark (T2)",
            self.tier
        );
        let mut out = Vec::with_capacity(MARK_BYTES);
        ByteWriter::new(&mut out)
            .bytes(MAGIC)
            .u32(FORMAT_VERSION)
            .u32(self.tier.into())
            .u128(self.store);
        out.resize(CHECKSUM_AT, 0);
        let sum = checksum(&out);
        ByteWriter::new(&mut out).u64(sum);
        debug_assert_eq!(out.len(), MARK_BYTES, "the checksum is last");
        out
    }

    /// Decodes the contents of a marker file.
    ///
    /// # Errors
    /// [`Error::NewerFormat`]; [`Error::Corrupt`] if the bytes are not a valid marker file.
    pub fn decode(bytes: &[u8], place: &DiskLocation) -> Result<TierMark> {
        let bad = |expected: &str, found: String| Error::corrupt(place.clone(), expected, found);
        if bytes.len() != MARK_BYTES {
            return Err(bad("4096 bytes", format!("{} bytes", bytes.len())));
        }
        let short = |error: TruncatedInput| bad("the mark of a tier", error.to_string());
        let (body, sum) = bytes.split_at(CHECKSUM_AT);
        let mut reader = ByteReader::new(body);
        let magic = reader.take(MAGIC.len()).map_err(short)?;
        if magic != MAGIC {
            let found = format!("{:?}", String::from_utf8_lossy(magic));
            return Err(bad("the magic \"ALLUTIER\"", found));
        }
        let (written, found) = (ByteReader::new(sum).u64().map_err(short)?, checksum(body));
        if written != found {
            return Err(bad(&format!("checksum {written:016x}"), format!("{found:016x}")));
        }
        let version = reader.u32().map_err(short)?;
        if version > FORMAT_VERSION {
            return Err(Error::NewerFormat {
                place: place.clone(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        let (tier, store) = (reader.u32().map_err(short)?, reader.u128().map_err(short)?);
        let is_zero = reader
            .take(reader.remaining())
            .map_err(short)?
            .iter()
            .all(|&byte| byte == 0);
        match u8::try_from(tier) {
            Ok(tier) if version == FORMAT_VERSION && is_further(tier.into()) && is_zero => {
                Ok(TierMark { store, tier })
            }
            _ => Err(bad(
                "the mark of a tier",
                format!("version {version}, tier {tier}"),
            )),
        }
    }
}

/// Returns whether a tier has a marker file. All do except the first, whose directory contains the
/// superblock.
fn is_further(tier: usize) -> bool {
    (1..MAX_TIERS).contains(&tier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OnDiskObject;

    fn mark() -> TierMark {
        TierMark {
            store: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
            tier: 7,
        }
    }

    fn decode(bytes: &[u8]) -> Result<TierMark> {
        TierMark::decode(bytes, &DiskLocation::new(OnDiskObject::TierMark, "tier", 0))
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let bytes = mark().encode();
        let hex: String = bytes[..40].iter().map(|byte| format!("{byte:02x}")).collect();
        let fixed = "414c4c55544945520100000007000000100f0e0d0c0b0a090807060504030201";
        assert_eq!(hex, format!("{fixed}0000000000000000"));
        assert_eq!(checksum(&bytes), SNAPSHOT, "the rest, its checksum included");
    }

    const SNAPSHOT: u64 = 17147803828207296683;

    #[test]
    fn a_mark_is_read_back_and_every_flipped_bit_is_found() {
        let bytes = mark().encode();
        assert_eq!(decode(&bytes).unwrap(), mark());
        for bit in 0..MARK_BYTES * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decode(&bad), Err(Error::Corrupt { .. })), "bit {bit}");
        }
        assert!(matches!(decode(&bytes[..4095]), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_newer_version_and_an_impossible_tier_are_refused() {
        let signed = |at: usize, byte: u8| {
            let mut bytes = mark().encode();
            bytes[at] = byte;
            let sum = checksum(&bytes[..CHECKSUM_AT]);
            bytes.truncate(CHECKSUM_AT);
            ByteWriter::new(&mut bytes).u64(sum);
            decode(&bytes)
        };
        assert!(matches!(signed(8, 2), Err(Error::NewerFormat { found: 2, .. })));
        for (at, byte) in [(8, 0), (12, 0), (12, 8), (13, 1), (40, 1)] {
            assert!(
                matches!(signed(at, byte), Err(Error::Corrupt { .. })),
                "{byte} at {at}"
            );
        }
    }
}
