//! Encoding of a filter of listed fingerprints, version 1. All integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic "AFLS"
//!      4     1  version, 1
//!      5     1  b: it says yes in vain once in 2^b lookups, 1 to 24
//!      6     1  k: the first bits of a hash that make its fingerprint
//!      7     1  zero
//!      8     8  n: the hashes that it is shaped for
//!     16     4  the first of its pages: 0, or more in a part
//!     20     4  p: how many pages there are
//!     24   8·p  for each, 64 times the byte at which it begins, counted from the first; and the
//!               logarithm of its steps, 0 to 24
//!      …     8  64 times the byte behind the last
//!      …        the pages
//!      …     8  XXH3-64 of everything before
//! ```
//!
//! Page number i covers 2^(b + 10) fingerprints, starting with i · 2^(b + 10), in 64 buckets:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0   130  for each bucket where its list begins, and where the last ends: 2 bytes each, in
//!               steps from the bit 8 · 130 on
//!    130     …  the lists: of each fingerprint the difference from the one before, of the first
//!               that from the bucket's least, as `golomb/format.rs` codes it with b - 1 low bits;
//!               zeros up to the next step; after the last, up to the next byte
//! ```
//!
//! The fingerprint of a hash is the number in its first k bits, multiplied by n · 2^b / 2^k and
//! rounded down.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::shape::{BUCKETS, ListedShape, MOST_ONES};
use crate::bits::peek;
use crate::golomb::{DeltaCoder, RiceCode, StreamBitWriter};
use crate::packed::{CHECKSUM_BYTES, PackedFrame};
use crate::{Error, Result};
use alluvium_base::bytes::ByteWriter;
use std::ops::Range;

const FRAME: PackedFrame = PackedFrame {
    structure: "filter of listed fingerprints",
    magic: *b"AFLS",
    version: 1,
};
const HEADER_BYTES: u64 = 24;
/// Length of a page's directory entry, in bytes.
const ENTRY_BYTES: u64 = 8;
/// Number of bytes in a page before its lists.
const PLACES_BYTES: u64 = 2 * (BUCKETS as u64 + 1);
/// Number of bits in a directory entry for the logarithm of the step size.
const STEP_BITS: u32 = 6;
/// Maximum base-2 logarithm of the step size.
const MOST_STEP: u32 = 24;

/// Header of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListedHeader {
    pub(super) shape: ListedShape,
    /// Number of the first page present.
    pub(super) first: u32,
    /// Number of pages present.
    pub(super) pages: u32,
}

/// Returns the error for bytes that violate the format.
#[cold]
pub(super) fn damaged(at: u64, what: &'static str, expected: impl Into<String>, found: u64) -> Error {
    FRAME.damaged(at, what, expected, found.to_string())
}

/// Returns the maximum number of bytes outside lists in a filter of `pages` pages.
pub(super) fn most_overhead(pages: u32) -> u64 {
    let each = ENTRY_BYTES + PLACES_BYTES + 1;
    HEADER_BYTES + ENTRY_BYTES + u64::from(pages) * each + CHECKSUM_BYTES
}

impl ListedHeader {
    /// Reads the header and the directory. Checks that the pages follow each other without gaps up
    /// to the end.
    pub(super) fn read(bytes: &[u8]) -> Result<ListedHeader> {
        let ([bits, known, zero], hashes, first, pages) = FRAME.open(bytes, |reader| {
            let small = [reader.u8()?, reader.u8()?, reader.u8()?];
            Ok((small, reader.u64()?, reader.u32()?, reader.u32()?))
        })?;
        if zero != 0 {
            return Err(damaged(7, "unused byte", "0", zero.into()));
        }
        let shape = ListedShape::new(hashes, bits.into())
            .map_err(|error| damaged(5, "shape", error.to_string(), bits.into()))?;
        if known == 0 || u32::from(known) > shape.known {
            let expected = format!("1 to {}", shape.known);
            return Err(damaged(6, "bits of a hash", expected, known.into()));
        }
        let shape = shape.knowing(known.into());
        if pages == 0 || u64::from(first) + u64::from(pages) > u64::from(shape.pages()) {
            let expected = format!("1 to {} from page {first} on", shape.pages());
            return Err(damaged(20, "pages", expected, pages.into()));
        }
        let header = ListedHeader { shape, first, pages };
        header.check_directory(bytes)?;
        Ok(header)
    }

