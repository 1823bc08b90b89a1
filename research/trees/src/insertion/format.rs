//! The encoding of a leaf page, version 1. All integers are little-endian; a *varint* is LEB128 of
//! at most 10 bytes.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  checksum of the rest of the page (XXH3-64), seeded with id + number · 2^64/φ
//!      8     4  records
//!     12     4  bytes of the records
//!     16        records, ascending, each: length of the key (varint), key, length of the value
//!               (varint), value; zeros behind the last
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::LeafRecord;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum::seeded;
use alluvium_storage::{DiskLocation, Error, Result};

/// The number of bytes before the records.
pub const HEAD: usize = 16;

/// 2^64 / φ, rounded to an odd number: neighbouring pages get seeds that are far apart.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the encoded size of a record in bytes.
#[must_use]
pub fn record_bytes(key: &[u8], value: &[u8]) -> usize {
    let varint = |len: usize| (u64::BITS - (len as u64 | 1).leading_zeros()).div_ceil(7) as usize;
    varint(key.len()) + key.len() + varint(value.len()) + value.len()
}

/// Returns whether a record fits in a page.
#[must_use]
pub fn fits(key: &[u8], value: &[u8], page_bytes: usize) -> bool {
    HEAD + record_bytes(key, value) <= page_bytes
}

/// Encodes records into a page. They must fit.
pub fn encode(records: &[LeafRecord], id: u64, number: u64, page: &mut [u8]) {
    let mut out = Vec::with_capacity(page.len());
    ByteWriter::new(&mut out).u64(0).u32(records.len() as u32).u32(0);
    for (key, value) in records {
        ByteWriter::new(&mut out)
            .varint(key.len() as u64)
            .bytes(key)
            .varint(value.len() as u64)
            .bytes(value);
    }
    assert!(
        out.len() <= page.len(),
        "{} bytes fit a page of {}",
        out.len(),
        page.len()
    );
    let bytes = (out.len() - HEAD) as u32;
    if let Some(field) = out.get_mut(12..HEAD) {
        field.copy_from_slice(&bytes.to_le_bytes());
    }
    out.resize(page.len(), 0);
    page.copy_from_slice(&out);
    if let Some((head, rest)) = page.split_first_chunk_mut::<8>() {
        *head = seeded(seed(id, number), rest).to_le_bytes();
    }
}

/// Decodes the records of a page.
///
/// # Errors
/// [`Error::Corrupt`] at `place` unless the bytes are the page with this number of the tree.
pub fn decode(page: &[u8], id: u64, number: u64, place: &DiskLocation) -> Result<Vec<LeafRecord>> {
    let bad = |expected: &str, found: String| Error::corrupt(place.clone(), expected, found);
    let cut = |cut: TruncatedInput| bad("the records of a leaf", cut.to_string());
    let mut reader = ByteReader::new(page);
    let found = reader.u64().map_err(cut)?;
    let rest = page.get(8..).unwrap_or_default();
    let wanted = seeded(seed(id, number), rest);
    if wanted != found {
        return Err(bad(&format!("checksum {wanted:#018x}"), format!("{found:#018x}")));
    }
    let (count, bytes) = (reader.u32().map_err(cut)?, reader.u32().map_err(cut)?);
    let mut reader = ByteReader::new(reader.take(bytes as usize).map_err(cut)?);
    let mut records: Vec<LeafRecord> = Vec::new();
    // With a wrong record count, decoding ends at the end of the bytes.
    for _ in 0..count {
        let key = part(&mut reader).map_err(cut)?;
        let value = part(&mut reader).map_err(cut)?;
        if records.last().is_some_and(|(last, _)| **last >= *key) {
            let found = format!("\"{}\" behind it", key.escape_ascii());
            return Err(bad("keys in ascending order", found));
        }
        records.push((key.into(), value.into()));
    }
    if reader.remaining() > 0 {
        return Err(bad(
            "no bytes behind the last record",
            format!("{}", reader.remaining()),
        ));
    }
    Ok(records)
}

fn part<'b>(reader: &mut ByteReader<'b>) -> std::result::Result<&'b [u8], TruncatedInput> {
    let len = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    reader.take(len)
}

fn seed(id: u64, number: u64) -> u64 {
    id.wrapping_add(number.wrapping_mul(SPREAD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::OnDiskObject;

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "leaves", 1024)
    }

    fn example() -> Vec<LeafRecord> {
        let record = |key: &str, value: &[u8]| (key.as_bytes().into(), value.into());
        vec![
            record("", b""),
            record("Elbe", b"1094"),
            record("Oder", &[7; 200]),
        ]
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let mut page = [1; 512];
        encode(&example(), 5, 2, &mut page);
        let rest = b"\x03\0\0\0\xdb\0\0\0\0\0\x04Elbe\x041094\x04Oder\xc8\x01";
        assert_eq!(&page[8..8 + rest.len()], rest);
        assert_eq!(page[8 + rest.len()..][..201], [&[7; 200][..], &[0]].concat());
        assert_eq!(page[..8], seeded(0x3C6E_F372_FE94_F82F, &page[8..]).to_le_bytes());
        assert_eq!(decode(&page, 5, 2, &place()).unwrap(), example());
        let bytes: usize = example()
            .iter()
            .map(|(key, value)| record_bytes(key, value))
            .sum();
        assert_eq!(bytes, 0xdb);
    }

    #[test]
    fn what_is_damaged_or_elsewhere_or_out_of_order_is_refused() {
        let mut page = [0; 512];
        encode(&example(), 5, 2, &mut page);
        for (id, number) in [(6, 2), (5, 3)] {
            assert!(decode(&page, id, number, &place()).is_err());
        }
        for at in 0..512 {
            let mut damaged = page;
            damaged[at] ^= 2;
            let error = decode(&damaged, 5, 2, &place()).unwrap_err().to_string();
            assert!(error.contains("node in leaves at offset 1024"), "{error}");
        }
        // The checksum of the modified page is valid.
        let refused = |change: &dyn Fn(&mut [u8; 512])| {
            let mut page = page;
            change(&mut page);
            let sum = seeded(seed(5, 2), &page[8..]);
            page[..8].copy_from_slice(&sum.to_le_bytes());
            decode(&page, 5, 2, &place()).unwrap_err().to_string()
        };
        assert!(refused(&|page| page[8] = 2).contains("no bytes behind"));
        assert!(refused(&|page| page[8] = 4).contains("bytes were wanted"));
        assert!(refused(&|page| page[12..16].fill(255)).contains("bytes were wanted"));
        assert!(refused(&|page| page[19] = b'Z').contains("ascending"));
        assert!(decode(&page[..10], 5, 2, &place()).is_err());
        assert!(fits(b"", &[0; 493], 512) && !fits(b"", &[0; 494], 512));
    }
}
