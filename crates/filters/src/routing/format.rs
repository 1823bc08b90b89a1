//! Encoding of the geometry and the pivot table of a routing list, version 1. All integers are
//! little-endian.
//!
//! A geometry is encoded as follows:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  version, 1
//!      1     1  bits of a prefix, 1 to 63
//!      2     1  bits of a pivot: the first of the prefix's, at most 40
//!      3     1  bits of an entry's payload, at most 32
//!      4     4  zero
//!      8     8  how many entries
//!     16     8  how many bits the entries take
//! ```
//!
//! A table has one record for each pivot, and another one for the end of the list:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     6  the bit at which the pivot's entries begin
//! ```
//!
//! Entries are encoded as in `golomb/format.rs`, except that the first difference of a pivot is
//! relative to the smallest prefix that the pivot covers. The entries of a pivot can therefore be
//! decoded without those before them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::list::RoutingGeometry;
use crate::{Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter};

const VERSION: u8 = 1;

/// Length of a table record, in bytes.
pub(super) const OFFSET_BYTES: u64 = 6;

/// Appends a record to the table. `bit` is the bit offset of a pivot's entries.
pub(super) fn put_offset(out: &mut Vec<u8>, bit: u64) {
    ByteWriter::new(out).u32(bit as u32).u16((bit >> 32) as u16);
}

/// Reads a table record and returns the bit offset of the pivot's entries.
pub(super) fn get_offset(bytes: &[u8]) -> Result<u64> {
    let mut reader = ByteReader::new(bytes);
    Ok(u64::from(reader.u32()?) | u64::from(reader.u16()?) << 32)
}

impl RoutingGeometry {
    /// Length of an encoded geometry, in bytes.
    pub const BYTES: usize = 24;

    /// Encodes the geometry, and the number of bits in the complete list.
    #[must_use]
    pub fn encode(&self, list_bits: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        ByteWriter::new(&mut bytes)
            .u8(VERSION)
            .u8(self.prefix_bits() as u8)
            .u8(self.pivot_bits() as u8)
            .u8(self.payload_bits() as u8)
            .u32(0)
            .u64(self.entries())
            .u64(list_bits);
        bytes
    }

    /// Decodes a geometry, and the number of bits in its list.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bytes are not a valid geometry.
    pub fn decode(bytes: &[u8]) -> Result<(RoutingGeometry, u64)> {
        let mut reader = ByteReader::new(bytes);
        let [version, prefix, pivot, payload] = [reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?];
        let (zero, entries, bits) = (reader.u32()?, reader.u64()?, reader.u64()?);
        if version != VERSION || zero != 0 || reader.remaining() > 0 {
            return Err(Error::damaged_bits(
                0,
                "version of a routing list",
                "1, and 24 bytes",
                version.to_string(),
            ));
        }
        let geometry =
            RoutingGeometry::with_pivots(entries, u32::from(prefix), u32::from(payload), u32::from(pivot))
                .map_err(|error| {
                    Error::damaged_bits(0, "geometry of a routing list", "a valid one", error.to_string())
                })?;
        if bits > geometry.worst_bits() {
            let expected = format!("at most {}", geometry.worst_bits());
            return Err(Error::damaged_bits(
                16 * 8,
                "bits of a routing list",
                expected,
                bits.to_string(),
            ));
        }
        Ok((geometry, bits))
    }
}
