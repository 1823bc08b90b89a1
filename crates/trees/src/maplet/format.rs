//! The format of a maplet's directory, version 1. All integers are little-endian.
//!
//! The root is an uncompressed node of 1 to 16 pages. The writer of the maplet's pages also writes
//! the root, so it has the same tier and birth generation as the pages:
//!
//! ```text
//! OFFSET          SIZE  MEANING
//!      0             4  magic "AMPD"
//!      4             1  version, 1
//!      5             3  zero
//!      8            24  geometry, as `crates/filters/src/quotient/format.rs` says
//!     32             8  entries
//!     40             4  pages, those with spilled records included
//!     44             4  spilled records
//!     48             4  values that have entries
//!     52             4  extents
//!     56             4  parts, zero when the body follows in the root
//!     60             4  entries beyond the first of their fingerprint, 2^32 - 1 if there are more
//!     64  16 × extents  extents, in the order in which they were written; the root is in the last one
//!                       32 × parts: node pointers; or the body
//!                       zeros
//! ```
//!
//! An extent:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  first unit
//!      4     4  units
//!      8     4  pages of the maplet in it, from its first byte on
//!     12     4  live bytes, in pages: those pages, the parts and the root
//! ```
//!
//! The body follows. A body that does not fit into the root is split into nodes of 16 pages called
//! parts, and the last part is padded with zeros:
//!
//! ```text
//! OFFSET          SIZE  MEANING
//!      0   12 × values  value (2), zero (2), entries that have it (8), in rising order of the values
//!              8 × pages  XXH3-64 of each page
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_filters::FilterGeometry;
use alluvium_storage::extents::{Extent, MAX_EXTENT_UNITS, MAX_TIER_UNITS};
use alluvium_storage::node::MAX_PAGES;
use alluvium_storage::{DiskLocation, Error, IMPOSSIBLE, NodeCodec, NodePointer, PageSize, Result};

const MAGIC: [u8; 4] = *b"AMPD";
const VERSION: u8 = 1;

/// Size of the root in bytes before its list of extents.
const HEADER_BYTES: usize = 64;
/// Size of an extent's entry in the root, in bytes.
const EXTENT_BYTES: usize = 16;
/// Size of a value and its number of entries in bytes.
const VALUE_BYTES: usize = 12;
/// Size of a page's checksum in bytes.
const CHECKSUM_BYTES: usize = 8;
const _: () = assert!(
    HEADER_BYTES == 8 + FilterGeometry::BYTES + 8 + 6 * 4,
    "magic and version, geometry, entries and six counts"
);
const _: () = assert!(EXTENT_BYTES == 4 * 4 && VALUE_BYTES == 2 + 2 + 8 && CHECKSUM_BYTES == 8);

/// An extent that contains pages of a maplet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapletExtent {
    pub extent: Extent,
    /// Number of the maplet's pages in the extent. The first of them is at the start of the extent.
    pub pages: u32,
    /// Total size in bytes of all nodes in the extent.
    pub live_bytes: u64,
}

/// The decoded root of a maplet's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapletRoot {
    /// The geometry, which determines the page of each fingerprint.
    pub geometry: FilterGeometry,
    /// Number of pairs of fingerprint and value.
    pub entries: u64,
    /// Number of pages, including those with spilled records.
    pub pages: u32,
    /// Number of spilled records. They are stored in the last pages of the maplet.
    pub spilled: u32,
    /// Number of distinct values in the maplet.
    pub values: u32,
    /// Number of entries minus the number of distinct fingerprints; at most `u32::MAX`.
    pub repeats: u32,
    /// The maplet's extents, in the order in which they were written.
    pub stretches: Vec<MapletExtent>,
    /// Pointers to the nodes that contain the body; empty if the body is in the root.
    pub parts: Vec<NodePointer>,
}

/// The body of the directory, with data about each value and each page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapletBody {
    /// Each value with its number of entries, in ascending order of values.
    pub values: Vec<(u16, u64)>,
    /// The checksums of all pages, in page order.
    pub checksums: Vec<u64>,
}

