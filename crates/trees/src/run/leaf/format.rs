//! The encoding of a leaf, version 1. All integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE   MEANING
//!      0     1   1
//!      1     1   flags: 1 all keys are equally long
//!                       2 all values are equally long
//!                       4 some key has several records here
//!                       8 the first key has newer records in the leaf before
//!                      16 the last key has older records in the leaf behind
//!                      32 not every record is a put with its value here
//!                      64 some record expires
//!      2     2   records
//!      4     2   keys
//!      6     1   s: bytes of a packed sequence number
//!      7     1   e: bytes of an end, 2 or 4
//!      8     8   the lowest sequence number
//!     16     4   p: bytes that all keys begin with
//!     20     4   length of what follows in each key, if equal, else 0
//!     24     4   length of each value, if equal, else 0
//!     28     9   with flag 64 only: the earliest expiry, in milliseconds (8); x: bytes of a packed
//!                expiry (1)
//!                p bytes: what all keys begin with
//!                s × records: sequence numbers, less the lowest
//!                1 × records, with flag 32: bits 0 and 1 the kind (0 put, 1 delete, 2 merge,
//!                  3 timed delete); bit 2: a
//!                pointer stands for the value
//!                x × records, with flag 64: 0 for never, else 1 more than what the expiry exceeds the
//!                earliest by
//!                e × keys, without flag 1: where each key ends
//!                e × records, without flag 2: where each value ends
//!                2 × keys, with flag 4: the number of each key's first record
//!                the keys, without what all begin with
//!                the values, or pointers to them, in the order of their records
//!                zeros
//! ```
//!
//! Keys ascend, and the records of a key are ordered from newest to oldest.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{LeafLayout, LeafRecordParts, ValueStorage};
use crate::run::MalformedNode;
use crate::run::format::{self, LEAF, get, u16_at, u32_at, u64_at};
use crate::run::strings::{StringEnds, StringTable};
use alluvium_base::bytes::ByteWriter;
use alluvium_base::{MessageKind, SequenceNumber};

/// Number of header bytes before the common prefix of the keys.
pub(super) const HEADER: usize = 28;
/// Number of additional header bytes in a leaf with records that expire.
pub(super) const EXPIRY_HEADER: usize = 9;

const EQUAL_KEYS: u8 = 1;
const EQUAL_VALUES: u8 = 2;
const SEVERAL: u8 = 4;
const BEGUN: u8 = 8;
const GOES_ON: u8 = 16;
const TAGGED: u8 = 32;
const EXPIRES: u8 = 64;

/// The contents of a leaf to encode. The keys are concatenated and come with the end of each, and
/// so do the values.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeafContent<'a> {
    pub(super) keys: &'a [u8],
    pub(super) key_ends: &'a [u32],
    pub(super) values: &'a [u8],
    pub(super) value_ends: &'a [u32],
    pub(super) sequences: &'a [SequenceNumber],
    pub(super) tags: &'a [u8],
    pub(super) expiries: &'a [u64],
    pub(super) starts: &'a [u16],
    pub(super) measure: LeafMeasure,
    pub(super) begun: bool,
    pub(super) goes_on: bool,
}

/// The measures that determine the encoded size of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LeafMeasure {
    pub(super) records: usize,
    pub(super) keys: usize,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    pub(super) prefix: usize,
    /// The length in bytes of each key, while all keys have the same length.
    pub(super) key_len: Option<usize>,
    /// The length in bytes of each value, while all values have the same length.
    pub(super) value_len: Option<usize>,
    pub(super) lowest: SequenceNumber,
    pub(super) highest: SequenceNumber,
    pub(super) tagged: bool,
    /// The earliest and latest expiry in milliseconds, or `None` if no record expires.
    pub(super) expiry: Option<(u64, u64)>,
}

impl LeafMeasure {
    fn suffix_bytes(&self) -> usize {
        self.key_bytes - self.keys * self.prefix
    }

    fn end_width(&self) -> usize {
        if self.suffix_bytes().max(self.value_bytes) <= usize::from(u16::MAX) {
            2
        } else {
            4
        }
    }

    fn sequence_width(&self) -> usize {
        format::width(self.highest - self.lowest)
    }

    fn expiry_width(&self) -> usize {
        self.expiry
            .map_or(0, |(earliest, latest)| format::width(latest - earliest + 1))
    }

