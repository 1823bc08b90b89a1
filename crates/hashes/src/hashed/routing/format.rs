//! On-disk encoding of a routing filter, version 1. All integers are little-endian.
//!
//! The description:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic "AHRF"
//!      4     1  version, 1
//!      5     1  bits of a hash before the prefix
//!      6     1  bits of a prefix, 1 to 40
//!      7     1  bits of a character, 1 to 8
//!      8     1  which check character sketches have, from the last; 0 for latest runs
//!      9     1  zero
//!     10     2  runs of the level
//!     12     4  zero
//!     16     8  prefixes that have a run, or sketches
//!     24        a listing of its pages: `hashed/lists/format.rs`
//! ```
//!
//! The pages of a filter of latest runs contain one character per prefix, packed without gaps even
//! across pages: `crates/filters/src/routing/array.rs`. The pages of a filter of sketches are
//! encoded as in `hashed/lists/format.rs`.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{RoutingFilterDescription, RoutingFilterShape};
use crate::hashed::lists::{PageListing, PagedDescription};
use crate::hashed::pages::{self, DescriptionError};
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_filters::routing::RoutingArray;
use alluvium_storage::{DiskLocation, PageSize, Result};

const MAGIC: [u8; 4] = *b"AHRF";
const VERSION: u8 = 1;

impl PagedDescription for RoutingFilterDescription {
    const NAME: &'static str = "a routing filter";

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        ByteWriter::new(&mut out)
            .bytes(&MAGIC)
            .u8(VERSION)
            .u8(self.shape.skipped_bits)
            .u8(self.shape.prefix_bits)
            .u8(self.shape.character_bits)
            .u8(self.shape.check_level)
            .u8(0)
            .u16(self.runs)
            .u32(0)
            .u64(self.entries);
        self.listing.encode(&mut out);
        out
    }

    fn decode(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<RoutingFilterDescription> {
        pages::decode(bytes, place, Self::NAME, (MAGIC, VERSION), |reader| {
            read(reader, place, page_size)
        })
    }

    fn listing(&self) -> &PageListing {
        &self.listing
    }

    fn entry_bits(&self) -> (u32, u32) {
        (self.shape.prefix_bits.into(), self.shape.sketch_bits().into())
    }

    fn entries(&self) -> u64 {
        self.entries
    }
}

fn read(
    reader: &mut ByteReader<'_>,
    place: &DiskLocation,
    page_size: PageSize,
) -> std::result::Result<RoutingFilterDescription, DescriptionError> {
    let (magic, version) = (reader.take(MAGIC.len())?, reader.u8()?);
    let shape = RoutingFilterShape {
        skipped_bits: reader.u8()?,
        prefix_bits: reader.u8()?,
        character_bits: reader.u8()?,
        check_level: reader.u8()?,
    };
    let (zero, runs, zeros) = (reader.u8()?, reader.u16()?, reader.u32()?);
    if magic != MAGIC || version != VERSION || zero != 0 || zeros != 0 {
        return Err(DescriptionError::Other(format!(
            "{magic:02x?} {version} {zero} {zeros}"
        )));
    }
    shape
        .validate()
        .map_err(|error| DescriptionError::Other(error.to_string()))?;
    if runs == 0 || u32::from(runs) >= 1 << shape.character_bits {
        return Err(DescriptionError::Other(format!(
            "an invalid number of runs in the level: {runs}"
        )));
    }
    let entries = reader.u64()?;
    let listing = PageListing::decode(reader, place, page_size, shape.is_refined())?;
    if !shape.is_refined() {
        let latest = RoutingArray::new(shape.prefix_bits.into(), shape.character_bits.into());
        let bytes = latest.map_or(0, |latest| latest.bytes());
        let pages = listing.pages.len();
        if pages != bytes.div_ceil(page_size.bytes() as u64) {
            return Err(DescriptionError::Other(format!(
                "{pages} pages of {bytes} bytes of characters"
            )));
        }
    }
    Ok(RoutingFilterDescription {
        shape,
        runs,
        entries,
        listing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashed::pages::{PageList, PageSegment};
    use alluvium_base::checksum;
    use alluvium_storage::extents::Extent;
    use alluvium_storage::{Error, OnDiskObject};

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "a filter", 0)
    }

    fn meta(check_level: u8) -> RoutingFilterDescription {
        let pages = PageList {
            page_size: PageSize::MIN,
            segments: [PageSegment {
                first: 0,
                pages: 1,
                tier: 0,
                offset: 8192,
                birth: 3,
            }]
            .into(),
            checksums: [5].into(),
        };
        let extent = Extent {
            tier: 0,
            start: 1,
            units: 2,
        };
        RoutingFilterDescription {
            shape: RoutingFilterShape {
                skipped_bits: 4,
                prefix_bits: 10,
                character_bits: 4,
                check_level,
            },
            runs: 3,
            entries: 77,
            listing: PageListing {
                pages,
                firsts: if check_level > 0 { [9].into() } else { [].into() },
                extents: [(extent, 8192)].into(),
            },
        }
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let mut expected = b"AHRF\x01\x04\x0a\x04\0\0\x03\0\0\0\0\0\x4d\0\0\0\0\0\0\0".to_vec();
        expected.extend(b"\x01\0\0\0\0\0\0\0\x05\0\0\0\x01\x01\0\0\x20\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
        expected.extend(b"\x01\0\x01\0\0\0");
        let bytes = meta(0).encode();
        assert_eq!(bytes[..expected.len() - 6], expected[..expected.len() - 6]);
        assert_eq!(bytes[bytes.len() - 2..], *b"\x80\x40");
        let sums = [checksum(&meta(0).encode()), checksum(&meta(2).encode())];
        assert_eq!(
            sums.map(|sum| format!("{sum:016x}")),
            ["3eab549b0ea206b6", "7df24df6fae65f81"],
            "descriptions"
        );
    }

    #[test]
    fn a_description_is_read_back_and_no_change_of_it_makes_the_decoder_panic() {
        for level in [0, 2] {
            let meta = meta(level);
            let bytes = meta.encode();
            let decode = |bytes: &[u8]| RoutingFilterDescription::decode(bytes, &place(), PageSize::MIN);
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
                        let group = meta.shape.group(u64::MAX / 3);
                        assert!(group.first <= group.last);
                        let _ = (meta.shape.prefix(group.first), meta.shape.check(group.last));
                    }
                }
            }
            let with = |at: usize, byte: u8| {
                let mut damaged = bytes.clone();
                damaged[at] = byte;
                decode(&damaged).is_err()
            };
            assert!(
                with(6, 0) && with(6, 41) && with(7, 9) && with(8, 60),
                "bits that there are not"
            );
            assert!(
                with(10, 0) && with(10, 16) && with(9, 1) && with(12, 1),
                "runs, zeros"
            );
            let mut newer = bytes.clone();
            newer[4] = 2;
            assert!(matches!(decode(&newer), Err(Error::NewerFormat { found: 2, .. })));
        }
    }
}
