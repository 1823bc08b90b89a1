//! Encoding shared by all descriptions: the magic bytes and version at the start, the page list,
//! and the extents. All integers are little-endian. A *varint* is LEB128 of at most 10 bytes.
//!
//! The page list:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  pages, n
//!      8   4·n  the lower half of the XXH3-64 of each page
//!      …        segments (varint), each a number of pages in a row: pages (varint), tier (1),
//!                 offset of the first (8), birth (8)
//! ```
//!
//! Descriptions of version 1 have 8 bytes per page at offset 8, a complete XXH3-64. Version 1 is
//! still read but no longer written.
//!
//! The extents are their number (varint), followed by each extent (12) and its live bytes (varint).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{PageList, PageSegment};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_storage::extents::Extent;
use alluvium_storage::{DiskLocation, Error, PageSize, Result};

/// Why a description is invalid.
#[derive(Debug)]
pub(in crate::hashed) enum DescriptionError {
    Cut(TruncatedInput),
    /// Invalid values in the description, listed in the text.
    Other(String),
    /// An invalid extent in the description.
    Extent(Box<Error>),
}

impl From<TruncatedInput> for DescriptionError {
    fn from(cut: TruncatedInput) -> DescriptionError {
        DescriptionError::Cut(cut)
    }
}

/// Decodes a description. Checks the version, decodes the fields with `read`, and checks that no
/// bytes remain. `read` must start with the magic bytes and the version. `name` is the kind of
/// object described, for error messages.
///
/// # Errors
/// [`Error::Corrupt`], with the location `place`, if the description is invalid;
/// [`Error::NewerFormat`] if its version is greater than `version`.
pub(in crate::hashed) fn decode<M>(
    bytes: &[u8],
    place: &DiskLocation,
    name: &str,
    (magic, version): ([u8; 4], u8),
    read: impl FnOnce(&mut ByteReader<'_>) -> std::result::Result<M, DescriptionError>,
) -> Result<M> {
    let bad = |found: String| Error::corrupt(place.clone(), format!("the description of {name}"), found);
    if let Some(&found) = bytes.get(4)
        && bytes.starts_with(&magic)
        && found > version
    {
        return Err(Error::NewerFormat {
            place: place.clone(),
            found: found.into(),
            supported: version.into(),
        });
    }
    let mut reader = ByteReader::new(bytes);
    let meta = read(&mut reader).map_err(|error| match error {
        DescriptionError::Cut(cut) => bad(cut.to_string()),
        DescriptionError::Other(found) => bad(found),
        DescriptionError::Extent(error) => *error,
    })?;
    match reader.remaining() {
        0 => Ok(meta),
        left => Err(bad(format!("{left} bytes after its end"))),
    }
}

/// Appends extents and their live bytes.
pub(in crate::hashed) fn encode_extents(extents: &[(Extent, u64)], out: &mut Vec<u8>) {
    ByteWriter::new(out).varint(extents.len() as u64);
    for (extent, live) in extents {
        extent.encode(out);
        ByteWriter::new(out).varint(*live);
    }
}

/// Decodes extents and their live bytes. If an extent has more live bytes than its length, the
/// number is reduced to the length.
pub(in crate::hashed) fn decode_extents(
    reader: &mut ByteReader<'_>,
    place: &DiskLocation,
) -> std::result::Result<Box<[(Extent, u64)]>, DescriptionError> {
    let mut extents = Vec::new();
    for _ in 0..reader.varint()? {
        let extent =
            Extent::decode(reader, place).map_err(|error| DescriptionError::Extent(Box::new(error)))?;
        extents.push((extent, reader.varint()?.min(extent.bytes())));
    }
    Ok(extents.into())
}

impl PageList {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = ByteWriter::new(out);
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

    /// Decodes a page list. `width` is the number of bytes per checksum: 4, or 8 in version 1, of
    /// which only the lower half is used.
    ///
    /// # Errors
    /// [`DescriptionError`] if the encoding is invalid.
    pub(in crate::hashed) fn decode(
        reader: &mut ByteReader<'_>,
        page_size: PageSize,
        width: usize,
    ) -> std::result::Result<PageList, DescriptionError> {
        let pages = reader.u64()?;
        // A wrong count cannot cause a large allocation, because every element takes up input
        // bytes.
        let sums = reader.take(usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(width))?;
        let mut sums = ByteReader::new(sums);
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
                return Err(DescriptionError::Other(format!("{count} pages at {offset}")));
            }
            segments.push(PageSegment {
                first,
                pages: count,
                tier,
                offset,
                birth,
            });
            first = first.saturating_add(count);
        }
        match first == pages {
            true => Ok(PageList {
                page_size,
                segments: segments.into(),
                checksums: checksums.into(),
            }),
            false => Err(DescriptionError::Other(format!(
                "segments of {first} pages of {pages}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_list_do_not_change_and_wrong_ones_are_refused() {
        let pages = PageList {
            page_size: PageSize::MIN,
            segments: [PageSegment {
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
        let decode = |bytes: &[u8]| PageList::decode(&mut ByteReader::new(bytes), PageSize::MIN, 4);
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
        // Insert complete checksums, as in version 1.
        let mut whole = bytes.clone();
        whole.splice(12..12, [7; 4]);
        whole.splice(20..20, [9; 4]);
        let decoded = PageList::decode(&mut ByteReader::new(&whole), PageSize::MIN, 8);
        assert_eq!(decoded.unwrap(), pages);
    }
}
