//! On-disk encoding of a run's description, version 3, which contains the locations of the leaves,
//! the index and the filter. All integers are little-endian. A *varint* is LEB128 of at most 10
//! bytes.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  magic "AHRN"
//!      4     1  version, 3
//!      5     1  index: 0 a PaCHash index, 1 a trie
//!      6     1  1 if there is a filter
//!      7     1  zero
//!      8     8  records
//!     16     8  those of them that delete a key
//!     24     8  hashes, each counted once
//!     32     8  bytes of keys and values
//!     40     8  newest sequence number, less the run's base
//!     48        its n leaves: `hashed/pages/format.rs`
//!      …        extents (varint), each: the extent (12), its live bytes (varint)
//!      …        length of the index (varint), the index; with a trie n times 4 bytes: twice the
//!                 rank of a leaf's first hash, and one more where the leaf before ends with it
//!      …        with a filter: its length (varint), the filter: `filters/listed/format.rs`
//!      …        deleted ranges (varint), each: length (varint) and bytes of the first key, length
//!                 (varint) and bytes of the key behind the last, sequence number (varint)
//! ```
//!
//! Versions 1 and 2 are still read but no longer written. They have a quotient filter instead: its
//! geometry (24), its length (varint), its pages. Version 1 has an 8-byte checksum for each leaf.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{HashRunFilter, RunDescription};
use crate::hashed::index::LeafIndex;
use crate::hashed::pages::{self, DescriptionError, PageList};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_dictionary::range_tombstones::{RangeTombstoneIndex, RangeTombstoneList};
use alluvium_filters::{EntryChunk, FilterGeometry, FilterImage, listed};
use alluvium_storage::memory::ZeroedBuffer;
use alluvium_storage::{DiskLocation, PageSize, Result};
use std::sync::Arc;

const MAGIC: [u8; 4] = *b"AHRN";
const VERSION: u8 = 3;
/// Oldest version that can be read.
const OLDEST: u8 = 1;
/// Newest version that has quotient filters.
const QUOTIENTS: u8 = 2;
const PACHASH: u8 = 0;
const TRIE: u8 = 1;

impl RunDescription {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.memory_bytes() as usize);
        let (kind, index, starts) = match &self.index {
            LeafIndex::PaCHash(bytes) => (PACHASH, bytes, &[][..]),
            LeafIndex::Trie(bytes, starts) => (TRIE, bytes, &**starts),
        };
        ByteWriter::new(&mut out)
            .bytes(&MAGIC)
            .u8(VERSION)
            .u8(kind)
            .u8(u8::from(self.filter.is_some()))
            .u8(0);
        for number in [
            self.records,
            self.tombstones,
            self.hashes,
            self.bytes,
            self.newest,
        ] {
            ByteWriter::new(&mut out).u64(number);
        }
        self.pages.encode(&mut out);
        pages::encode_extents(&self.extents, &mut out);
        ByteWriter::new(&mut out).varint(index.len() as u64).bytes(index);
        for &start in starts {
            ByteWriter::new(&mut out).u32(start);
        }
        if let Some(filter) = &self.filter {
            let all = filter.whole().expect("a run is described with all of its filter");
            ByteWriter::new(&mut out)
                .varint(all.bytes().len() as u64)
                .bytes(all.bytes());
        }
        ByteWriter::new(&mut out).varint(self.deletes.len() as u64);
        self.deletes.each(|start, end, sequence| {
            ByteWriter::new(&mut out)
                .varint(start.len() as u64)
                .bytes(start)
                .varint(end.len() as u64)
                .bytes(end)
                .varint(sequence);
        });
        out
    }

    /// Decodes the description of a run.
    ///
    /// # Errors
    /// [`alluvium_storage::Error::Corrupt`], with the location `place`, if the description is
    /// invalid; [`alluvium_storage::Error::NewerFormat`] if a newer version wrote it.
    pub fn decode(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<RunDescription> {
        pages::decode(bytes, place, "a run", (MAGIC, VERSION), |reader| {
            read(reader, place, page_size)
        })
    }
}