impl MapletRoot {
    /// Returns the number of pages of a root with `extents` extents and `rest` further bytes. A
    /// root of more than [`MAX_PAGES`] pages cannot be written.
    #[must_use]
    pub fn pages_for(page_size: PageSize, extents: usize, rest: usize) -> usize {
        (HEADER_BYTES + extents * EXTENT_BYTES + rest).div_ceil(page_size.bytes())
    }

    /// Returns the encoded size of the body in bytes.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        u64::from(self.values) * VALUE_BYTES as u64 + u64::from(self.pages) * CHECKSUM_BYTES as u64
    }

    /// Encodes the root as a node of whole pages. If there are no parts, the node includes the
    /// encoded `body`.
    #[must_use]
    pub fn encode(&self, body: &[u8], page_size: PageSize) -> Vec<u8> {
        let mut node = Vec::new();
        ByteWriter::new(&mut node)
            .bytes(&MAGIC)
            .u8(VERSION)
            .bytes(&[0; 3]);
        self.geometry.encode(&mut node);
        ByteWriter::new(&mut node)
            .u64(self.entries)
            .u32(self.pages)
            .u32(self.spilled)
            .u32(self.values)
            .u32(self.stretches.len() as u32)
            .u32(self.parts.len() as u32)
            .u32(self.repeats);
        debug_assert_eq!(node.len(), HEADER_BYTES, "the header is as long as it says");
        for stretch in &self.stretches {
            ByteWriter::new(&mut node)
                .u32(stretch.extent.start)
                .u32(stretch.extent.units)
                .u32(stretch.pages)
                .u32((stretch.live_bytes / page_size.bytes() as u64) as u32);
        }
        for part in &self.parts {
            part.encode(&mut node);
        }
        if self.parts.is_empty() {
            node.extend_from_slice(body);
        }
        node.resize(node.len().next_multiple_of(page_size.bytes()), 0);
        node
    }

    /// Decodes the root that was read from `pointer`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if `node` is not a valid root.
    pub fn decode(node: &[u8], pointer: &NodePointer, page_size: PageSize) -> Result<MapletRoot> {
        let place = pointer.place();
        let bad = |expected: &str, found: String| Error::corrupt(place.clone(), expected, found);
        let short = |short: TruncatedInput| bad("the root of a maplet", short.to_string());
        let mut reader = ByteReader::new(node);
        let start = reader.take(8).map_err(short)?;
        if start.split_at_checked(4) != Some((MAGIC.as_slice(), &[VERSION, 0, 0, 0])) {
            return Err(bad("AMPD 1", format!("{start:02x?}")));
        }
        let geometry = FilterGeometry::decode(reader.take(FilterGeometry::BYTES).map_err(short)?)
            .map_err(|error| bad("a geometry", error.to_string()))?;
        if geometry.page_bytes() as usize != page_size.bytes() {
            let expected = format!("pages of {} bytes", page_size.bytes());
            return Err(bad(&expected, geometry.page_bytes().to_string()));
        }
        let entries = reader.u64().map_err(short)?;
        let mut words = [0; 6];
        for word in &mut words {
            *word = reader.u32().map_err(short)?;
        }
        let [pages, spilled, values, extents, parts, repeats] = words;
        let root = MapletRoot {
            geometry,
            entries,
            pages,
            spilled,
            values,
            repeats,
            stretches: read_stretches(&mut reader, extents, pointer, page_size)?,
            parts: read_parts(&mut reader, parts, pointer, page_size)?,
        };
        if entries > IMPOSSIBLE || u64::from(repeats) > entries {
            return Err(bad(
                "entries, and fewer that are not the first of their fingerprint",
                format!("{entries}, {repeats}"),
            ));
        }
        root.check_pages(pointer, page_size)?;
        let rest = reader.remaining() as u64;
        let inline = if root.parts.is_empty() {
            root.body_bytes()
        } else {
            0
        };
        let tail = node
            .get(reader.position() + inline.min(rest) as usize..)
            .unwrap_or(&[]);
        if inline > rest || tail.iter().any(|&byte| byte != 0) {
            let found = format!("{rest} bytes, zeros: {}", tail.iter().all(|&byte| byte == 0));
            return Err(bad(&format!("{inline} bytes, then zeros"), found));
        }
        Ok(root)
    }

    /// Checks that the page counts in the root agree with each other.
    fn check_pages(&self, pointer: &NodePointer, page_size: PageSize) -> Result<()> {
        let bad = |expected: String, found: String| Error::corrupt(pointer.place(), expected, found);
        let spill_pages = self.geometry.spill_pages((0, self.spilled));
        let expected = u64::from(self.geometry.pages()) + u64::from(spill_pages.end - spill_pages.start);
        let in_extents: u64 = self
            .stretches
            .iter()
            .map(|stretch| u64::from(stretch.pages))
            .sum();
        if u64::from(self.pages) != expected || in_extents != expected {
            return Err(bad(
                format!("{expected} pages"),
                format!("{}, {in_extents} in the extents", self.pages),
            ));
        }
        let in_parts: u64 = self
            .parts
            .iter()
            .map(|part| page_size.node_bytes(part.pages) as u64)
            .sum();
        if !self.parts.is_empty() && in_parts < self.body_bytes() {
            return Err(bad(
                format!("parts of {} bytes or more", self.body_bytes()),
                in_parts.to_string(),
            ));
        }
        Ok(())
    }

    /// Decodes the body from the root's own node.
    ///
    /// # Errors
    /// The errors of [`MapletBody::decode`].
    pub fn body_in(&self, node: &[u8], pointer: &NodePointer) -> Result<MapletBody> {
        let at = HEADER_BYTES + self.stretches.len() * EXTENT_BYTES + self.parts.len() * NodePointer::BYTES;
        MapletBody::decode(node.get(at..).unwrap_or(&[]), self, &pointer.place())
    }
}

