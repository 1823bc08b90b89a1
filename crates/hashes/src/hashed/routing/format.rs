//! The bytes of a routing filter, version 1. All integers little-endian; a *varint* is LEB128 of at
//! most 10 bytes.
//!
//! Its description:
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
//!     24        its n pages: `hashed/pages/format.rs`
//!      …   8·n  of sketches: the first prefix of each page
//!      …        extents (varint), each: the extent (12), its live bytes (varint)
//! ```
//!
//! Pages of latest runs hold one character for each prefix, one behind the other, across pages:
//! `crates/filters/src/routing/latest.rs`. A page of sketches:
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
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::sketches::{Coding, Draft, Sketch};
use super::{Meta, Shape};
use crate::hashed::pages::{BadPages, Pages};
use alluvium_base::bytes::{Reader, Truncated, Writer};
use alluvium_filters::golomb::BitReader;
use alluvium_filters::routing::Latest;
use alluvium_storage::extents::Extent;
use alluvium_storage::{Error, PageSize, Place, Result};

const MAGIC: [u8; 4] = *b"AHRF";
const VERSION: u8 = 1;
const PAGE_HEADER_BYTES: usize = 16;
const GROUP_BYTES: usize = 12;

/// Returns the bytes of a page with some groups, and sketches of some bits.
pub(super) fn sketch_page_bytes(groups: usize, bits: u64) -> usize {
    PAGE_HEADER_BYTES + GROUP_BYTES * groups + bits.div_ceil(8) as usize
}

impl Meta {
    /// Returns the bytes of the description.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Writer::new(&mut out)
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
        self.pages.encode(&mut out);
        for &first in &self.firsts {
            Writer::new(&mut out).u64(first);
        }
        Writer::new(&mut out).varint(self.extents.len() as u64);
        for (extent, live) in &self.extents {
            extent.encode(&mut out);
            Writer::new(&mut out).varint(*live);
        }
        out
    }

    /// Reads a description.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place`, or [`Error::NewerFormat`].
    pub fn decode(bytes: &[u8], place: &Place, page_size: PageSize) -> Result<Meta> {
        let bad = |found: String| Error::corrupt(place.clone(), "the description of a routing filter", found);
        if let Some(&found) = bytes.get(4)
            && bytes.starts_with(&MAGIC)
            && found > VERSION
        {
            return Err(Error::NewerFormat {
                place: place.clone(),
                found: found.into(),
                supported: VERSION.into(),
            });
        }
        let mut reader = Reader::new(bytes);
        let meta = read(&mut reader, place, page_size).map_err(|error| match error {
            Bad::Cut(cut) => bad(cut.to_string()),
            Bad::Other(found) => bad(found),
            Bad::Extent(error) => *error,
        })?;
        match reader.left() {
            0 => Ok(meta),
            left => Err(bad(format!("{left} bytes behind its end"))),
        }
    }
}

/// Why a description cannot be read.
enum Bad {
    Cut(Truncated),
    Other(String),
    Extent(Box<Error>),
}

impl From<Truncated> for Bad {
    fn from(cut: Truncated) -> Bad {
        Bad::Cut(cut)
    }
}

impl From<BadPages> for Bad {
    fn from(bad: BadPages) -> Bad {
        match bad {
            BadPages::Cut(cut) => Bad::Cut(cut),
            BadPages::Other(found) => Bad::Other(found),
        }
    }
}

