//! On-disk format of the list of a store's tiers other than the first, version 1. All integers are
//! little-endian.
//!
//! If a store has several tiers, its first directory contains this list in a file whose size is a
//! multiple of 4096 bytes. The first 16 and last 8 bytes will keep their meaning in all later
//! versions.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  magic "ALLULIST"
//!      8     4  format version: 1
//!     12     4  length of the entries, in bytes
//!     16    16  id of the store, as in its superblock
//!     32     …  entries, by the number of their tiers; then zeros
//!     -8     8  XXH3-64 of all bytes before
//! ```
//!
//! Each entry has this format:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  number of the tier: 1 to 7
//!      1     1  1 if the tier is drained: it takes nothing new; else 0
//!      2     2  length of the path: 1 to 4095
//!      4     8  most bytes that the tier may take; all ones: no limit
//!     12     …  the path of its directory
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{TierEntry, TierList};
use crate::tiers::MAX_TIERS;
use crate::{DiskLocation, Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum;

/// The format version of new lists, which is also the newest that can be read.
pub const FORMAT_VERSION: u32 = 1;
/// Maximum length in bytes of a directory's path.
pub const MAX_PATH: usize = 4095;
/// Maximum size of the list file in bytes.
pub const MAX_BYTES: usize = 8 * PAGE;

const MAGIC: &[u8; 8] = b"ALLULIST";
const ENTRIES_AT: usize = 32;
const ENTRY_BYTES: usize = 12;
const PAGE: usize = 4096;
const CHECKSUM_BYTES: usize = 8;
/// The encoded size limit of a tier without a limit.
const UNLIMITED: u64 = u64::MAX;

const _: () = assert!((PAGE as u64).is_multiple_of(alluvium_device::BLOCK));
const _: () = assert!(ENTRIES_AT + (MAX_TIERS - 1) * (ENTRY_BYTES + MAX_PATH) + CHECKSUM_BYTES <= MAX_BYTES);

impl TierList {
    /// Returns the contents of the list file.
    ///
    /// # Panics
    /// If the tiers are not in ascending order from 1 to 7, or if a path is empty or longer than
    /// [`MAX_PATH`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut entries = Vec::new();
        let mut before = 0;
        for listed in &self.tiers {
            let path = listed.path.as_bytes();
            assert!(
                before < listed.tier && usize::from(listed.tier) < MAX_TIERS,
                "tier {} after {before} (T4)",
                listed.tier
            );
            assert!(
                (1..=MAX_PATH).contains(&path.len()),
                "a path of {} bytes",
                path.len()
            );
            before = listed.tier;
            ByteWriter::new(&mut entries)
                .u8(listed.tier)
                .u8(u8::from(listed.is_drained))
                .u16(path.len() as u16)
                .u64(listed.max_bytes.unwrap_or(UNLIMITED))
                .bytes(path);
        }
        let mut out = Vec::new();
        ByteWriter::new(&mut out)
            .bytes(MAGIC)
            .u32(FORMAT_VERSION)
            .u32(entries.len() as u32)
            .u128(self.store)
            .bytes(&entries);
        out.resize(
            (out.len() + CHECKSUM_BYTES).next_multiple_of(PAGE) - CHECKSUM_BYTES,
            0,
        );
        let sum = checksum(&out);
        ByteWriter::new(&mut out).u64(sum);
        debug_assert!(out.len() <= MAX_BYTES, "{} bytes of a list", out.len());
        out
    }

    /// Decodes the contents of a list file.
    ///
    /// # Errors
    /// [`Error::NewerFormat`]; [`Error::Corrupt`] if the bytes are not a valid list.
    pub fn decode(bytes: &[u8], place: &DiskLocation) -> Result<TierList> {
        let bad = |expected: &str, found: String| Error::corrupt(place.clone(), expected, found);
        let short = |error: TruncatedInput| bad("a list of tiers", error.to_string());
        let len = bytes.len();
        if !(PAGE..=MAX_BYTES).contains(&len) || !len.is_multiple_of(PAGE) {
            let expected = format!("a multiple of {PAGE} bytes, at most {MAX_BYTES}");
            return Err(bad(&expected, format!("{len} bytes")));
        }
        let (body, sum) = bytes.split_at(len - CHECKSUM_BYTES);
        let mut reader = ByteReader::new(body);
        let magic = reader.take(MAGIC.len()).map_err(short)?;
        if magic != MAGIC {
            let found = format!("{:?}", String::from_utf8_lossy(magic));
            return Err(bad("the magic \"ALLULIST\"", found));
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
        let (entries, store) = (reader.u32().map_err(short)?, reader.u128().map_err(short)?);
        let entries = reader.take(entries as usize).map_err(short)?;
        let rest = reader.take(reader.remaining()).map_err(short)?;
        if version != FORMAT_VERSION || rest.iter().any(|&byte| byte != 0) {
            return Err(bad("a list of tiers", format!("version {version}")));
        }
        let tiers = read_entries(entries).map_err(|found| bad("a list of tiers", found))?;
        Ok(TierList { store, tiers })
    }
}

/// Decodes the entries of a list. The error says what is wrong with them.
fn read_entries(bytes: &[u8]) -> std::result::Result<Vec<TierEntry>, String> {
    let mut reader = ByteReader::new(bytes);
    let mut tiers: Vec<TierEntry> = Vec::new();
    while reader.remaining() > 0 {
        let mut read = || -> std::result::Result<_, TruncatedInput> {
            let (tier, drained, len, most) = (reader.u8()?, reader.u8()?, reader.u16()?, reader.u64()?);
            Ok((tier, drained, most, reader.take(usize::from(len))?))
        };
        let (tier, drained, most, path) = read().map_err(|error| error.to_string())?;
        let before = tiers.last().map_or(0, |listed| listed.tier);
        let is_next = before < tier && usize::from(tier) < MAX_TIERS;
        if !is_next || drained > 1 || !(1..=MAX_PATH).contains(&path.len()) {
            return Err(format!(
                "tier {tier} after {before}, a path of {} bytes",
                path.len()
            ));
        }
        let path = std::str::from_utf8(path).map_err(|error| format!("a path: {error}"))?;
        tiers.push(TierEntry {
            tier,
            path: path.to_owned(),
            max_bytes: Some(most).filter(|&most| most != UNLIMITED),
            is_drained: drained == 1,
        });
    }
    Ok(tiers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OnDiskObject;

    fn list() -> TierList {
        let listed = |tier, path: &str, max_bytes| TierEntry {
            tier,
            path: path.to_owned(),
            max_bytes,
            is_drained: tier == 3,
        };
        TierList {
            store: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
            tiers: vec![listed(1, "/slow", Some(1 << 40)), listed(3, "/slower", None)],
        }
    }

    fn decode(bytes: &[u8]) -> Result<TierList> {
        TierList::decode(bytes, &DiskLocation::new(OnDiskObject::TierList, "tiers", 0))
    }

    /// Returns the bytes with a recomputed checksum.
    fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.truncate(bytes.len() - CHECKSUM_BYTES);
        let sum = checksum(&bytes);
        ByteWriter::new(&mut bytes).u64(sum);
        bytes
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let bytes = list().encode();
        let hex: String = bytes[..70].iter().map(|byte| format!("{byte:02x}")).collect();
        let header = "414c4c554c495354010000002400000\
                      0100f0e0d0c0b0a090807060504030201";
        let first = "01000500000000000001\
                     00002f736c6f77";
        let second = "03010700ffffffffffffffff2f736c6f776572";
        assert_eq!(hex, format!("{header}{first}{second}0000"));
        assert_eq!(bytes.len(), PAGE);
    }

    #[test]
    fn a_list_is_read_back_and_every_flipped_bit_is_found() {
        let bytes = list().encode();
        assert_eq!(decode(&bytes).unwrap(), list());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decode(&bad), Err(Error::Corrupt { .. })), "bit {bit}");
        }
        assert!(decode(&bytes[..PAGE - 1]).is_err() && decode(&[]).is_err());
    }

    #[test]
    fn the_longest_list_fits_and_impossible_entries_are_refused() {
        let longest = TierList {
            store: 7,
            tiers: (1..8)
                .map(|tier| TierEntry {
                    tier,
                    path: "x".repeat(MAX_PATH),
                    max_bytes: None,
                    is_drained: false,
                })
                .collect(),
        };
        assert_eq!(decode(&longest.encode()).unwrap(), longest);
        let with = |at: usize, byte: u8| {
            let mut bytes = list().encode();
            bytes[at] = byte;
            decode(&signed(bytes))
        };
        assert!(matches!(with(8, 2), Err(Error::NewerFormat { found: 2, .. })));
        // The damaged bytes are, in order: the version, the length of the entries, tier numbers,
        // the drained flag, the length of a path, a byte of a path, and the padding.
        for (at, byte) in [
            (8, 0),
            (12, 0x25),
            (32, 0),
            (32, 8),
            (32, 4),
            (33, 2),
            (34, 0),
            (44, 0xff),
            (80, 1),
        ] {
            assert!(
                matches!(with(at, byte), Err(Error::Corrupt { .. })),
                "{byte} at {at}"
            );
        }
    }
}