    /// Returns the encoded size of the leaf in bytes.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let (records, keys) = (self.records, self.keys);
        let mut bytes = HEADER + self.prefix + records * self.sequence_width();
        if self.tagged {
            bytes += records;
        }
        if self.expiry.is_some() {
            bytes += EXPIRY_HEADER + records * self.expiry_width();
        }
        if self.key_len.is_none() {
            bytes += keys * self.end_width();
        }
        if self.value_len.is_none() {
            bytes += records * self.end_width();
        }
        if records > keys {
            bytes += 2 * keys;
        }
        bytes + self.suffix_bytes() + self.value_bytes
    }
}

/// Returns the tag byte of a record, which encodes its kind and whether its value is stored outside
/// of the leaf.
pub(super) fn tag(kind: MessageKind, separate: bool) -> u8 {
    kind as u8 | u8::from(separate) << 2
}

#[allow(
    clippy::indexing_slicing,
    reason = "ends of keys rise to their length, and each begins with the prefix"
)]
pub(super) fn encode(content: &LeafContent<'_>, out: &mut Vec<u8>) {
    let measure = &content.measure;
    let (prefix, end_width) = (measure.prefix, measure.end_width());
    let (sequence_width, expiry_width) = (measure.sequence_width(), measure.expiry_width());
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let several = measure.records > measure.keys;
    let flags = flag(measure.key_len.is_some(), EQUAL_KEYS)
        | flag(measure.value_len.is_some(), EQUAL_VALUES)
        | flag(several, SEVERAL)
        | flag(content.begun, BEGUN)
        | flag(content.goes_on, GOES_ON)
        | flag(measure.tagged, TAGGED)
        | flag(measure.expiry.is_some(), EXPIRES);
    ByteWriter::new(out)
        .u8(LEAF)
        .u8(flags)
        .u16(measure.records as u16)
        .u16(measure.keys as u16)
        .u8(sequence_width as u8)
        .u8(end_width as u8)
        .u64(measure.lowest)
        .u32(prefix as u32)
        .u32(measure.key_len.map_or(0, |len| len - prefix) as u32)
        .u32(measure.value_len.unwrap_or(0) as u32);
    if let Some((earliest, _)) = measure.expiry {
        ByteWriter::new(out).u64(earliest).u8(expiry_width as u8);
    }
    out.extend_from_slice(&content.keys[..prefix]);
    for sequence in content.sequences {
        format::put(out, sequence - measure.lowest, sequence_width);
    }
    if measure.tagged {
        out.extend_from_slice(content.tags);
    }
    if let Some((earliest, _)) = measure.expiry {
        for &expiry in content.expiries {
            let packed = if expiry == 0 { 0 } else { expiry - earliest + 1 };
            format::put(out, packed, expiry_width);
        }
    }
    if measure.key_len.is_none() {
        for (index, &end) in content.key_ends.iter().enumerate() {
            format::put(out, u64::from(end) - ((index + 1) * prefix) as u64, end_width);
        }
    }
    if measure.value_len.is_none() {
        for &end in content.value_ends {
            format::put(out, u64::from(end), end_width);
        }
    }
    if several {
        for &start in content.starts {
            ByteWriter::new(out).u16(start);
        }
    }
    let mut start = 0;
    for &end in content.key_ends {
        out.extend_from_slice(&content.keys[start + prefix..end as usize]);
        start = end as usize;
    }
    out.extend_from_slice(content.values);
}

