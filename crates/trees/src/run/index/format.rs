//! The encoding of an index node, version 1. Version 2 adds the allocation units that contain the
//! separate values of each leaf. Version 3 adds the first and last key of each leaf. All integers
//! are little-endian.
//!
//! ```text
//! OFFSET   SIZE   MEANING
//!      0      1   2
//!      1      1   level: 1 above leaves
//!      2      2   n: children
//!      4      4   p: bytes that all separators begin with
//!      8      8   w: bytes of a packed integer in each of the eight columns
//!     16     64   the columns' bases, 8 bytes each
//!     80      1   e: bytes of an end, 2 or 4
//!     81      1   1 where it says where values are: version 2 or 3; 0 elsewhere
//!     82      1   k: bytes of an end of a key, 2 or 4, in version 3; 0 elsewhere
//!     83      1   zero
//!     84      4   u: units that are listed; 0 where it does not say where values are
//!     88      p   what all separators begin with
//!             e × n   where each separator ends, without that
//!             w × n   for each column in turn, packed:
//!                       0  the child's offset in its tier, in units of 512 bytes
//!                       1  the length of its encoded bytes
//!                       2  tier × 65536 + pages × 256 + codec
//!                       3  birth
//!                       4  bytes of its leaves and their values
//!                       5  records of its leaves
//!                       6  deletes among them
//!                       7  1 when its first key has newer records in the child before
//!             8 × n   XXH3-64 of the child's encoded bytes
//!                     the separators, without what all begin with
//!                     of nodes above leaves that say where values are, for each child:
//!             2 × n     its records whose values are apart
//!             2 × n     how many units hold those values; 0 too where that is not known
//!                     and for each of the units, by child:
//!                 9     tier (1), number (4), bytes of the child's values in it (4)
//!                     in version 3, of nodes above leaves:
//!             4         q: bytes that all keys of leaves begin with
//!             q         what all of them begin with
//!             k × 2n    where each of the keys ends, without that: of each child the first
//!                     and the last
//!                       the keys, without that; a last key that is empty is the first
//!                     zeros
//! ```
//!
//! A separator is less than or equal to every key of its child, and greater than all keys of the
//! previous child. Exception: if column 7 is 1, the separator is equal to the last key of the
//! previous child.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::keys::{LeafKeyList, LeafKeys};
use super::{IndexChild, IndexLayout, ValueUnit, ValueUnits};
use crate::run::MalformedNode;
use crate::run::format::{self, INDEX, get, u16_at, u32_at};
use crate::run::strings::{StringEnds, StringTable};
use alluvium_base::bytes::ByteWriter;
use alluvium_device::BLOCK;
use alluvium_storage::extents::MAX_TIER_UNITS;
use alluvium_storage::node::MAX_PAGES;
use alluvium_storage::{NodeCodec, NodePointer, PageSize};

/// Number of header bytes before the common prefix of the separators.
pub(super) const HEADER: usize = 88;
/// Offset of the flag that tells whether the node lists allocation units of values.
const LISTS: usize = 81;
/// Offset of the byte that holds the width of the leaf keys' ends.
const KEY_ENDS: usize = 82;
/// Size in bytes of the length of the leaf keys' common prefix.
pub(super) const PREFIX_LEN: usize = 4;
/// Offset of the number of listed allocation units.
const UNITS: usize = 84;
/// Size in bytes of a listed allocation unit (`UNIT_LISTED`), and of the two counts for each child
/// (`COUNTS`).
const UNIT_LISTED: usize = 9;
const COUNTS: usize = 4;
/// Offset of the bases of the packed columns.
const BASES: usize = 16;
pub(super) const COLUMNS: usize = 8;

const OFFSET: usize = 0;
const LEN: usize = 1;
const SHAPE: usize = 2;
const BIRTH: usize = 3;
pub(super) const BYTES: usize = 4;
pub(super) const RECORDS: usize = 5;
pub(super) const TOMBSTONES: usize = 6;
const BEGUN: usize = 7;

/// Returns the numbers that describe a child, in the order of the columns.
pub(super) fn columns(child: &IndexChild) -> [u64; COLUMNS] {
    let pointer = &child.pointer;
    let shape =
        u64::from(pointer.tier) << 16 | u64::from(pointer.pages) << 8 | u64::from(pointer.codec.number());
    [
        pointer.offset / BLOCK,
        u64::from(pointer.encoded_len),
        shape,
        pointer.birth,
        child.sums.bytes,
        child.sums.records,
        child.sums.tombstones,
        u64::from(child.begun),
    ]
}

