//! A routing filter that stores all sketches of each prefix, with a pivot table to locate them.

use super::format::{OFFSET_BYTES, get_offset, put_offset};
use crate::golomb::{BitReader, DeltaCoder, RiceCode, StreamBitWriter};
use crate::{Error, Result};
use std::ops::Range;

/// Parameters of a routing list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingGeometry {
    entries: u64,
    prefix_bits: u32,
    payload_bits: u32,
    pivot_bits: u32,
    rice: RiceCode,
}

/// An entry of a routing list: a prefix with a sketch as its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoutingEntry {
    pub prefix: u64,
    /// The bits of the sketch, as a number.
    pub payload: u32,
}

/// The section of a list with the entries of one pivot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PivotSection {
    pub pivot: u64,
    /// Where the pivot's entries are in the list, in bits.
    pub bits: Range<u64>,
}

impl PivotSection {
    /// Returns the byte range of the list that contains these bits.
    #[must_use]
    pub fn bytes(&self) -> Range<u64> {
        self.bits.start / 8..self.bits.end.div_ceil(8)
    }
}

impl RoutingGeometry {
    /// Creates the parameters of a list of `entries` entries, with about `group` entries (log_λ N)
    /// per pivot.
    ///
    /// # Errors
    /// [`Error::Shape`] if a prefix does not have 1 to 63 bits, or if a payload has more than 32
    /// bits.
    pub fn new(entries: u64, prefix_bits: u32, payload_bits: u32, group: u64) -> Result<RoutingGeometry> {
        let pivots = (entries / group.max(1)).max(1).ilog2();
        RoutingGeometry::with_pivots(
            entries,
            prefix_bits,
            payload_bits,
            pivots.min(prefix_bits).min(40),
        )
    }

    pub(super) fn with_pivots(
        entries: u64,
        prefix_bits: u32,
        payload_bits: u32,
        pivot_bits: u32,
    ) -> Result<RoutingGeometry> {
        if !(1..=63).contains(&prefix_bits) || payload_bits > 32 || pivot_bits > prefix_bits.min(40) {
            return Err(Error::shape(
                format!("prefixes of {prefix_bits} bits, pivots of {pivot_bits}, payloads of {payload_bits}"),
                "prefixes of 1 to 63 bits, pivots of at most 40, payloads of at most 32",
            ));
        }
        if entries >> 40 != 0 || 1 << pivot_bits > entries.max(1) {
            return Err(Error::shape(
                format!("{entries} entries with 2^{pivot_bits} pivots"),
                "at most 2^40 entries, and no more pivots",
            ));
        }
        let rice = RiceCode::new(entries, prefix_bits);
        Ok(RoutingGeometry {
            entries,
            prefix_bits,
            payload_bits,
            pivot_bits,
            rice,
        })
    }

    /// Returns the number of entries in the list.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the length of a prefix, in bits.
    #[must_use]
    pub fn prefix_bits(&self) -> u32 {
        self.prefix_bits
    }

    /// Returns the length of a payload, in bits.
    #[must_use]
    pub fn payload_bits(&self) -> u32 {
        self.payload_bits
    }

    /// Returns the length of a pivot, in bits. A pivot is the first bits of a prefix.
    #[must_use]
    pub fn pivot_bits(&self) -> u32 {
        self.pivot_bits
    }

    /// Returns the size of the pivot table, in bytes.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        ((1 << self.pivot_bits) + 1) * OFFSET_BYTES
    }

    /// Returns the maximum number of bits that the entries take up.
    #[must_use]
    pub fn worst_bits(&self) -> u64 {
        self.rice.worst_bits(self.entries, self.payload_bits)
    }

    /// Returns the byte range of the table that locates the entries of a prefix.
    #[must_use]
    pub fn table_place(&self, prefix: u64) -> Range<u64> {
        let first = self.pivot(prefix) * OFFSET_BYTES;
        first..first + 2 * OFFSET_BYTES
    }

    /// Returns the section of the list with the entries of a prefix. `bytes` are those at
    /// [`RoutingGeometry::table_place`], and `list_bits` is the length of the list in bits.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bytes are not two ascending positions in a list of `list_bits`
    /// bits.
    pub fn part(&self, bytes: &[u8], prefix: u64, list_bits: u64) -> Result<PivotSection> {
        let (first, second) = bytes
            .split_at_checked(OFFSET_BYTES as usize)
            .unwrap_or((bytes, &[]));
        let bits = get_offset(first)?..get_offset(second)?;
        if bits.start > bits.end || bits.end > list_bits {
            let expected = format!("a range of the list's {list_bits} bits");
            return Err(Error::damaged_bits(0, "pivot", expected, format!("{bits:?}")));
        }
        Ok(PivotSection {
            pivot: self.pivot(prefix),
            bits,
        })
    }

    /// Returns the payloads of a prefix, in list order. `bytes` are those at
    /// [`PivotSection::bytes`].
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bytes are not the entries of the section.
    pub fn payloads(&self, part: &PivotSection, bytes: &[u8], prefix: u64) -> Result<Vec<u32>> {
        let mut bits = BitReader::new(bytes);
        let skipped = part.bits.start % 8;
        bits.get(skipped as u32)?;
        let length = part.bits.end - part.bits.start;
        let (mut delta, most) = (self.restart(part.pivot), self.last_of(part.pivot));
        let mut found = Vec::new();
        while bits.position() - skipped < length {
            let at = delta.read(&mut bits, most)?;
            let payload = bits.get(self.payload_bits)? as u32;
            if at == prefix {
                found.push(payload);
            } else if at > prefix {
                break;
            }
        }
        Ok(found)
    }

    pub(super) fn pivot(&self, prefix: u64) -> u64 {
        prefix >> (self.prefix_bits - self.pivot_bits)
    }

    /// Returns the state for decoding the first entry of a pivot.
    pub(super) fn restart(&self, pivot: u64) -> DeltaCoder {
        DeltaCoder::new(self.rice, pivot << (self.prefix_bits - self.pivot_bits))
    }

    /// Returns the greatest prefix that a pivot covers.
    pub(super) fn last_of(&self, pivot: u64) -> u64 {
        let rest = self.prefix_bits - self.pivot_bits;
        pivot << rest | ((1 << rest) - 1)
    }
}