fn read_stretches(
    reader: &mut ByteReader<'_>,
    extents: u32,
    pointer: &NodePointer,
    page_size: PageSize,
) -> Result<Vec<MapletExtent>> {
    let bad = |expected: &str, found: String| Error::corrupt(pointer.place(), expected, found);
    let short = |short: TruncatedInput| bad("extents", short.to_string());
    let mut stretches = Vec::new();
    for _ in 0..extents {
        let (start, units) = (reader.u32().map_err(short)?, reader.u32().map_err(short)?);
        let (pages, live) = (reader.u32().map_err(short)?, reader.u32().map_err(short)?);
        let stretch = MapletExtent {
            extent: Extent {
                tier: pointer.tier,
                start,
                units,
            },
            pages,
            live_bytes: u64::from(live) * page_size.bytes() as u64,
        };
        let possible = (1..=MAX_EXTENT_UNITS).contains(&units)
            && u64::from(start) + u64::from(units) <= u64::from(MAX_TIER_UNITS)
            && pages <= live
            && stretch.live_bytes <= stretch.extent.bytes();
        if !possible {
            return Err(bad("an extent with its pages", format!("{stretch:?}")));
        }
        stretches.push(stretch);
    }
    match stretches.last() {
        Some(last) if last.extent.range().contains(&pointer.offset) => Ok(stretches),
        last => Err(bad("the root in the last extent", format!("{last:?}"))),
    }
}

fn read_parts(
    reader: &mut ByteReader<'_>,
    parts: u32,
    pointer: &NodePointer,
    page_size: PageSize,
) -> Result<Vec<NodePointer>> {
    let place = pointer.place();
    let mut pointers = Vec::new();
    for _ in 0..parts {
        let part = NodePointer::decode(reader, &place, page_size)?;
        if (part.tier, part.birth, part.codec) != (pointer.tier, pointer.birth, NodeCodec::None) {
            return Err(Error::corrupt(
                place,
                "a part beside its root",
                format!("{part:?}"),
            ));
        }
        pointers.push(part);
    }
    Ok(pointers)
}