/// Returns the number of bytes that the allocation unit lists occupy in a node with `children`
/// children and `units` listed units.
pub(super) fn list_bytes(children: usize, units: usize) -> usize {
    match units {
        0 => 0,
        units => children * COUNTS + units * UNIT_LISTED,
    }
}

/// Returns the size in bytes of an index node without its allocation unit lists and leaf keys.
pub(super) fn bytes(
    children: usize,
    separator_bytes: usize,
    prefix: usize,
    range: &[(u64, u64); COLUMNS],
) -> usize {
    let rest = separator_bytes - children * prefix;
    let widths: usize = range.iter().map(|(low, high)| format::width(high - low)).sum();
    HEADER + prefix + rest + children * (end_width(rest) + widths + 8)
}

fn end_width(rest: usize) -> usize {
    if rest <= usize::from(u16::MAX) { 2 } else { 4 }
}

/// Appends an encoded index node to `out`. `separators` is the concatenation of all separators, and
/// `ends` lists the end of each.
#[allow(
    clippy::indexing_slicing,
    reason = "ends of separators rise to their length, and each begins with the prefix"
)]
pub(super) fn encode(
    level: u8,
    (separators, ends): (&[u8], &[u32]),
    prefix: usize,
    children: &[IndexChild],
    (lists, keys): (&[ValueUnits], &LeafKeyList),
    range: &[(u64, u64); COLUMNS],
    out: &mut Vec<u8>,
) {
    assert!(
        !children.is_empty() && children.len() <= usize::from(u16::MAX),
        "{} children are counted in 16 bits",
        children.len()
    );
    debug_assert_eq!(ends.len(), children.len(), "a separator for each child");
    let rest = separators.len() - children.len() * prefix;
    let widths = range.map(|(low, high)| format::width(high - low));
    let end_width = end_width(rest);
    ByteWriter::new(out)
        .u8(INDEX)
        .u8(level)
        .u16(children.len() as u16)
        .u32(prefix as u32)
        .bytes(&widths.map(|width| width as u8));
    for (base, _) in range {
        ByteWriter::new(out).u64(*base);
    }
    let has_lists = lists.iter().any(|units| !units.is_empty());
    let has_keys = keys.size().bytes() > 0;
    ByteWriter::new(out)
        .u8(end_width as u8)
        .u8(u8::from(has_lists))
        .u8(if has_keys { keys.size().width() as u8 } else { 0 })
        .u8(0)
        .u32(lists.iter().map(|units| units.list().len() as u32).sum());
    out.extend_from_slice(&separators[..prefix]);
    for (index, &end) in ends.iter().enumerate() {
        format::put(out, u64::from(end) - ((index + 1) * prefix) as u64, end_width);
    }
    for column in 0..COLUMNS {
        for child in children {
            format::put(out, columns(child)[column] - range[column].0, widths[column]);
        }
    }
    for child in children {
        ByteWriter::new(out).u64(child.pointer.checksum);
    }
    let mut start = 0;
    for &end in ends {
        out.extend_from_slice(&separators[start + prefix..end as usize]);
        start = end as usize;
    }
    if has_lists {
        encode_lists(lists, out);
    }
    if has_keys {
        encode_keys(keys, out);
    }
}

/// Appends the lists of allocation units that contain each child's separate values.
fn encode_lists(lists: &[ValueUnits], out: &mut Vec<u8>) {
    for units in lists {
        ByteWriter::new(out).u16(units.records);
    }
    for units in lists {
        ByteWriter::new(out).u16(units.list().len() as u16);
    }
    for listed in lists.iter().flat_map(ValueUnits::list) {
        ByteWriter::new(out)
            .u8(listed.tier)
            .u32(listed.unit)
            .u32(listed.live);
    }
}