/// Writes a routing list and its pivot table in one pass.
///
/// ```
/// use alluvium_filters::routing::{RoutingListBuilder, RoutingEntry, RoutingGeometry};
/// let geometry = RoutingGeometry::new(3, 8, 4, 2).unwrap();
/// let mut builder = RoutingListBuilder::new(geometry);
/// for (prefix, payload) in [(7, 1), (7, 2), (200, 3)] {
///     builder.push(RoutingEntry { prefix, payload });
/// }
/// let (bits, list, table) = builder.finish();
/// let place = geometry.table_place(7);
/// let part = geometry.part(&table[place.start as usize..place.end as usize], 7, bits).unwrap();
/// let bytes = part.bytes();
/// let bytes = &list[bytes.start as usize..bytes.end as usize];
/// assert_eq!(geometry.payloads(&part, bytes, 7).unwrap(), [1, 2]);
/// ```
#[derive(Debug)]
pub struct RoutingListBuilder {
    geometry: RoutingGeometry,
    list: StreamBitWriter,
    table: Vec<u8>,
    next_pivot: u64,
    delta: DeltaCoder,
    pushed: u64,
}

impl RoutingListBuilder {
    #[must_use]
    pub fn new(geometry: RoutingGeometry) -> RoutingListBuilder {
        let delta = geometry.restart(0);
        RoutingListBuilder {
            geometry,
            list: StreamBitWriter::new(),
            table: Vec::new(),
            next_pivot: 0,
            delta,
            pushed: 0,
        }
    }

    /// Appends an entry, whose prefix must not be less than the previous one.
    ///
    /// # Panics
    /// If the prefix is less than the previous one, if the prefix or the payload has too many bits,
    /// or if there are more entries than in the geometry.
    pub fn push(&mut self, entry: RoutingEntry) {
        assert!(
            entry.prefix >> self.geometry.prefix_bits == 0,
            "a prefix of the list"
        );
        assert!(
            u64::from(entry.payload) >> self.geometry.payload_bits == 0,
            "a payload of the list"
        );
        let pivot = self.geometry.pivot(entry.prefix);
        while self.next_pivot <= pivot {
            put_offset(&mut self.table, self.list.bits());
            self.delta = self.geometry.restart(self.next_pivot);
            self.next_pivot += 1;
        }
        self.delta.write(&mut self.list, entry.prefix);
        self.list
            .put(u64::from(entry.payload), self.geometry.payload_bits);
        self.pushed += 1;
    }

    /// Removes and returns the complete bytes of the list.
    pub fn take_list(&mut self) -> Vec<u8> {
        self.list.take()
    }

    /// Returns the number of complete bytes of the list that have not been taken yet.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.list.ready()
    }

    /// Removes and returns the bytes of the table.
    pub fn take_table(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.table)
    }

    /// Completes the list and the table. Returns the length of the list in bits, and the remaining
    /// bytes of the list and of the table.
    ///
    /// # Panics
    /// If the number of entries differs from that of the geometry.
    #[must_use]
    pub fn finish(mut self) -> (u64, Vec<u8>, Vec<u8>) {
        assert_eq!(
            self.pushed, self.geometry.entries,
            "a list has the entries of its geometry"
        );
        while self.next_pivot <= 1 << self.geometry.pivot_bits {
            put_offset(&mut self.table, self.list.bits());
            self.next_pivot += 1;
        }
        let bits = self.list.bits();
        (bits, self.list.finish(), self.table)
    }
}
