//! On-disk encoding of a page of sketches, version 1, and of the page listing at the end of a
//! description. All integers are little-endian. A *varint* is LEB128 of at most 10 bytes.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     2  groups, g
//!      2     1  bits of a prefix
//!      3     1  bits of a payload, at most 56
//!      4     1  parameter of the code of differences, at most 56
//!      5     3  zero
//!      8     4  bits of all sketches
//!     12     4  sketches
//!     16  12·g  groups, ascending: the first prefix (8), the bit at which it begins (4)
//!      …        sketches: difference from the prefix before (the first from its group's), payload;
//!                 coded as in `crates/filters/src/golomb/format.rs`
//!      …        zeros
//! ```
//!
//! A page listing is encoded as follows:
//!
//! ```text
//!      0        its n pages: `hashed/pages/format.rs`
//!      …   8·n  of pages of sketches: the first prefix of each
//!      …        extents: `hashed/pages/format.rs`
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::draft::{PrefixSketch, SketchEncoding, SketchPageBuilder};
use super::{MOST_PREFIX_BITS, PageListing};
use crate::hashed::pages::{self, DescriptionError, PageList};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_filters::golomb::BitReader;
use alluvium_storage::{DiskLocation, Error, PageSize, Result};

const PAGE_HEADER_BYTES: usize = 16;
const GROUP_BYTES: usize = 12;

/// Returns the encoded size, in bytes, of a page with `groups` groups whose sketches take `bits`
/// bits.
pub(super) fn sketch_page_bytes(groups: usize, bits: u64) -> usize {
    PAGE_HEADER_BYTES + GROUP_BYTES * groups + bits.div_ceil(8) as usize
}

impl PageListing {
    pub(in crate::hashed) fn encode(&self, out: &mut Vec<u8>) {
        self.pages.encode(out);
        for &first in &self.firsts {
            ByteWriter::new(out).u64(first);
        }
        pages::encode_extents(&self.extents, out);
    }

    /// Decodes a page listing. If the pages contain sketches (`has_sketches`), the listing includes
    /// the first prefix of each page.
    pub(in crate::hashed) fn decode(
        reader: &mut ByteReader<'_>,
        place: &DiskLocation,
        page_size: PageSize,
        has_sketches: bool,
    ) -> std::result::Result<PageListing, DescriptionError> {
        let pages = PageList::decode(reader, page_size, 4)?;
        let mut firsts: Vec<u64> = Vec::new();
        if has_sketches {
            for _ in 0..pages.len() {
                firsts.push(reader.u64()?);
            }
            if !firsts.is_sorted() {
                return Err(DescriptionError::Other(
                    "pages of sketches out of order".to_owned(),
                ));
            }
        }
        Ok(PageListing {
            pages,
            firsts: firsts.into(),
            extents: pages::decode_extents(reader, place)?,
        })
    }
}

impl SketchPageBuilder {
    /// Returns the complete page and leaves the builder empty for the next one.
    #[must_use]
    pub fn finish(&mut self, page_size: PageSize) -> Vec<u8> {
        let coding = self.coding;
        let full = std::mem::replace(self, SketchPageBuilder::new(coding));
        let mut page = Vec::with_capacity(page_size.bytes());
        let mut out = ByteWriter::new(&mut page);
        out.u16(full.groups.len() as u16)
            .u8(coding.prefix_bits)
            .u8(coding.payload_bits)
            .u8(coding.parameter)
            .bytes(&[0; 3])
            .u32(full.bits.bits() as u32)
            .u32(full.entries);
        for (first, bit) in &full.groups {
            out.u64(*first).u32(*bit);
        }
        out.bytes(&full.bits.finish());
        assert!(page.len() <= page_size.bytes(), "a page takes what fits");
        page.resize(page_size.bytes(), 0);
        page
    }
}

/// Decoder of a page of sketches.
#[derive(Clone, Debug)]
pub struct SketchPage<'p> {
    coding: SketchEncoding,
    groups: &'p [u8],
    bits: &'p [u8],
    end: u64,
    entries: u32,
}

impl<'p> SketchPage<'p> {
    /// Decodes the header of a page of sketches.
    ///
    /// # Errors
    /// [`Error::Corrupt`], with the location `place`, if the header is invalid.
    pub fn open(page: &'p [u8], place: &DiskLocation) -> Result<SketchPage<'p>> {
        let bad = |found: String| Error::corrupt(place.clone(), "a page of sketches", found);
        let mut reader = ByteReader::new(page);
        let mut head = || -> std::result::Result<_, TruncatedInput> {
            let groups = reader.u16()?;
            let coding = SketchEncoding {
                prefix_bits: reader.u8()?,
                payload_bits: reader.u8()?,
                parameter: reader.u8()?,
            };
            let zeros = reader.take(3)?;
            let (end, entries) = (reader.u32()?, reader.u32()?);
            let groups = reader.take(GROUP_BYTES * usize::from(groups))?;
            let bits = reader.take((end as usize).div_ceil(8))?;
            Ok((coding, zeros, end, entries, groups, bits))
        };
        let (coding, zeros, end, entries, groups, bits) = head().map_err(|cut| bad(cut.to_string()))?;
        let is_coded = (1..=MOST_PREFIX_BITS).contains(&coding.prefix_bits)
            && coding.payload_bits <= 56
            && coding.parameter <= coding.prefix_bits;
        if zeros != [0; 3] || !is_coded {
            return Err(bad(format!("{coding:?}, {zeros:?}")));
        }
        Ok(SketchPage {
            coding,
            groups,
            bits,
            end: end.into(),
            entries,
        })
    }

    #[must_use]
    pub fn coding(&self) -> SketchEncoding {
        self.coding
    }

    /// Returns the number of sketches in the page.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.entries
    }