/// Appends the first and last keys of each leaf.
#[allow(
    clippy::indexing_slicing,
    reason = "ends of keys rise to their length, and each key begins with the prefix"
)]
fn encode_keys(keys: &LeafKeyList, out: &mut Vec<u8>) {
    let size = keys.size();
    ByteWriter::new(out)
        .u32(size.prefix as u32)
        .bytes(&keys.bytes[..size.prefix]);
    let (mut start, mut end) = (0, 0);
    let mut rest = Vec::with_capacity(size.rest());
    for &next in &keys.ends {
        end = next as usize;
        // A last key that is equal to the first key is omitted, so it has no prefix to strip.
        if start < end {
            rest.extend_from_slice(&keys.bytes[start + size.prefix..end]);
        }
        start = end;
        format::put(out, rest.len() as u64, size.width());
    }
    debug_assert_eq!(
        (end, rest.len()),
        (keys.bytes.len(), size.rest()),
        "all are there"
    );
    out.extend_from_slice(&rest);
}

/// Finds the leaf keys, which start at offset `at` of the node. Returns their common prefix, and
/// the table of the keys' remainders. Returns `None` if they extend beyond the node.
fn find_keys(bytes: &[u8], at: usize, children: usize) -> Option<(&[u8], StringTable)> {
    let begin = at + PREFIX_LEN;
    let listed = begin + get(bytes, at, PREFIX_LEN)? as usize;
    let width = usize::from(*bytes.get(KEY_ENDS)?);
    let (ends, count) = (StringEnds::Listed { at: listed, width }, 2 * children);
    let strings = StringTable {
        count,
        at: listed + count * width,
        len: ends.total(bytes, count)?,
        ends,
    };
    (strings.at + strings.len <= bytes.len()).then_some((bytes.get(begin..listed)?, strings))
}

/// Decodes the layout of an index node, and checks that all parts are within the node.
#[inline]
pub(super) fn decode(bytes: &[u8]) -> Result<IndexLayout, MalformedNode> {
    format::expect(bytes, INDEX)?;
    let header: &[u8; HEADER] = bytes
        .first_chunk()
        .ok_or(MalformedNode("an index node's header"))?;
    let (level, children) = (header[1], usize::from(u16_at(header, 2)));
    let widths: [u8; COLUMNS] =
        std::array::from_fn(|column| header.get(8 + column).map_or(u8::MAX, |&width| width));
    let end_width = usize::from(header[80]);
    let lists = header[LISTS];
    let units = u32_at(header, UNITS) as usize;
    let key_ends = header[KEY_ENDS];
    let zero = lists <= 1 && header[KEY_ENDS + 1] == 0 && (lists == 1 || units == 0);
    let packed = widths.iter().all(|&width| width <= 8)
        && (end_width == 2 || end_width == 4)
        && matches!(key_ends, 0 | 2 | 4);
    if level == 0 || children == 0 || !zero || !packed {
        return Err(MalformedNode(
            "a level, children, and integers of at most 8 bytes",
        ));
    }
    // The sums below cannot overflow, because counts have 16 bits and lengths have 32 bits.
    let prefix = HEADER..HEADER + u32_at(header, 4) as usize;
    let ends = StringEnds::Listed {
        at: prefix.end,
        width: end_width,
    };
    let mut at = prefix.end + children * end_width;
    let columns_at = widths.map(|width| {
        let start = at;
        at += children * usize::from(width);
        start
    });
    let checksums_at = at;
    let outside = MalformedNode("an index node inside its node");
    let separators = StringTable {
        count: children,
        at: checksums_at + children * 8,
        len: ends.total(bytes, children).ok_or(outside)?,
        ends,
    };
    let mut end = separators.at + separators.len;
    let lists_at = (lists == 1).then_some(end);
    if lists_at.is_some() {
        end += children * COUNTS + units * UNIT_LISTED;
    }
    if end > bytes.len() {
        return Err(outside);
    }
    let keys_at = (key_ends > 0).then_some(end);
    if keys_at.is_some_and(|at| find_keys(bytes, at, children).is_none()) {
        return Err(outside);
    }
    Ok(IndexLayout {
        level,
        children,
        prefix,
        widths,
        columns_at,
        checksums_at,
        separators,
        lists_at,
        keys_at,
    })
}

/// Returns the number of allocation units listed for a child, or `None` if it is outside of the
/// node. `at` is the offset of the lists.
fn count_at(bytes: &[u8], at: usize, children: usize, child: usize) -> Option<usize> {
    get(bytes, at + 2 * (children + child), 2).map(|count| count as usize)
}