fn read(reader: &mut Reader<'_>, place: &Place, page_size: PageSize) -> std::result::Result<Meta, Bad> {
    let (magic, version) = (reader.take(MAGIC.len())?, reader.u8()?);
    let shape = Shape {
        skipped_bits: reader.u8()?,
        prefix_bits: reader.u8()?,
        character_bits: reader.u8()?,
        check_level: reader.u8()?,
    };
    let (zero, runs, zeros) = (reader.u8()?, reader.u16()?, reader.u32()?);
    if magic != MAGIC || version != VERSION || zero != 0 || zeros != 0 {
        return Err(Bad::Other(format!("{magic:02x?} {version} {zero} {zeros}")));
    }
    shape.validate().map_err(|error| Bad::Other(error.to_string()))?;
    if runs == 0 || u32::from(runs) >= 1 << shape.character_bits {
        return Err(Bad::Other(format!("{runs} runs of a level")));
    }
    let entries = reader.u64()?;
    let pages = Pages::decode(reader, page_size, 4)?;
    let mut firsts: Vec<u64> = Vec::new();
    if shape.is_refined() {
        for _ in 0..pages.len() {
            firsts.push(reader.u64()?);
        }
        if !firsts.is_sorted() {
            return Err(Bad::Other("pages of sketches out of order".to_owned()));
        }
    } else {
        let latest = Latest::new(shape.prefix_bits.into(), shape.character_bits.into());
        let bytes = latest.map_or(0, |latest| latest.bytes());
        if pages.len() != bytes.div_ceil(page_size.bytes() as u64) {
            return Err(Bad::Other(format!(
                "{} pages of {bytes} bytes of characters",
                pages.len()
            )));
        }
    }
    let mut extents = Vec::new();
    for _ in 0..reader.varint()? {
        let extent = Extent::decode(reader, place).map_err(|error| Bad::Extent(Box::new(error)))?;
        extents.push((extent, reader.varint()?.min(extent.bytes())));
    }
    Ok(Meta {
        shape,
        runs,
        entries,
        pages,
        firsts: firsts.into(),
        extents: extents.into(),
    })
}