    /// Returns whether the page has no sketches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    fn groups(&self) -> usize {
        self.groups.len() / GROUP_BYTES
    }

    /// Returns the first prefix of a group, and the bit offset at which the group starts.
    fn group(&self, number: usize) -> std::result::Result<(u64, u64), TruncatedInput> {
        let bytes = self.groups.get(number * GROUP_BYTES..).unwrap_or_default();
        let mut reader = ByteReader::new(bytes);
        Ok((reader.u64()?, reader.u32()?.into()))
    }

    /// Returns the number of the first group that may contain a sketch with the prefix.
    fn first_with(&self, prefix: u64) -> std::result::Result<usize, TruncatedInput> {
        let (mut low, mut high) = (0, self.groups());
        while low < high {
            let middle = low.midpoint(high);
            match self.group(middle)?.0 < prefix {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        // Sketches with the prefix may start at the end of the previous group.
        Ok(low.saturating_sub(1))
    }

    /// Passes sketches in ascending order to `visit` until it returns false. Skips no sketch with
    /// `prefix`, but may start with smaller prefixes.
    ///
    /// # Errors
    /// [`Error::Corrupt`], with the location `place`, if the page is damaged.
    pub fn each_from(
        &self,
        prefix: u64,
        place: &DiskLocation,
        visit: &mut dyn FnMut(PrefixSketch) -> bool,
    ) -> Result<()> {
        let cut = |cut: TruncatedInput| Error::corrupt(place.clone(), "a page of sketches", cut.to_string());
        let coded = |error: alluvium_filters::Error| {
            Error::corrupt(place.clone(), "a page of sketches", error.to_string())
        };
        let most = (1u64 << self.coding.prefix_bits) - 1;
        let payload_bits = u32::from(self.coding.payload_bits);
        let mut last = 0;
        for number in self.first_with(prefix).map_err(cut)?..self.groups() {
            let (first, begin) = self.group(number).map_err(cut)?;
            let end = match number + 1 < self.groups() {
                true => self.group(number + 1).map_err(cut)?.1,
                false => self.end,
            };
            if first < last || first > most || begin > end || end > self.end {
                let found = format!("a group of {first} after {last}, bits {begin} to {end}");
                return Err(Error::corrupt(place.clone(), "groups in order", found));
            }
            let bytes = self.bits.get((begin / 8) as usize..).unwrap_or_default();
            let mut bits = BitReader::new(bytes);
            let skipped = begin % 8;
            bits.get(skipped as u32).map_err(coded)?;
            let mut delta = self.coding.delta(first);
            while bits.position() - skipped < end - begin {
                let at = delta.read(&mut bits, most).map_err(coded)?;
                let payload = bits.get(payload_bits).map_err(coded)?;
                last = at;
                if !visit(PrefixSketch { prefix: at, payload }) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_base::checksum;
    use alluvium_storage::OnDiskObject;

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "a page", 0)
    }

    const CODING: SketchEncoding = SketchEncoding {
        prefix_bits: 20,
        payload_bits: 8,
        parameter: 4,
    };

    fn example() -> (Vec<u8>, Vec<PrefixSketch>) {
        let mut draft = SketchPageBuilder::new(CODING);
        let sketches = (0..300u64).map(|number| PrefixSketch {
            // Some prefixes occur often, and one is much greater than its predecessor.
            prefix: number / 3 * 7 + if number > 200 { 900_000 } else { 0 },
            payload: number % 256,
        });
        let all: Vec<PrefixSketch> = sketches.collect();
        for &sketch in &all {
            assert!(draft.push(sketch, 4096));
        }
        assert_eq!(draft.first(), Some(0));
        (draft.finish(PageSize::MIN), all)
    }

    fn read_all(page: &[u8], from: u64) -> Result<Vec<PrefixSketch>> {
        let sketches = SketchPage::open(page, &place())?;
        let mut found = Vec::new();
        sketches.each_from(from, &place(), &mut |sketch| {
            found.push(sketch);
            true
        })?;
        Ok(found)
    }

    #[test]
    fn the_bytes_of_a_page_do_not_change() {
        let sum = checksum(&example().0);
        assert_eq!(format!("{sum:016x}"), "e470b742b83244d9");
    }

    #[test]
    fn sketches_are_found_from_any_prefix_on_and_no_change_of_a_page_panics() {
        let (page, all) = example();
        assert_eq!(read_all(&page, 0).unwrap(), all);
        for from in [
            0, 1, 7, 8, 210, 462, 463, 500_000, 900_469, 900_470, 900_693, 900_694,
        ] {
            let found = read_all(&page, from).unwrap();
            let wanted: Vec<PrefixSketch> = all
                .iter()
                .copied()
                .filter(|sketch| sketch.prefix >= from)
                .collect();
            assert!(found.ends_with(&wanted), "from {from}");
            assert!(found.len() < wanted.len() + 200, "a search begins near {from}");
        }
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..4000 {
            let mut damaged = page.clone();
            damaged[random.usize(..600)] = random.u8(..);
            let _ = read_all(&damaged, random.u64(..1 << 20));
        }
        for len in 0..page.len().min(500) {
            assert!(read_all(&page[..len], 0).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_page_takes_what_fits_and_no_more() {
        let mut draft = SketchPageBuilder::new(CODING);
        let mut count = 0u64;
        while draft.push(
            PrefixSketch {
                prefix: count * 11,
                payload: 3,
            },
            4096,
        ) {
            count += 1;
        }
        assert!(count > 2000, "{count} sketches of about 13 bits");
        let page = draft.finish(PageSize::MIN);
        assert_eq!(page.len(), 4096);
        assert_eq!(read_all(&page, 0).unwrap().len() as u64, count);
        assert!(draft.is_empty(), "the next page begins");
    }
}