    fn check_directory(&self, bytes: &[u8]) -> Result<()> {
        let mut last = None;
        for page in 0..=self.pages {
            let at = entry_at(page);
            let Some((begin, step)) = self.entry(bytes, page) else {
                return Err(damaged(at, "length", "a whole directory", bytes.len() as u64));
            };
            let least = last.map_or(0, |last: u64| last.saturating_add(PLACES_BYTES));
            if begin < least || page == 0 && begin != 0 || step > MOST_STEP {
                return Err(damaged(at, "place of a page", format!("{least} or more"), begin));
            }
            last = Some(begin);
        }
        let end = self.first_byte() + last.unwrap_or(0) + CHECKSUM_BYTES;
        FRAME.check_len(bytes, Some(end))
    }

    /// Writes the header to `space`. Returns `None` if `space` is too short.
    pub(super) fn put(&self, space: &mut [u8]) -> Option<()> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        FRAME.begin(&mut bytes);
        ByteWriter::new(&mut bytes)
            .u8(self.shape.bits as u8)
            .u8(self.shape.known as u8)
            .u8(0)
            .u64(self.shape.hashes)
            .u32(self.first)
            .u32(self.pages);
        space.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        Some(())
    }

    /// Writes a page's directory entry: its byte offset, and the logarithm of its step size. `page`
    /// is relative to the first page present. Returns `None` if `space` is too short.
    pub(super) fn put_entry(&self, space: &mut [u8], page: u32, byte: u64, step: u32) -> Option<()> {
        let entry = byte << STEP_BITS | u64::from(step);
        let place = space.get_mut(entry_at(page) as usize..)?;
        *place.first_chunk_mut()? = entry.to_le_bytes();
        Some(())
    }

    /// Returns a page's directory entry: its byte offset, and the logarithm of its step size.
    /// `page` is relative to the first page present.
    #[inline]
    pub(super) fn entry(&self, bytes: &[u8], page: u32) -> Option<(u64, u32)> {
        let entry = bytes.get(entry_at(page) as usize..)?.first_chunk()?;
        let entry = u64::from_le_bytes(*entry);
        Some((entry >> STEP_BITS, (entry & ((1 << STEP_BITS) - 1)) as u32))
    }

    /// Returns the byte offset of the first page.
    #[inline]
    pub(super) fn first_byte(&self) -> u64 {
        entry_at(self.pages) + ENTRY_BYTES
    }

    /// Returns the bytes of a range of pages, which are numbered relative to the first page
    /// present. Returns an empty slice if the range is invalid.
    pub(super) fn pages_in<'b>(&self, bytes: &'b [u8], pages: Range<u32>) -> &'b [u8] {
        let at = |page| Some((self.first_byte() + self.entry(bytes, page)?.0) as usize);
        let range = at(pages.start).zip(at(pages.end));
        let found = range.and_then(|(start, end)| bytes.get(start..end));
        found.unwrap_or_default()
    }

    /// Returns the list of a bucket in a page. `page` is relative to the first page present.
    #[inline]
    pub(super) fn list<'b>(&self, bytes: &'b [u8], page: u32, bucket: usize) -> Result<FingerprintList<'b>> {
        let list = self.entry(bytes, page).and_then(|(byte, step)| {
            let page = self.first_byte() + byte;
            let places = bytes.get(page as usize + 2 * bucket..)?.first_chunk()?;
            let places = u64::from(u32::from_le_bytes(*places));
            let first = 8 * (page + PLACES_BYTES);
            Some(FingerprintList {
                bytes,
                at: first + ((places & 0xffff) << step),
                end: first + ((places >> 16) << step),
                low_bits: self.shape.low_bits(),
                last: 0,
            })
        });
        let within = 8 * (bytes.len() as u64).saturating_sub(CHECKSUM_BYTES);
        match list {
            Some(list) if list.at <= list.end && list.end <= within => Ok(list),
            _ => Err(damaged(
                entry_at(page),
                "a list",
                "bits of the filter",
                bucket as u64,
            )),
        }
    }
}

