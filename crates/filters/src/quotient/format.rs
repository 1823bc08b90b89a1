//! Encoding of a quotient filter, version 1. All integers are little-endian.
//!
//! A filter consists of `pages` pages of equal size, in fingerprint order, followed by the spill
//! pages.
//!
//! A page is encoded as follows:
//!
//! ```text
//! OFFSET         SIZE    MEANING
//!      0            4    magic "AQFP"
//!      4            1    version, 1
//!      5            1    kind: 1 page, 2 spill page
//!      6            2    zero
//!      8            4    number of the page within the filter
//!     12            4    slots in use
//!     16            4    number of this page's first spilled record within the filter
//!     20            4    how many records spilled from this page
//!     24            8    XXH3-64 of the geometry's 24 bytes
//!     32    16 × blocks  blocks, in order
//!                        slots of remainder_bits + value_bits bits, packed from the lowest bit of the
//!                        first byte up, in the order of their entries, without a gap
//!                        zeros, at least 8 bytes at the end
//! ```
//!
//! A block covers 48 quotients, and is encoded as follows:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     6  occupied: bit q is set when the filter has an entry with quotient q, in the page or spilled
//!      6     2  position of the block's first slot
//!      8     8  ends: bit s is set when slot position + s is the last one of a quotient's run. As many
//!               bits as quotients have their run in the page; those that do not have spilled, and are
//!               the block's last
//! ```
//!
//! A run contains its entries in ascending order of slot words. A slot word has the remainder above
//! the complemented value. A word that occurs once or twice is stored once or twice. A word that
//! occurs more often is stored as three equal words, followed by its count minus three, which takes
//! as many slots as 32 bits require, lowest bits first.
//!
//! A spill page is encoded as follows. The records are in ascending order across all spill pages:
//!
//! ```text
//! OFFSET          SIZE  MEANING
//!      0            12  as a page, kind 2
//!     12             4  records in this page
//!     16             4  number of its first record within the filter
//!     20             4  zero
//!     24             8  as a page
//!     32  12 × records  an entry's word (8 bytes: fingerprint from the highest bit, complemented value
//!                       lowest), its count (4)
//!                       zeros
//! ```
//!
//! A geometry is encoded as follows:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  version, 1
//!      1     1  bits of a fingerprint
//!      2     1  bits of a value
//!      3     1  bits of a remainder
//!      4     4  bytes of a page
//!      8     4  pages
//!     12     4  blocks of a page
//!     16     4  slots of a page
//!     20     4  zero
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::geometry::{FilterGeometry, FilterShape};
use crate::{Error, FilterEntry, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_base::checksum;

/// Length of a page's header, in bytes.
pub(super) const HEADER_BYTES: usize = 32;
/// Length of a block, in bytes.
pub(super) const BLOCK_BYTES: usize = 16;
/// Number of bytes that a load of slots reads. A page ends with as many zero bytes, so that loading
/// the last slot stays inside the page.
pub(super) const SLOT_LOAD_BYTES: usize = 8;
/// Length of a spilled record, in bytes.
pub(super) const RECORD_BYTES: usize = 12;

const MAGIC: [u8; 4] = *b"AQFP";
const VERSION: u8 = 1;

/// The kind of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    /// A main page, with the entries in a range of fingerprints.
    Page = 1,
    /// A spill page, with entries that did not fit in their main pages.
    Spill = 2,
}

/// Header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FilterPageHeader {
    pub(super) kind: PageKind,
    pub(super) number: u32,
    /// Number of slots in use or, in a spill page, number of records.
    pub(super) filled: u32,
    pub(super) first_record: u32,
    pub(super) records: u32,
}