fn read(
    reader: &mut ByteReader<'_>,
    place: &DiskLocation,
    page_size: PageSize,
) -> std::result::Result<RunDescription, DescriptionError> {
    let magic = reader.take(MAGIC.len())?;
    let (version, kind, has_filter, zero) = (reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?);
    if magic != MAGIC || !(OLDEST..=VERSION).contains(&version) || kind > TRIE || has_filter > 1 || zero != 0
    {
        return Err(DescriptionError::Other(format!(
            "{magic:02x?} {version} {kind} {has_filter} {zero}"
        )));
    }
    let (records, tombstones, hashes) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let (data, newest) = (reader.u64()?, reader.u64()?);
    let pages = PageList::decode(reader, page_size, if version == OLDEST { 8 } else { 4 })?;
    let leaves = pages.len();
    let extents = pages::decode_extents(reader, place)?;
    let index = part(reader)?.into();
    let index = match kind {
        PACHASH => LeafIndex::PaCHash(index),
        _ => {
            let mut starts = Vec::new();
            for _ in 0..leaves {
                starts.push(reader.u32()?);
            }
            if !starts.is_sorted() {
                return Err(DescriptionError::Other("leaves whose ranks fall".to_owned()));
            }
            LeafIndex::Trie(index, starts.into())
        }
    };
    let filter = match has_filter {
        0 => None,
        _ if version <= QUOTIENTS => Some(of_quotients(reader)?),
        _ => Some(filter(reader)?),
    };
    Ok(RunDescription {
        pages,
        index,
        filter,
        deletes: Arc::new(deletes(reader)?),
        extents,
        records,
        tombstones,
        hashes,
        bytes: data,
        newest,
    })
}

fn filter(reader: &mut ByteReader<'_>) -> std::result::Result<HashRunFilter, DescriptionError> {
    let stored = part(reader)?;
    let mut bytes = ZeroedBuffer::zeroed(stored.len());
    bytes.copy_from_slice(stored);
    match listed::ListedFilter::open(bytes)? {
        all if all.is_whole() => Ok(HashRunFilter::of(all)),
        part => Err(DescriptionError::Other(format!(
            "pages {:?} of a filter",
            part.pages()
        ))),
    }
}

/// Decodes a quotient filter and converts it to the current kind of filter. Quotient filters store
/// prefixes of hashes as fingerprints, so the false positive rate does not change.
fn of_quotients(reader: &mut ByteReader<'_>) -> std::result::Result<HashRunFilter, DescriptionError> {
    let geometry = FilterGeometry::decode(reader.take(FilterGeometry::BYTES)?)?;
    let image = FilterImage::new(&geometry, part(reader)?)?;
    let counted = fingerprints(&image).try_fold(0u64, |count, each| each.map(|_| count + 1));
    let (count, known) = (counted?, geometry.fingerprint_bits());
    let bits = known.saturating_sub(count.max(1).ilog2());
    let shape = listed::ListedShape::new(count, bits.clamp(1, listed::MOST_BITS))?;
    // Counting the fingerprints has shown that the whole image can be read without errors.
    let hashes = fingerprints(&image).map_while(alluvium_filters::Result::ok);
    Ok(HashRunFilter::build(hashes, shape.knowing(known))?)
}