impl MapletBody {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(self.values.len() * VALUE_BYTES + self.checksums.len() * CHECKSUM_BYTES);
        let mut writer = ByteWriter::new(&mut bytes);
        for &(value, entries) in &self.values {
            writer.u16(value).u16(0).u64(entries);
        }
        for &checksum in &self.checksums {
            writer.u64(checksum);
        }
        debug_assert_eq!(
            bytes.len(),
            self.values.len() * VALUE_BYTES + self.checksums.len() * CHECKSUM_BYTES,
            "the body is as long as its root says"
        );
        bytes
    }

    /// Decodes the body that belongs to `root`. `bytes` is the end of the root's node, or the
    /// concatenated parts.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place` if the bytes do not match the root.
    pub fn decode(bytes: &[u8], root: &MapletRoot, place: &DiskLocation) -> Result<MapletBody> {
        let bad = |expected: &str, found: String| Error::corrupt(place.clone(), expected, found);
        let short = |short: TruncatedInput| bad("the body of a maplet's directory", short.to_string());
        let mut reader = ByteReader::new(bytes);
        // Check the size before allocating memory, so that a damaged count cannot cause an
        // allocation larger than the input.
        let own = usize::try_from(root.body_bytes())
            .ok()
            .filter(|&own| own <= bytes.len())
            .ok_or_else(|| bad(&format!("{} bytes", root.body_bytes()), bytes.len().to_string()))?;
        if bytes.iter().skip(own).any(|&byte| byte != 0) {
            return Err(bad("zeros after the directory", "others".to_owned()));
        }
        let (mut values, mut sum) = (Vec::with_capacity(root.values as usize), 0u64);
        for _ in 0..root.values {
            let (value, zero) = (reader.u16().map_err(short)?, reader.u16().map_err(short)?);
            let entries = reader.u64().map_err(short)?;
            let rises = values.last().is_none_or(|&(last, _)| last < value);
            let fits = u32::from(value) >> root.geometry.value_bits() == 0;
            if zero != 0 || !rises || !fits || entries == 0 || entries > IMPOSSIBLE {
                return Err(bad("a value with entries", format!("{value}, {zero}, {entries}")));
            }
            sum = sum.saturating_add(entries);
            values.push((value, entries));
        }
        if sum != root.entries {
            return Err(bad(&format!("{} entries", root.entries), sum.to_string()));
        }
        let mut checksums = Vec::with_capacity(root.pages as usize);
        for _ in 0..root.pages {
            checksums.push(reader.u64().map_err(short)?);
        }
        Ok(MapletBody { values, checksums })
    }
}