impl FilterPageHeader {
    /// Writes the header at the beginning of a page.
    #[allow(
        clippy::indexing_slicing,
        reason = "a page that is being filled has the length of its geometry"
    )]
    pub(super) fn write(&self, geometry: &FilterGeometry, page: &mut [u8]) {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        ByteWriter::new(&mut bytes)
            .bytes(&MAGIC)
            .u8(VERSION)
            .u8(self.kind as u8)
            .u16(0)
            .u32(self.number)
            .u32(self.filled)
            .u32(self.first_record)
            .u32(self.records)
            .u64(digest(geometry));
        page[..HEADER_BYTES].copy_from_slice(&bytes);
    }

    /// Reads the header of a page, and checks its geometry, kind and page number.
    pub(super) fn read(
        geometry: &FilterGeometry,
        page: &[u8],
        kind: PageKind,
        number: u32,
    ) -> Result<FilterPageHeader> {
        let bad = |what, expected: String, found: String| Error::corrupt(number, what, expected, found);
        let mut reader = ByteReader::new(page);
        let mut read = || -> std::result::Result<_, alluvium_base::bytes::TruncatedInput> {
            let magic = reader.take(4)?;
            let (version, kind, zero) = (reader.u8()?, reader.u8()?, reader.u16()?);
            let words = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
            Ok((magic, version, kind, zero, words, reader.u64()?))
        };
        let (magic, version, found_kind, zero, words, found_digest) = read().map_err(|short| {
            bad(
                "length",
                format!("{HEADER_BYTES} bytes or more"),
                short.to_string(),
            )
        })?;
        let (found_number, filled, first_record, records) = words;
        if magic != MAGIC || version != VERSION || zero != 0 {
            return Err(bad(
                "magic and version",
                "AQFP 1".into(),
                format!("{magic:02x?} {version} {zero}"),
            ));
        }
        if found_kind != kind as u8 || found_number != number {
            let expected = format!("{} {number}", kind as u8);
            return Err(bad(
                "kind and number",
                expected,
                format!("{found_kind} {found_number}"),
            ));
        }
        if found_digest != digest(geometry) {
            let expected = format!("{:016x}", digest(geometry));
            return Err(bad(
                "digest of the geometry",
                expected,
                format!("{found_digest:016x}"),
            ));
        }
        Ok(FilterPageHeader {
            kind,
            number,
            filled,
            first_record,
            records,
        })
    }

    /// Returns the number of slots in use in a page.
    pub(super) fn filled(page: &[u8]) -> u32 {
        word(page, 12)
    }

    /// Sets the number of slots in use in a page.
    #[allow(
        clippy::indexing_slicing,
        reason = "a page that is being filled has the length of its geometry"
    )]
    pub(super) fn set_filled(page: &mut [u8], filled: u32) {
        page[12..16].copy_from_slice(&filled.to_le_bytes());
    }

    /// Sets the number, within the filter, of the page's first spilled record.
    #[allow(
        clippy::indexing_slicing,
        reason = "a page that is being filled has the length of its geometry"
    )]
    pub(super) fn set_first_record(page: &mut [u8], first_record: u32) {
        page[16..20].copy_from_slice(&first_record.to_le_bytes());
    }

    /// Returns which of the filter's records spilled from a page: the number of the first, and how
    /// many there are. Accepts any bytes.
    pub(super) fn spilled(page: &[u8]) -> (u32, u32) {
        (word(page, 16), word(page, 20))
    }
}

/// Returns the four bytes at offset `at` as a number, or 0 past the end of the page.
pub(super) fn word(page: &[u8], at: usize) -> u32 {
    page.get(at..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |word| u32::from_le_bytes(*word))
}

fn digest(geometry: &FilterGeometry) -> u64 {
    let mut bytes = Vec::with_capacity(FilterGeometry::BYTES);
    geometry.encode(&mut bytes);
    checksum(&bytes)
}

impl FilterGeometry {
    /// Length of an encoded geometry, in bytes.
    pub const BYTES: usize = 24;

    pub fn encode(&self, out: &mut Vec<u8>) {
        ByteWriter::new(out)
            .u8(VERSION)
            .u8(self.fingerprint_bits as u8)
            .u8(self.value_bits as u8)
            .u8(self.remainder_bits as u8)
            .u32(self.page_bytes)
            .u32(self.pages)
            .u32(self.blocks)
            .u32(self.capacity)
            .u32(0);
    }

    /// Decodes a geometry, and checks that this version of the code could have created it.
    ///
    /// ```
    /// use alluvium_filters::{FilterGeometry, FilterShape};
    /// let geometry = FilterGeometry::for_entries(1000, FilterShape::new(36, 4))?;
    /// let mut bytes = Vec::new();
    /// geometry.encode(&mut bytes);
    /// assert_eq!(FilterGeometry::decode(&bytes)?, geometry);
    /// assert!(FilterGeometry::decode(&bytes[1..]).is_err());
    /// # Ok::<(), alluvium_filters::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there are too few bytes or they are not a geometry; [`Error::Shape`]
    /// if a number is out of range.
    pub fn decode(bytes: &[u8]) -> Result<FilterGeometry> {
        let corrupt = |what, expected: String, found: String| Error::corrupt(0, what, expected, found);
        let mut reader = ByteReader::new(bytes);
        let mut read = || -> std::result::Result<_, alluvium_base::bytes::TruncatedInput> {
            let bits = (reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?);
            Ok((
                bits,
                [
                    reader.u32()?,
                    reader.u32()?,
                    reader.u32()?,
                    reader.u32()?,
                    reader.u32()?,
                ],
            ))
        };
        let (
            (version, fingerprint_bits, value_bits, remainder_bits),
            [page_bytes, pages, blocks, capacity, zero],
        ) = read()
            .map_err(|short| corrupt("geometry", format!("{} bytes", Self::BYTES), short.to_string()))?;
        if version != VERSION || zero != 0 || pages == 0 {
            let found = format!("version {version}, {pages} pages, {zero}");
            return Err(corrupt("geometry", "version 1 with pages".into(), found));
        }
        let mut shape = FilterShape::new(fingerprint_bits.into(), value_bits.into());
        shape.page_bytes = page_bytes;
        let geometry = FilterGeometry::with_pages(pages, shape)?;
        let derived = (geometry.remainder_bits, geometry.blocks, geometry.capacity);
        if derived != (remainder_bits.into(), blocks, capacity) {
            let found = format!("{:?}", (remainder_bits, blocks, capacity));
            return Err(corrupt(
                "geometry's remainder bits, blocks and slots",
                format!("{derived:?}"),
                found,
            ));
        }
        Ok(geometry)
    }
}