/// Iterates over the fingerprints of a quotient filter in ascending order, each as a hash whose
/// unknown bits are 0. Stops after the first error.
fn fingerprints(image: &FilterImage<'_>) -> impl Iterator<Item = alluvium_filters::Result<u64>> {
    let (mut source, mut chunk, mut at) = (image.source(), EntryChunk::new(), 0);
    std::iter::from_fn(move || {
        loop {
            if let Some(entry) = chunk.entries().get(at) {
                at += 1;
                return Some(Ok(entry.fingerprint().number(u64::BITS)));
            }
            at = 0;
            match source(&mut chunk) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

impl From<alluvium_filters::Error> for DescriptionError {
    fn from(error: alluvium_filters::Error) -> DescriptionError {
        DescriptionError::Other(error.to_string())
    }
}

fn deletes(reader: &mut ByteReader<'_>) -> std::result::Result<RangeTombstoneIndex, DescriptionError> {
    let mut list = RangeTombstoneList::default();
    for _ in 0..reader.varint()? {
        let (start, end) = (part(reader)?, part(reader)?);
        let sequence = reader.varint()?;
        if start >= end {
            return Err(DescriptionError::Other(
                "a deleted range that ends before it begins".to_owned(),
            ));
        }
        list.push(start, end, sequence);
    }
    Ok(RangeTombstoneIndex::of(&list))
}

fn part<'b>(reader: &mut ByteReader<'b>) -> std::result::Result<&'b [u8], TruncatedInput> {
    let len = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    reader.take(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashed::index::LeafIndexInput;
    use crate::hashed::options::IndexKind;
    use crate::hashed::pages::PageSegment;
    use alluvium_base::checksum;
    use alluvium_storage::Error;
    use alluvium_storage::OnDiskObject;
    use alluvium_storage::extents::Extent;

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "a run", 0)
    }

    fn example(kind: IndexKind) -> RunDescription {
        let all = [1 << 60, 3 << 60, 9 << 60];
        let leaves = [(all[0], all[1]), (all[2], all[2])];
        let hashes = LeafIndexInput {
            leaves: &leaves,
            all: &all,
        };
        RunDescription {
            pages: PageList {
                page_size: PageSize::MIN,
                segments: [PageSegment {
                    first: 0,
                    pages: 2,
                    tier: 0,
                    offset: 8192,
                    birth: 3,
                }]
                .into(),
                checksums: [5, 6].into(),
            },
            index: LeafIndex::build(kind, hashes, 4096).unwrap(),
            filter: Some(
                HashRunFilter::build(all.iter().copied(), listed::ListedShape::new(3, 12).unwrap()).unwrap(),
            ),
            deletes: Arc::new(RangeTombstoneIndex::new(&[(b"a".to_vec(), b"c".to_vec(), 9)])),
            extents: [(
                Extent {
                    tier: 0,
                    start: 1,
                    units: 2,
                },
                8192,
            )]
            .into(),
            records: 4,
            tombstones: 1,
            hashes: 3,
            bytes: 77,
            newest: 9,
        }
    }

    #[test]
    fn the_bytes_of_version_3_do_not_change() {
        let bytes = example(IndexKind::PaCHash).encode();
        let mut expected = b"AHRN\x03\0\x01\0".to_vec();
        for number in [4u64, 1, 3, 77, 9, 2] {
            expected.extend(number.to_le_bytes());
        }
        expected.extend(b"\x05\0\0\0\x06\0\0\0");
        expected.extend(b"\x01\x02\0\0\x20\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
        assert_eq!(bytes[..expected.len()], expected);
        assert_eq!(bytes[bytes.len() - 6..], *b"\x01\x01a\x01c\x09");
        let sums = [IndexKind::PaCHash, IndexKind::Trie].map(|kind| checksum(&example(kind).encode()));
        assert_eq!(
            sums.map(|sum| format!("{sum:016x}")),
            ["3a69a0d9cec42430", "bf04908aff692efd"]
        );
    }

    /// Encodes the example in version 2, with a quotient filter of 14 bits per hash.
    fn version_2(kind: IndexKind) -> Vec<u8> {
        use alluvium_filters::{FilterBuilder, FilterEntry, FilterShape, Fingerprint};
        let geometry = FilterGeometry::for_entries(3, FilterShape::new(14, 0)).unwrap();
        let mut filter = Vec::new();
        geometry.encode(&mut filter);
        ByteWriter::new(&mut filter).varint(geometry.bytes());
        let mut builder = FilterBuilder::new(geometry, |page: &[u8]| -> alluvium_filters::Result<()> {
            filter.extend_from_slice(page);
            Ok(())
        });
        for hash in [1 << 60, 3 << 60, 9 << 60] {
            builder
                .push(FilterEntry::new(Fingerprint::of(hash, 14), 0), 1)
                .unwrap();
        }
        builder.finish().unwrap();
        let rest = RunDescription {
            filter: None,
            ..example(kind)
        };
        let mut bytes = rest.encode();
        (bytes[4], bytes[6]) = (2, 1);
        // Insert the filter before the range delete at the end.
        let at = bytes.len() - 6;
        bytes.splice(at..at, filter);
        bytes
    }

    /// Returns the example with the filter that converting its quotient filter produces.
    fn with_listed(kind: IndexKind) -> RunDescription {
        let shape = listed::ListedShape::new(3, 13).unwrap().knowing(14);
        let filter = HashRunFilter::build([1 << 60, 3 << 60, 9 << 60].into_iter(), shape).unwrap();
        RunDescription {
            filter: Some(filter),
            ..example(kind)
        }
    }

    #[test]
    fn version_2_is_read_and_its_filter_listed() {
        let sums = [IndexKind::PaCHash, IndexKind::Trie].map(|kind| checksum(&version_2(kind)));
        assert_eq!(
            sums.map(|sum| format!("{sum:016x}")),
            ["7efca67037a20013", "a5e747f5db0c1cb8"],
            "these are the bytes that version 2 wrote"
        );
        for kind in [IndexKind::PaCHash, IndexKind::Trie] {
            let bytes = version_2(kind);
            let meta = RunDescription::decode(&bytes, &place(), PageSize::MIN).unwrap();
            assert_eq!(meta, with_listed(kind));
            let filter = meta.filter.as_ref().unwrap();
            for sixteenth in 0..16 {
                let is_there = [1, 3, 9].contains(&sixteenth);
                assert_eq!(filter.may_hold(sixteenth << 60).unwrap(), is_there);
            }
            assert_eq!(
                RunDescription::decode(&meta.encode(), &place(), PageSize::MIN).unwrap(),
                meta
            );
            for at in bytes.len() - 4150..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x41;
                let _ = RunDescription::decode(&damaged, &place(), PageSize::MIN);
            }
        }
    }

    #[test]
    fn version_1_is_read() {
        let mut bytes = version_2(IndexKind::PaCHash);
        bytes[4] = 1;
        // Insert the upper halves of the checksums, which were complete in version 1.
        bytes.splice(60..60, [7; 4]);
        bytes.splice(68..68, [9; 4]);
        let meta = RunDescription::decode(&bytes, &place(), PageSize::MIN).unwrap();
        assert_eq!(meta, with_listed(IndexKind::PaCHash));
    }

    #[test]
    fn a_description_is_read_back_and_no_change_of_it_makes_the_decoder_panic() {
        for kind in [IndexKind::PaCHash, IndexKind::Trie] {
            let meta = example(kind);
            let bytes = meta.encode();
            let decode = |bytes: &[u8]| RunDescription::decode(bytes, &place(), PageSize::MIN);
            assert_eq!(decode(&bytes).unwrap(), meta);
            for len in 0..bytes.len() {
                assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
            }
            assert!(decode(&[&bytes[..], b"\0"].concat()).is_err());
            let head = 220.min(bytes.len());
            for at in (0..head).chain(bytes.len() - 6..bytes.len()) {
                for byte in [0, 1, 2, 0x7f, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] = byte;
                    if let Ok(meta) = decode(&damaged) {
                        let filter = meta.filter.as_ref().map(|filter| filter.may_hold(3 << 60));
                        let _ = (meta.leaf(0), meta.leaf(1), meta.index.leaves(5 << 60), filter);
                    }
                }
            }
            let mut newer = bytes;
            newer[4] = 4;
            assert!(matches!(decode(&newer), Err(Error::NewerFormat { found: 4, .. })));
        }
    }
}
