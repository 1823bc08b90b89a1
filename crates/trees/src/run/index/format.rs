//! The bytes of an index node, version 1. All integers little-endian.
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
//!     81      7   zero
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
//!                     zeros
//! ```
//!
//! A separator is at or below every key of its child, and above those of the child before; it is equal to that child's last key where
//! column 7 is 1.

use super::{Child, Layout};
use crate::run::Bad;
use crate::run::format::{self, INDEX, get};
use alluvium_base::bytes::{Reader, Writer};
use alluvium_device::BLOCK;
use alluvium_storage::node::MAX_PAGES;
use alluvium_storage::{Codec, NodePointer, PageSize};

/// Bytes before what all separators begin with.
pub(super) const HEADER: usize = 88;
/// How many columns there are.
pub(super) const COLUMNS: usize = 8;

const OFFSET: usize = 0;
const LEN: usize = 1;
const SHAPE: usize = 2;
const BIRTH: usize = 3;
pub(super) const BYTES: usize = 4;
pub(super) const RECORDS: usize = 5;
pub(super) const TOMBSTONES: usize = 6;
const BEGUN: usize = 7;

/// A child's numbers, column by column.
pub(super) fn columns(child: &Child) -> [u64; COLUMNS] {
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

/// How many bytes an index node has.
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

/// Appends an index node: separators as a concatenation with their ends, and their children.
pub(super) fn encode(
    level: u8,
    separators: &[u8],
    ends: &[u32],
    prefix: usize,
    children: &[Child],
    range: &[(u64, u64); COLUMNS],
    out: &mut Vec<u8>,
) {
    let rest = separators.len() - children.len() * prefix;
    let widths = range.map(|(low, high)| format::width(high - low));
    let end_width = end_width(rest);
    Writer::new(out)
        .u8(INDEX)
        .u8(level)
        .u16(children.len() as u16)
        .u32(prefix as u32)
        .bytes(&widths.map(|width| width as u8));
    for (base, _) in range {
        Writer::new(out).u64(*base);
    }
    Writer::new(out).u8(end_width as u8).bytes(&[0; 7]);
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
        Writer::new(out).u64(child.pointer.checksum);
    }
    let mut start = 0;
    for &end in ends {
        out.extend_from_slice(&separators[start + prefix..end as usize]);
        start = end as usize;
    }
}

/// Reads where everything is in an index node, and checks that it is inside.
pub(super) fn decode(bytes: &[u8]) -> Result<Layout, Bad> {
    format::expect(bytes, INDEX)?;
    let mut reader = Reader::new(bytes);
    let mut read = || -> Result<_, alluvium_base::bytes::Truncated> {
        let (_kind, level, children, prefix) = (reader.u8()?, reader.u8()?, reader.u16()?, reader.u32()?);
        let mut widths = [0; COLUMNS];
        widths.copy_from_slice(reader.take(COLUMNS)?);
        let mut bases = [0; COLUMNS];
        for base in &mut bases {
            *base = reader.u64()?;
        }
        let end_width = reader.u8()?;
        let zero = reader.take(7)? == [0; 7];
        Ok((level, children, prefix, widths, bases, end_width, zero))
    };
    let (level, children, prefix, widths, bases, end_width, zero) =
        read().map_err(|_| Bad("an index node's header"))?;
    let sound = level > 0 && children > 0 && zero && [2, 4].contains(&end_width);
    if !sound || widths.iter().any(|&width| width > 8) {
        return Err(Bad("a level, children, and integers of at most 8 bytes"));
    }
    let mut layout = Layout {
        level,
        children: usize::from(children),
        prefix: HEADER..HEADER,
        end_width: usize::from(end_width),
        ends_at: 0,
        widths: widths.map(usize::from),
        bases,
        columns_at: [0; COLUMNS],
        checksums_at: 0,
        separators: 0..0,
    };
    layout
        .place(bytes, prefix as usize)
        .ok_or(Bad("an index node inside its node"))?;
    Ok(layout)
}

impl Layout {
    fn place(&mut self, bytes: &[u8], prefix: usize) -> Option<()> {
        let count = self.children;
        let mut at = HEADER;
        let mut take = |len: usize| -> Option<usize> {
            let start = at;
            at = at.checked_add(len).filter(|&end| end <= bytes.len())?;
            Some(start)
        };
        let start = take(prefix)?;
        self.prefix = start..start + prefix;
        self.ends_at = take(count * self.end_width)?;
        for (column, width) in self.widths.into_iter().enumerate() {
            self.columns_at[column] = take(count * width)?;
        }
        self.checksums_at = take(count * 8)?;
        let len = get(bytes, self.ends_at + (count - 1) * self.end_width, self.end_width)? as usize;
        let start = take(len)?;
        self.separators = start..start + len;
        Some(())
    }

    /// A separator, without what all begin with.
    #[inline]
    pub(super) fn suffix<'a>(&self, bytes: &'a [u8], child: usize) -> Result<&'a [u8], Bad> {
        let bad = Bad("separators in a row");
        let end = |child: usize| get(bytes, self.ends_at + child * self.end_width, self.end_width);
        let start = child.checked_sub(1).map_or(Some(0), end).ok_or(bad)?;
        let end = end(child).ok_or(bad)?;
        let separators = bytes.get(self.separators.clone()).ok_or(bad)?;
        separators.get(start as usize..end as usize).ok_or(bad)
    }

    /// A number of a child.
    #[inline]
    pub(super) fn number(&self, bytes: &[u8], column: usize, child: usize) -> Result<u64, Bad> {
        let width = self.widths[column];
        let above = get(bytes, self.columns_at[column] + child * width, width);
        let number = above.and_then(|above| self.bases[column].checked_add(above));
        number.ok_or(Bad("columns that fit 64 bits"))
    }

    /// Whether a child's first key has newer records in the child before.
    #[inline]
    pub(in crate::run) fn is_begun(&self, bytes: &[u8], child: usize) -> Result<bool, Bad> {
        Ok(self.number(bytes, BEGUN, child)? != 0)
    }

    /// The pointer to a child.
    #[inline]
    pub(in crate::run) fn pointer(
        &self,
        bytes: &[u8],
        child: usize,
        page_size: PageSize,
    ) -> Result<NodePointer, Bad> {
        let bad = Bad("pointers to nodes");
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
            codec: Codec::from_number(shape as u8).ok_or(bad)?,
        };
        let decoded = page_size.node_bytes(pointer.pages) as u64;
        let plausible = match pointer.codec {
            Codec::None => len == decoded && offset.is_multiple_of(page_size.bytes() as u64),
            Codec::Lz4 | Codec::Zstd => len > 0 && len < decoded,
        };
        let inside = offset.checked_add(len.next_multiple_of(BLOCK)).is_some();
        if plausible && inside && (1..=MAX_PAGES).contains(&pointer.pages) {
            Ok(pointer)
        } else {
            Err(bad)
        }
    }
}