/// Metadata of 48 quotients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QuotientBlock {
    /// Bits 0 to 47 are the mask of the quotients with entries. Bits 48 to 63 are the position of
    /// the block's first slot.
    pub(super) head: u64,
    /// Mask of the slots that end a run, where bit 0 is the block's first slot.
    pub(super) ends: u64,
}

impl QuotientBlock {
    #[inline(always)]
    pub(super) fn new(occupied: u64, position: u32, ends: u64) -> QuotientBlock {
        debug_assert!(occupied >> 48 == 0 && position < 1 << 16);
        QuotientBlock {
            head: occupied | u64::from(position) << 48,
            ends,
        }
    }

    /// Returns the byte offset of a block in its page.
    #[inline(always)]
    pub(super) fn at(block: u32) -> usize {
        HEADER_BYTES + block as usize * BLOCK_BYTES
    }

    /// Reads a block of a page, or returns `None` if the page ends before it.
    #[inline(always)]
    pub(super) fn read(page: &[u8], block: u32) -> Option<QuotientBlock> {
        let at = QuotientBlock::at(block);
        let (head, ends) = page.get(at..at + BLOCK_BYTES)?.split_first_chunk::<8>()?;
        Some(QuotientBlock {
            head: u64::from_le_bytes(*head),
            ends: u64::from_le_bytes(*ends.first_chunk()?),
        })
    }

    #[inline]
    #[allow(
        clippy::indexing_slicing,
        reason = "a page that is being filled has the length of its geometry"
    )]
    pub(super) fn write(self, page: &mut [u8], block: u32) {
        let at = QuotientBlock::at(block);
        page[at..at + 8].copy_from_slice(&self.head.to_le_bytes());
        page[at + 8..at + BLOCK_BYTES].copy_from_slice(&self.ends.to_le_bytes());
    }

    /// Returns the mask of the quotients with entries.
    #[inline(always)]
    pub(super) fn occupied(self) -> u64 {
        self.head & ((1 << 48) - 1)
    }

    /// Returns the position of the block's first slot in the page.
    #[inline(always)]
    pub(super) fn position(self) -> u32 {
        (self.head >> 48) as u32
    }

    /// Returns the number of slots that the block's runs take up in the page.
    #[inline(always)]
    pub(super) fn slots(self) -> u32 {
        64 - self.ends.leading_zeros()
    }

    /// Returns whether any runs of the block have spilled.
    #[inline(always)]
    pub(super) fn has_spilled(self) -> bool {
        self.ends.count_ones() < self.occupied().count_ones()
    }
}

/// Returns the bit offset in the page of the slot at `position`.
#[inline(always)]
pub(super) fn slots_at(geometry: &FilterGeometry, position: u32) -> u32 {
    position
        .wrapping_mul(geometry.slot_bits)
        .wrapping_add(geometry.slots_bit)
}

/// Loads at least 57 bits of a page, starting with the slot at `position`. Returns `None` if the
/// load would extend past the end of the page.
#[inline(always)]
pub(super) fn slots(geometry: &FilterGeometry, page: &[u8], position: u32) -> Option<u64> {
    load(page, slots_at(geometry, position))
}

/// Loads at least 57 bits of a page, starting at a bit offset. Returns `None` if the load would
/// extend past the end of the page.
#[inline(always)]
pub(super) fn load(page: &[u8], bit: u32) -> Option<u64> {
    let at = (bit >> 3) as usize;
    let bytes = page.get(at..at + SLOT_LOAD_BYTES)?;
    Some(u64::from_le_bytes(*bytes.first_chunk()?) >> (bit & 7))
}

/// Returns the slot at `position`, or 0 past the end of the page.
#[inline(always)]
pub(super) fn slot(geometry: &FilterGeometry, page: &[u8], position: u32) -> u64 {
    slots(geometry, page, position).unwrap_or(0) & ((1 << geometry.slot_bits) - 1)
}

/// Writer that packs consecutive slots into a page, eight bytes at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotWriter {
    at: usize,
    bits: u64,
    held: u32,
}