impl IndexLayout {
    /// Returns the number in the given column for a child.
    #[inline]
    #[allow(clippy::indexing_slicing, reason = "a column is one of the constants")]
    pub(super) fn number(&self, bytes: &[u8], column: usize, child: usize) -> Result<u64, MalformedNode> {
        let width = usize::from(self.widths[column]);
        let above = get(bytes, self.columns_at[column] + child * width, width);
        let base = get(bytes, BASES + 8 * column, 8);
        let number = base.zip(above).and_then(|(base, above)| base.checked_add(above));
        number.ok_or(MalformedNode("columns that fit 64 bits"))
    }

    /// Returns whether the previous child has newer records of this child's first key.
    #[inline]
    pub(in crate::run) fn is_begun(&self, bytes: &[u8], child: usize) -> Result<bool, MalformedNode> {
        Ok(self.number(bytes, BEGUN, child)? != 0)
    }

    /// Returns the allocation units that contain a child's separate values, or an empty list if the
    /// node does not list them.
    pub(in crate::run) fn units(&self, bytes: &[u8], child: usize) -> Result<ValueUnits, MalformedNode> {
        let bad = MalformedNode("units that hold values");
        let Some(at) = self.lists_at else {
            return Ok(ValueUnits::default());
        };
        let records = get(bytes, at + 2 * child, 2).ok_or(bad)?;
        let before = (0..child).map(|child| count_at(bytes, at, self.children, child));
        let before = before.sum::<Option<usize>>().ok_or(bad)?;
        let count = count_at(bytes, at, self.children, child).ok_or(bad)?;
        let first = at + self.children * COUNTS + before * UNIT_LISTED;
        let listed = |number: usize| {
            let at = first + number * UNIT_LISTED;
            let unit = get(bytes, at + 1, 4).filter(|unit| *unit < u64::from(MAX_TIER_UNITS))?;
            Some(ValueUnit {
                tier: get(bytes, at, 1)? as u8,
                unit: unit as u32,
                live: get(bytes, at + 5, 4)? as u32,
            })
        };
        let list = (0..count).map(listed).collect::<Option<Vec<ValueUnit>>>();
        Ok(ValueUnits::of(records as u16, list.ok_or(bad)?))
    }

    /// Returns a leaf's first and last keys, or `None` if the node does not store them.
    pub(in crate::run) fn keys(&self, bytes: &[u8], child: usize) -> Result<Option<LeafKeys>, MalformedNode> {
        let Some(at) = self.keys_at else {
            return Ok(None);
        };
        let (prefix, strings) = find_keys(bytes, at, self.children).ok_or(MalformedNode("keys of leaves"))?;
        let whole = |rest: &[u8]| [prefix, rest].concat();
        let first = whole(strings.get(bytes, 2 * child)?);
        let last = match strings.get(bytes, 2 * child + 1)? {
            [] => first.clone(),
            rest => whole(rest),
        };
        if first > last {
            return Err(MalformedNode("a first key that is not above the last"));
        }
        Ok(Some(LeafKeys { first, last }))
    }

    /// Returns the pointer to a child.
    #[inline]
    pub(in crate::run) fn pointer(
        &self,
        bytes: &[u8],
        child: usize,
        page_size: PageSize,
    ) -> Result<NodePointer, MalformedNode> {
        let bad = MalformedNode("pointers to nodes");
        let shape = self.number(bytes, SHAPE, child)?;
        let checksum = get(bytes, self.checksums_at + child * 8, 8).ok_or(bad)?;
        let len = self.number(bytes, LEN, child)?;
        let offset = self.number(bytes, OFFSET, child)?.checked_mul(BLOCK).ok_or(bad)?;
        let pointer = NodePointer {
            offset,
            birth: self.number(bytes, BIRTH, child)?,
            checksum,
            encoded_len: u32::try_from(len).map_err(|_| bad)?,
            tier: u8::try_from(shape >> 16).map_err(|_| bad)?,
            pages: (shape >> 8) as u8,
            codec: NodeCodec::from_number(shape as u8).ok_or(bad)?,
        };
        let decoded = page_size.node_bytes(pointer.pages) as u64;
        let plausible = match pointer.codec {
            NodeCodec::None => len == decoded && offset.is_multiple_of(page_size.bytes() as u64),
            NodeCodec::Lz4 | NodeCodec::Zstd => len > 0 && len < decoded,
        };
        let inside = offset.checked_add(len.next_multiple_of(BLOCK)).is_some();
        if plausible && inside && (1..=MAX_PAGES).contains(&pointer.pages) {
            Ok(pointer)
        } else {
            Err(bad)
        }
    }
}
