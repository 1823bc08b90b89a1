//! The bytes of a list of pages, as descriptions have it. All integers little-endian; a *varint* is
//! LEB128 of at most 10 bytes.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  pages, n
//!      8   4·n  the lower half of the XXH3-64 of each page
//!      …        segments (varint), each a number of pages in a row: pages (varint), tier (1),
//!                 offset of the first (8), birth (8)
//! ```
//!
//! Descriptions of version 1 have 8 bytes for each page at 8, the whole XXH3-64; they are read, and
//! not written.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{Pages, Segment};
use alluvium_base::bytes::{Reader, Truncated, Writer};
use alluvium_storage::PageSize;

/// Why bytes are no list of pages.
#[derive(Debug)]
pub enum BadPages {
    /// They end too early.
    Cut(Truncated),
    /// They say what cannot be.
    Other(String),
}

impl From<Truncated> for BadPages {
    fn from(cut: Truncated) -> BadPages {
        BadPages::Cut(cut)
    }
}

impl Pages {
    /// Appends the bytes of the list.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u64(self.checksums.len() as u64);
        for &sum in &self.checksums {
            writer.u32(sum);
        }
        writer.varint(self.segments.len() as u64);
        for segment in &self.segments {
            writer
                .varint(segment.pages)
                .u8(segment.tier)
                .u64(segment.offset)
                .u64(segment.birth);
        }
    }

    /// Reads a list whose checksums have `width` bytes each: 4, or 8 of which half are wanted.
    ///
    /// # Errors
    /// [`BadPages`] when the bytes are none.
    pub fn decode(reader: &mut Reader<'_>, page_size: PageSize, width: usize) -> Result<Pages, BadPages> {
        let pages = reader.u64()?;
        // Counts that are not true end with the bytes: whatever is counted takes some.
        let sums = reader.take(usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(width))?;
        let mut sums = Reader::new(sums);
        let mut checksums = Vec::new();
        for _ in 0..pages {
            checksums.push(sums.u32()?);
            sums.take(width.saturating_sub(4))?;
        }
        let (mut segments, mut first) = (Vec::new(), 0u64);
        for _ in 0..reader.varint()? {
            let (count, tier, offset, birth) = (reader.varint()?, reader.u8()?, reader.u64()?, reader.u64()?);
            let end = count
                .checked_mul(page_size.bytes() as u64)
                .and_then(|len| offset.checked_add(len));
            if count == 0 || end.is_none() || !offset.is_multiple_of(page_size.bytes() as u64) {
                return Err(BadPages::Other(format!("{count} pages at {offset}")));
            }
            segments.push(Segment {
                first,
                pages: count,
                tier,
                offset,
                birth,
            });
            first = first.saturating_add(count);
        }
        match first == pages {
            true => Ok(Pages {
                page_size,
                segments: segments.into(),
                checksums: checksums.into(),
            }),
            false => Err(BadPages::Other(format!("segments of {first} pages of {pages}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_list_do_not_change_and_wrong_ones_are_refused() {
        let pages = Pages {
            page_size: PageSize::MIN,
            segments: [Segment {
                first: 0,
                pages: 2,
                tier: 1,
                offset: 8192,
                birth: 3,
            }]
            .into(),
            checksums: [5, 6].into(),
        };
        let mut bytes = Vec::new();
        pages.encode(&mut bytes);
        let expected = b"\x02\0\0\0\0\0\0\0\x05\0\0\0\x06\0\0\0\
            \x01\x02\x01\0\x20\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
        assert_eq!(bytes, expected);
        let decode = |bytes: &[u8]| Pages::decode(&mut Reader::new(bytes), PageSize::MIN, 4);
        assert_eq!(decode(&bytes).unwrap(), pages);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        let refused = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            decode(&bytes).is_err()
        };
        assert!(refused(0, 3) && refused(17, 0) && refused(17, 3) && refused(19, 1));
        assert_eq!(
            pages.get(1).map(|page| (page.offset, page.checksum)),
            Some((12288, 6))
        );
        assert_eq!(pages.get(2), None);
        // Whole checksums, of version 1.
        let mut whole = bytes.clone();
        whole.splice(12..12, [7; 4]);
        whole.splice(20..20, [9; 4]);
        let decoded = Pages::decode(&mut Reader::new(&whole), PageSize::MIN, 8);
        assert_eq!(decoded.unwrap(), pages);
    }
}