impl Draft {
    /// Returns the page, and begins the next one.
    #[must_use]
    pub fn finish(&mut self, page_size: PageSize) -> Vec<u8> {
        let coding = self.coding;
        let full = std::mem::replace(self, Draft::new(coding));
        let mut page = Vec::with_capacity(page_size.bytes());
        let mut out = Writer::new(&mut page);
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

/// The sketches of a page.
#[derive(Clone, Debug)]
pub struct Sketches<'p> {
    coding: Coding,
    groups: &'p [u8],
    bits: &'p [u8],
    end: u64,
    entries: u32,
}

impl<'p> Sketches<'p> {
    /// Opens a page.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place`.
    pub fn open(page: &'p [u8], place: &Place) -> Result<Sketches<'p>> {
        let bad = |found: String| Error::corrupt(place.clone(), "a page of sketches", found);
        let mut reader = Reader::new(page);
        let mut head = || -> std::result::Result<_, Truncated> {
            let groups = reader.u16()?;
            let coding = Coding {
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
        let is_coded = (1..=super::shape::MOST_PREFIX_BITS).contains(&coding.prefix_bits)
            && coding.payload_bits <= 56
            && coding.parameter <= coding.prefix_bits;
        if zeros != [0; 3] || !is_coded {
            return Err(bad(format!("{coding:?}, {zeros:?}")));
        }
        Ok(Sketches {
            coding,
            groups,
            bits,
            end: end.into(),
            entries,
        })
    }

    /// Returns how they are coded.
    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// Returns how many sketches it says there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.entries
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    fn groups(&self) -> usize {
        self.groups.len() / GROUP_BYTES
    }

    /// Returns the first prefix of a group, and where it begins.
    fn group(&self, number: usize) -> std::result::Result<(u64, u64), Truncated> {
        let bytes = self.groups.get(number * GROUP_BYTES..).unwrap_or_default();
        let mut reader = Reader::new(bytes);
        Ok((reader.u64()?, reader.u32()?.into()))
    }

    /// Returns the first group that may have a prefix.
    fn first_with(&self, prefix: u64) -> std::result::Result<usize, Truncated> {
        let (mut low, mut high) = (0, self.groups());
        while low < high {
            let middle = low.midpoint(high);
            match self.group(middle)?.0 < prefix {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        // The group before may end with it.
        Ok(low.saturating_sub(1))
    }

    /// Hands the sketches to `visit`, from one that is not behind a prefix on, in order, until it
    /// says that it has enough.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place`.
    pub fn each_from(&self, prefix: u64, place: &Place, visit: &mut dyn FnMut(Sketch) -> bool) -> Result<()> {
        let cut = |cut: Truncated| Error::corrupt(place.clone(), "a page of sketches", cut.to_string());
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
                let found = format!("a group of {first} behind {last}, bits {begin} to {end}");
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
                if !visit(Sketch { prefix: at, payload }) {
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
    use alluvium_storage::Structure;

    fn place() -> Place {
        Place::new(Structure::Node, "a filter", 0)
    }

    fn meta(check_level: u8) -> Meta {
        let pages = Pages {
            page_size: PageSize::MIN,
            segments: [crate::hashed::pages::Segment {
                first: 0,
                pages: 1,
                tier: 0,
                offset: 8192,
                birth: 3,
            }]
            .into(),
            checksums: [5].into(),
        };
        Meta {
            shape: Shape {
                skipped_bits: 4,
                prefix_bits: 10,
                character_bits: 4,
                check_level,
            },
            runs: 3,
            entries: 77,
            pages,
            firsts: if check_level > 0 { [9].into() } else { [].into() },
            extents: [(
                Extent {
                    tier: 0,
                    start: 1,
                    units: 2,
                },
                8192,
            )]
            .into(),
        }
    }

    const CODING: Coding = Coding {
        prefix_bits: 20,
        payload_bits: 8,
        parameter: 4,
    };

    fn example() -> (Vec<u8>, Vec<Sketch>) {
        let mut draft = Draft::new(CODING);
        let sketches = (0..300u64).map(|number| Sketch {
            // Some prefixes come often, some are far from the one before.
            prefix: number / 3 * 7 + if number > 200 { 900_000 } else { 0 },
            payload: number % 256,
        });
        let all: Vec<Sketch> = sketches.collect();
        for &sketch in &all {
            assert!(draft.push(sketch, 4096));
        }
        assert_eq!(draft.first(), Some(0));
        (draft.finish(PageSize::MIN), all)
    }

    fn read_all(page: &[u8], from: u64) -> Result<Vec<Sketch>> {
        let sketches = Sketches::open(page, &place())?;
        let mut found = Vec::new();
        sketches.each_from(from, &place(), &mut |sketch| {
            found.push(sketch);
            true
        })?;
        Ok(found)
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let mut expected = b"AHRF\x01\x04\x0a\x04\0\0\x03\0\0\0\0\0\x4d\0\0\0\0\0\0\0".to_vec();
        expected.extend(b"\x01\0\0\0\0\0\0\0\x05\0\0\0\x01\x01\0\0\x20\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
        expected.extend(b"\x01\0\x01\0\0\0");
        let bytes = meta(0).encode();
        assert_eq!(bytes[..expected.len() - 6], expected[..expected.len() - 6]);
        assert_eq!(bytes[bytes.len() - 2..], *b"\x80\x40");
        let (page, _) = example();
        let sums = [
            checksum(&meta(0).encode()),
            checksum(&meta(2).encode()),
            checksum(&page),
        ];
        assert_eq!(
            sums.map(|sum| format!("{sum:016x}")),
            ["3eab549b0ea206b6", "7df24df6fae65f81", "e470b742b83244d9"],
            "descriptions and a page"
        );
    }

    #[test]
    fn a_description_is_read_back_and_no_change_of_it_makes_the_decoder_panic() {
        for level in [0, 2] {
            let meta = meta(level);
            let bytes = meta.encode();
            let decode = |bytes: &[u8]| Meta::decode(bytes, &place(), PageSize::MIN);
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

    #[test]
    fn sketches_are_found_from_any_prefix_on_and_no_change_of_a_page_panics() {
        let (page, all) = example();
        assert_eq!(read_all(&page, 0).unwrap(), all);
        for from in [
            0, 1, 7, 8, 210, 462, 463, 500_000, 900_469, 900_470, 900_693, 900_694,
        ] {
            let found = read_all(&page, from).unwrap();
            let wanted: Vec<Sketch> = all
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
        let mut draft = Draft::new(CODING);
        let mut count = 0u64;
        while draft.push(
            Sketch {
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