/// Splits a body that does not fit into the root into the contents of separate nodes.
#[must_use]
pub fn cut(body: &[u8], page_size: PageSize) -> Vec<Vec<u8>> {
    let part = |bytes: &[u8]| {
        let mut node = bytes.to_vec();
        node.resize(bytes.len().next_multiple_of(page_size.bytes()), 0);
        node
    };
    body.chunks(page_size.node_bytes(MAX_PAGES)).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_base::checksum;
    use alluvium_filters::FilterShape;

    fn example() -> (MapletRoot, MapletBody, NodePointer) {
        let geometry = FilterGeometry::with_pages(2, FilterShape::new(36, 4)).unwrap();
        let extent = |start, units| Extent {
            tier: 1,
            start,
            units,
        };
        let stretches = vec![
            MapletExtent {
                extent: extent(7, 1),
                pages: 2,
                live_bytes: 8192,
            },
            MapletExtent {
                extent: extent(0x0102_0304, 8),
                pages: 1,
                live_bytes: 12288,
            },
        ];
        let root = MapletRoot {
            geometry,
            entries: 1000,
            pages: 3,
            spilled: 5,
            values: 2,
            repeats: 0x21,
            stretches,
            parts: Vec::new(),
        };
        let body = MapletBody {
            values: vec![(3, 400), (9, 600)],
            checksums: vec![0x1112_1314_1516_1718, 2, 3],
        };
        let pointer = NodePointer {
            offset: extent(0x0102_0304, 8).offset() + 8192,
            birth: 6,
            checksum: 0,
            encoded_len: 4096,
            tier: 1,
            pages: 1,
            codec: NodeCodec::None,
        };
        (root, body, pointer)
    }

    #[test]
    fn the_bytes_of_a_directory_do_not_change() {
        let (root, body, pointer) = example();
        let mut node = root.encode(&body.encode(), PageSize::MIN);
        assert_eq!(node.len(), 4096);
        let mut wanted = b"AMPD\x01\0\0\0".to_vec();
        root.geometry.encode(&mut wanted);
        wanted.extend_from_slice(
            b"\xe8\x03\0\0\0\0\0\0\x03\0\0\0\x05\0\0\0\x02\0\0\0\x02\0\0\0\0\0\0\0\x21\0\0\0",
        );
        wanted.extend_from_slice(b"\x07\0\0\0\x01\0\0\0\x02\0\0\0\x02\0\0\0");
        wanted.extend_from_slice(b"\x04\x03\x02\x01\x08\0\0\0\x01\0\0\0\x03\0\0\0");
        wanted.extend_from_slice(b"\x03\0\0\0\x90\x01\0\0\0\0\0\0\x09\0\0\0\x58\x02\0\0\0\0\0\0");
        wanted.extend_from_slice(b"\x18\x17\x16\x15\x14\x13\x12\x11\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
        assert_eq!(node[..wanted.len()], wanted);
        assert!(node[wanted.len()..].iter().all(|&byte| byte == 0));
        let read = MapletRoot::decode(&node, &pointer, PageSize::MIN).unwrap();
        assert_eq!(read, root);
        assert_eq!(read.body_in(&node, &pointer).unwrap(), body);
        node[4] = 2;
        assert!(
            MapletRoot::decode(&node, &pointer, PageSize::MIN).is_err(),
            "version 2"
        );
    }

    #[test]
    fn no_damaged_byte_of_a_root_gives_another_root_that_would_be_written_so() {
        let (root, body, pointer) = example();
        let sound = root.encode(&body.encode(), PageSize::MIN);
        for at in 0..200 {
            for flip in [1u8, 0x80, 0xff] {
                let mut node = sound.clone();
                node[at] ^= flip;
                if let Ok(root) = MapletRoot::decode(&node, &pointer, PageSize::MIN)
                    && let Ok(body) = root.body_in(&node, &pointer)
                {
                    assert_eq!(root.encode(&body.encode(), PageSize::MIN), node, "byte {at}");
                }
            }
        }
        let used = HEADER_BYTES + 2 * EXTENT_BYTES + body.encode().len();
        for len in 0..used {
            assert!(
                MapletRoot::decode(&sound[..len], &pointer, PageSize::MIN)
                    .and_then(|root| root.body_in(&sound[..len], &pointer))
                    .is_err(),
                "{len} bytes"
            );
        }
    }

    #[test]
    fn a_long_body_is_cut_into_parts_and_put_together_again() {
        let (mut root, mut body, pointer) = example();
        body.checksums = (0..10_000)
            .map(|page: u32| checksum(&page.to_le_bytes()))
            .collect();
        root.pages = 10_000;
        let bytes = body.encode();
        let parts = cut(&bytes, PageSize::MIN);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [65536, 16384]);
        root.parts = vec![pointer; 2];
        assert_eq!(
            MapletBody::decode(&parts.concat(), &root, &pointer.place()).unwrap(),
            body
        );
        assert!(MapletBody::decode(&parts[0], &root, &pointer.place()).is_err());
    }
}