/// Returns the byte offset of a page's directory entry.
#[inline]
fn entry_at(page: u32) -> u64 {
    HEADER_BYTES + ENTRY_BYTES * u64::from(page)
}

/// Decoder of the fingerprints in a bucket, which are relative to the smallest fingerprint that the
/// bucket covers. The zeros that pad a list to the next step decode as repetitions of the last
/// fingerprint.
#[derive(Debug)]
pub(super) struct FingerprintList<'b> {
    bytes: &'b [u8],
    /// `at` is the bit offset of the next fingerprint, and `end` is that of the end of the list.
    at: u64,
    end: u64,
    low_bits: u32,
    last: u64,
}

impl FingerprintList<'_> {
    /// Returns the next fingerprint, or `None` at the end of the list.
    #[inline(always)]
    pub(super) fn read(&mut self) -> Result<Option<u64>> {
        if self.at + u64::from(self.low_bits) >= self.end {
            return Ok(None);
        }
        let word = peek(self.bytes, self.at);
        let ones = word.trailing_ones();
        let bits = ones + 1 + self.low_bits;
        if ones > MOST_ONES || self.at + u64::from(bits) > self.end {
            let expected = format!("at most {MOST_ONES} within the list");
            return Err(damaged(
                self.at / 8,
                "ones of a difference",
                expected,
                ones.into(),
            ));
        }
        let low = word >> (ones + 1) & ((1 << self.low_bits) - 1);
        self.last += (u64::from(ones) << self.low_bits) + low;
        self.at += u64::from(bits);
        Ok(Some(self.last))
    }
}

/// Appends the encoded page of these fingerprints to `out`. Returns the logarithm of the page's
/// step size.
pub(super) fn append_page(shape: ListedShape, page: u32, fingerprints: &[u64], out: &mut Vec<u8>) -> u32 {
    let mut lists: [(Range<usize>, u64); BUCKETS] = std::array::from_fn(|_| (0..0, 0));
    for (index, &fingerprint) in fingerprints.iter().enumerate() {
        let (bucket, within) = shape.place(fingerprint);
        let Some((list, bits)) = lists.get_mut(bucket) else {
            continue;
        };
        let delta = match list.end {
            0 => within,
            _ => fingerprint - fingerprints.get(index - 1).copied().unwrap_or(0),
        };
        if list.end == 0 {
            list.start = index;
        }
        list.end = index + 1;
        *bits += (delta >> shape.low_bits()) + 1 + u64::from(shape.low_bits());
    }
    let steps = |step: u32| lists.iter().map(move |(_, bits)| bits.div_ceil(1 << step));
    let step = (0..MOST_STEP)
        .find(|&step| steps(step).sum::<u64>() <= u64::from(u16::MAX))
        .unwrap_or(MOST_STEP);
    let mut place = 0u64;
    for len in std::iter::once(0).chain(steps(step)) {
        place += len;
        let place = u16::try_from(place).expect("steps are so long that places fit");
        ByteWriter::new(out).u16(place);
    }
    let rice = RiceCode::with_parameter(shape.low_bits(), u64::BITS);
    let mut writer = StreamBitWriter::new();
    for (bucket, (list, bits)) in lists.iter().enumerate() {
        let mut delta = DeltaCoder::new(rice, shape.base(page, bucket));
        for &fingerprint in fingerprints.get(list.clone()).unwrap_or_default() {
            delta.write(&mut writer, fingerprint);
        }
        let fill = bits.next_multiple_of(1 << step) - bits;
        writer.put(0, fill as u32 % 32);
        (0..fill / 32).for_each(|_| writer.put(0, 32));
    }
    out.extend(writer.finish());
    step
}
