//! The bytes of a blocked bloom filter, version 1. All integers little-endian.
//!
//! A filter is `pages` pages of one size. A page:
//!
//! ```text
//! OFFSET       SIZE  MEANING
//!      0          4  magic "ABLM"
//!      4          1  version, 1
//!      5          3  zero
//!      8          4  number of the page within the filter
//!     12          4  pages of the filter
//!     16          4  bytes of a page
//!     20         44  zero
//!     64  64 × lines  lines: eight words of 8 bytes each; a key sets one bit in each word of one line
//! ```

use super::BloomGeometry;
use crate::{Error, Result};
use alluvium_base::bytes::{Reader, Writer};

/// Bytes of a line, and of the header before the lines: the header is a line of its own, so that
/// lines are aligned in an aligned page.
pub(super) const LINE_BYTES: usize = 64;

/// Words of a line.
pub(super) const WORDS: usize = 8;

const MAGIC: [u8; 4] = *b"ABLM";
const VERSION: u8 = 1;

/// Makes `page` the empty page `number` of a filter.
pub(super) fn write_empty(geometry: &BloomGeometry, page: &mut [u8], number: u32) {
    let mut header = Vec::with_capacity(LINE_BYTES);
    Writer::new(&mut header)
        .bytes(&MAGIC)
        .u8(VERSION)
        .bytes(&[0; 3])
        .u32(number)
        .u32(geometry.pages)
        .u32(geometry.page_bytes);
    page.fill(0);
    page[..header.len()].copy_from_slice(&header);
}

/// Checks the header of page `number`.
pub(super) fn verify(geometry: &BloomGeometry, page: &[u8], number: u32) -> Result<()> {
    let mut reader = Reader::new(page);
    let mut read = || -> std::result::Result<_, alluvium_base::bytes::Truncated> {
        Ok((
            reader.take(8)?,
            [reader.u32()?, reader.u32()?, reader.u32()?],
            reader.take(44)?,
        ))
    };
    let (magic, found, zeros) = read()
        .map_err(|short| Error::corrupt(number, "length", LINE_BYTES.to_string(), short.to_string()))?;
    if magic[..4] != MAGIC || magic[4..] != [VERSION, 0, 0, 0] || zeros.iter().any(|&byte| byte != 0) {
        return Err(Error::corrupt(
            number,
            "magic and version",
            "ABLM 1 and zeros",
            format!("{magic:02x?}"),
        ));
    }
    let expected = [number, geometry.pages, geometry.page_bytes];
    if found != expected {
        return Err(Error::corrupt(
            number,
            "number, pages and bytes",
            format!("{expected:?}"),
            format!("{found:?}"),
        ));
    }
    Ok(())
}

/// The words of a line, or nothing when the page has no such line.
#[inline(always)]
pub(super) fn line(page: &[u8], line: usize) -> Option<[u64; WORDS]> {
    let at = (line + 1) * LINE_BYTES;
    let bytes: &[u8; LINE_BYTES] = page.get(at..at + LINE_BYTES)?.first_chunk()?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Some(words)
}

/// Replaces the words of a line.
pub(super) fn set_line(page: &mut [u8], line: usize, words: [u64; WORDS]) {
    let at = (line + 1) * LINE_BYTES;
    for (word, bytes) in words.iter().zip(page[at..at + LINE_BYTES].as_chunks_mut::<8>().0) {
        *bytes = word.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_page_are_these() {
        let geometry = BloomGeometry::with_pages(3, 4096).unwrap();
        let mut page = vec![0xff; 4096];
        write_empty(&geometry, &mut page, 2);
        set_line(&mut page, 62, [1, 2, 3, 4, 5, 6, 7, 0x8000_0000_0000_0008]);
        let mut expected = vec![0; 4096];
        expected[..20].copy_from_slice(b"ABLM\x01\0\0\0\x02\0\0\0\x03\0\0\0\0\x10\0\0");
        for (word, at) in (4032..).step_by(8).take(8).enumerate() {
            expected[at] = word as u8 + 1;
        }
        expected[4095] = 0x80;
        assert_eq!(page, expected);
        assert_eq!(line(&page, 62).unwrap()[7], 0x8000_0000_0000_0008);
        assert_eq!(line(&page, 63), None);
        verify(&geometry, &page, 2).unwrap();
        assert!(verify(&geometry, &page, 1).is_err());
        assert!(verify(&geometry, &page[..40], 2).is_err());
    }
}