impl SlotWriter {
    /// Creates a writer that continues with the slot at `position` and preserves earlier slots'
    /// bits in the same byte.
    #[allow(
        clippy::indexing_slicing,
        reason = "a page that is being filled has the length of its geometry"
    )]
    pub(super) fn at(geometry: &FilterGeometry, page: &[u8], position: u32) -> SlotWriter {
        let bit = slots_at(geometry, position);
        let (at, held) = ((bit >> 3) as usize, bit & 7);
        SlotWriter {
            at,
            bits: u64::from(page[at]) & ((1 << held) - 1),
            held,
        }
    }

    #[inline(always)]
    #[allow(
        clippy::indexing_slicing,
        reason = "a page that is being filled has the length of its geometry"
    )]
    pub(super) fn push(&mut self, page: &mut [u8], word: u64, bits: u32) {
        self.bits |= word << self.held;
        self.held += bits;
        if self.held >= 64 {
            page[self.at..self.at + 8].copy_from_slice(&self.bits.to_le_bytes());
            self.at += 8;
            self.held -= 64;
            self.bits = if self.held == 0 {
                0
            } else {
                word >> (bits - self.held)
            };
        }
    }

    /// Writes the bits still pending. The rest of their last byte becomes zero.
    #[allow(
        clippy::indexing_slicing,
        reason = "a page that is being filled has the length of its geometry"
    )]
    pub(super) fn flush(&mut self, page: &mut [u8]) {
        let len = self.held.div_ceil(8) as usize;
        page[self.at..self.at + len].copy_from_slice(&self.bits.to_le_bytes()[..len]);
    }
}

/// Writes the lowest `count` bits of `bits`, at most 57, at a bit offset of the page. The page must
/// have 8 bytes left, counted from the byte with this offset.
#[allow(
    clippy::indexing_slicing,
    reason = "a page that is being filled has the length of its geometry"
)]
pub(super) fn put_bits(page: &mut [u8], at: u32, count: u32, bits: u64) {
    let (byte, skew) = ((at / 8) as usize, at % 8);
    let mask = (1u64 << count) - 1;
    let bytes: &mut [u8; 8] = page[byte..]
        .first_chunk_mut()
        .expect("a page ends with 8 bytes more");
    let kept = u64::from_le_bytes(*bytes) & !(mask << skew);
    *bytes = (kept | (bits & mask) << skew).to_le_bytes();
}

#[allow(
    clippy::indexing_slicing,
    reason = "a page that is being filled has the length of its geometry"
)]
fn get_bits(page: &[u8], at: u32, count: u32) -> u64 {
    let bytes: &[u8; 8] = page[(at / 8) as usize..]
        .first_chunk()
        .expect("a page ends with 8 bytes more");
    u64::from_le_bytes(*bytes) >> (at % 8) & ((1 << count) - 1)
}

/// Moves `count` bits within a page. Source and destination may overlap.
pub(super) fn move_bits(page: &mut [u8], from: u32, to: u32, count: u32) {
    const STEP: u32 = 56;
    let mut step = |begin: u32, count: u32| {
        let bits = get_bits(page, from + begin, count);
        put_bits(page, to + begin, count, bits);
    };
    let (whole, rest) = (count / STEP * STEP, count % STEP);
    if to > from {
        step(whole, rest);
        (0..whole)
            .step_by(STEP as usize)
            .rev()
            .for_each(|begin| step(begin, STEP));
    } else {
        (0..whole)
            .step_by(STEP as usize)
            .for_each(|begin| step(begin, STEP));
        step(whole, rest);
    }
}

/// Returns the maximum number of records in a spill page.
pub(super) fn records_per_page(geometry: &FilterGeometry) -> u32 {
    ((geometry.page_bytes as usize - HEADER_BYTES) / RECORD_BYTES) as u32
}

/// Returns record number `index` of a spill page, or `None` if the page ends before it.
#[inline]
pub(super) fn record(page: &[u8], index: u32) -> Option<(FilterEntry, u32)> {
    let at = HEADER_BYTES + index as usize * RECORD_BYTES;
    let (entry, count) = page.get(at..at + RECORD_BYTES)?.split_first_chunk::<8>()?;
    Some((
        FilterEntry(u64::from_le_bytes(*entry)),
        u32::from_le_bytes(*count.first_chunk()?),
    ))
}

/// Writes record number `index` of a spill page.
#[allow(
    clippy::indexing_slicing,
    reason = "a page that is being filled has the length of its geometry"
)]
pub(super) fn write_record(page: &mut [u8], index: u32, entry: FilterEntry, count: u32) {
    let at = HEADER_BYTES + index as usize * RECORD_BYTES;
    page[at..at + 8].copy_from_slice(&entry.0.to_le_bytes());
    page[at + 8..at + RECORD_BYTES].copy_from_slice(&count.to_le_bytes());
}