/// Decodes the layout of a leaf, and checks that all parts are within the leaf.
#[inline]
pub(super) fn decode(bytes: &[u8]) -> Result<LeafLayout, MalformedNode> {
    format::expect(bytes, LEAF)?;
    let header: &[u8; HEADER] = bytes.first_chunk().ok_or(MalformedNode("a leaf's header"))?;
    let flags = header[1];
    let (records, keys) = (usize::from(u16_at(header, 2)), usize::from(u16_at(header, 4)));
    let (sequence_width, end_width) = (usize::from(header[6]), usize::from(header[7]));
    let (earliest, expiry_width, mut at) =
        expiry_header(bytes, flags).ok_or(MalformedNode("a leaf's header"))?;
    if sequence_width > 8 || expiry_width > 8 || (end_width != 2 && end_width != 4) {
        return Err(MalformedNode(
            "packed integers of at most 8 bytes, ends of 2 or 4",
        ));
    }
    let several = flags & SEVERAL != 0;
    if keys == 0 || keys > records || several != (keys < records) {
        return Err(MalformedNode("as many records as keys, or more"));
    }
    // The sums below cannot overflow, because counts have 16 bits and lengths have 32 bits.
    let mut take = |len: usize| {
        let start = at;
        at += len;
        start
    };
    let prefix_len = u32_at(header, 16) as usize;
    let prefix_at = take(prefix_len);
    let sequences_at = take(records * sequence_width);
    let tagged = flags & TAGGED != 0;
    let tags_at = take(if tagged { records } else { 0 });
    let expiries_at = take(records * expiry_width);
    let mut ends = |equal: u8, len_at: usize, count: usize| {
        if flags & equal != 0 {
            StringEnds::Equal(u32_at(header, len_at) as usize)
        } else {
            let (at, width) = (take(count * end_width), end_width);
            StringEnds::Listed { at, width }
        }
    };
    let (key_ends, value_ends) = (ends(EQUAL_KEYS, 20, keys), ends(EQUAL_VALUES, 24, records));
    let starts_at = take(if several { 2 * keys } else { 0 });
    let mut strings = |ends: StringEnds, count: usize| {
        let len = ends.total(bytes, count)?;
        let at = take(len);
        Some(StringTable { count, at, len, ends })
    };
    let outside = MalformedNode("a leaf inside its node");
    let suffixes = strings(key_ends, keys).ok_or(outside)?;
    let values = strings(value_ends, records).ok_or(outside)?;
    if at > bytes.len() {
        return Err(outside);
    }
    Ok(LeafLayout {
        records,
        keys,
        begun: flags & BEGUN != 0,
        goes_on: flags & GOES_ON != 0,
        tagged,
        expires: flags & EXPIRES != 0,
        several,
        sequence_width,
        expiry_width,
        lowest: u64_at(header, 8),
        earliest,
        prefix: prefix_at..prefix_at + prefix_len,
        sequences_at,
        tags_at,
        expiries_at,
        starts_at,
        suffixes,
        values,
    })
}

/// Decodes the optional header part that describes expiries. Returns the earliest expiry in
/// milliseconds, the number of bytes of a packed expiry, and the offset of the end of the header.
#[inline]
fn expiry_header(bytes: &[u8], flags: u8) -> Option<(u64, usize, usize)> {
    if flags & EXPIRES == 0 {
        return Some((0, 0, HEADER));
    }
    let more: &[u8; EXPIRY_HEADER] = bytes.get(HEADER..)?.first_chunk()?;
    Some((u64_at(more, 0), usize::from(more[8]), HEADER + EXPIRY_HEADER))
}

impl LeafLayout {
    /// Returns the index of a key's first record.
    #[inline]
    pub(in crate::run) fn start(&self, bytes: &[u8], key: usize) -> Result<usize, MalformedNode> {
        if !self.several {
            return Ok(key);
        }
        if key == self.keys {
            return Ok(self.records);
        }
        match get(bytes, self.starts_at + 2 * key, 2) {
            Some(start) if (start as usize) < self.records => Ok(start as usize),
            _ => Err(MalformedNode("a key's first record among its leaf's")),
        }
    }

    /// Returns the sequence number of a record.
    #[inline]
    pub(in crate::run) fn sequence(
        &self,
        bytes: &[u8],
        record: usize,
    ) -> Result<SequenceNumber, MalformedNode> {
        let width = self.sequence_width;
        let above =
            get(bytes, self.sequences_at + record * width, width).ok_or(MalformedNode("sequence numbers"))?;
        self.lowest
            .checked_add(above)
            .ok_or(MalformedNode("sequence numbers"))
    }

    /// Decodes a record. The result has the position of the record's value in the leaf instead of
    /// the value itself.
    #[inline]
    pub(in crate::run) fn parts(
        &self,
        bytes: &[u8],
        record: usize,
    ) -> Result<LeafRecordParts, MalformedNode> {
        let sequence = self.sequence(bytes, record)?;
        let (mut kind, mut placement) = (MessageKind::Put, ValueStorage::Inline);
        if self.tagged {
            let tag = *bytes
                .get(self.tags_at + record)
                .ok_or(MalformedNode("what a record is"))?;
            kind = MessageKind::try_from(tag & 3).map_err(|_| MalformedNode("the kind of a record"))?;
            match tag >> 2 {
                0 => {}
                1 => placement = ValueStorage::Separate,
                _ => return Err(MalformedNode("where a value is")),
            }
        }
        let mut expires_ms = 0;
        if self.expires {
            let width = self.expiry_width;
            let packed =
                get(bytes, self.expiries_at + record * width, width).ok_or(MalformedNode("expiries"))?;
            if let Some(later) = packed.checked_sub(1) {
                expires_ms = self
                    .earliest
                    .checked_add(later)
                    .ok_or(MalformedNode("expiries"))?;
            }
        }
        let (start, end) = self
            .values
            .range(bytes, record)
            .ok_or(MalformedNode("values in a row"))?;
        let value = start..end;
        Ok(LeafRecordParts {
            sequence,
            kind,
            expires_ms,
            placement,
            value,
        })
    }
}
