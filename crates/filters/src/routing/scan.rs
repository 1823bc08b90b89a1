//! Reads a complete routing list from beginning to end.

use super::format::{OFFSET_BYTES, get_offset};
use super::list::{RoutingEntry, RoutingGeometry};
use crate::Error;
use crate::golomb::{BitReader, ByteSource, DeltaCoder};

/// Iterator over all entries of a list, in order, which also reads the table and checks it against
/// the list.
#[derive(Debug)]
pub struct RoutingScan<L, T> {
    geometry: RoutingGeometry,
    list: BitReader<L>,
    table: T,
    read: u64,
    /// `pivot` is the pivot whose entries are being read, and `end` is the bit offset where they
    /// end.
    pivot: u64,
    end: Option<u64>,
    delta: DeltaCoder,
    list_bits: u64,
}

impl<L: ByteSource, T: ByteSource<Error = L::Error>> RoutingScan<L, T> {
    /// Starts at the first entry of the list.
    #[must_use]
    pub fn new(geometry: RoutingGeometry, list_bits: u64, list: L, table: T) -> RoutingScan<L, T> {
        let delta = geometry.restart(0);
        RoutingScan {
            geometry,
            list: BitReader::new(list),
            table,
            read: 0,
            pivot: 0,
            end: None,
            delta,
            list_bits,
        }
    }

    /// Returns the next entry, or `None` after the last one.
    ///
    /// # Errors
    /// If the bytes cannot be read, or if they are not a valid list.
    #[allow(clippy::should_implement_trait)] // It can fail, so it is no iterator.
    pub fn next(&mut self) -> Result<Option<RoutingEntry>, L::Error> {
        if self.read == self.geometry.entries() {
            return self.ended();
        }
        let mut end = match self.end {
            Some(end) => end,
            None => {
                let first = self.offset(0)?;
                if first != 0 {
                    return Err(damaged(0, "first pivot", "bit 0", first));
                }
                self.offset(0)?
            }
        };
        while self.list.position() >= end {
            if self.pivot + 1 == 1 << self.geometry.pivot_bits() || self.list.position() > end {
                return Err(damaged(
                    end,
                    "end of a pivot's entries",
                    "where an entry ends",
                    self.list.position(),
                ));
            }
            self.pivot += 1;
            self.delta = self.geometry.restart(self.pivot);
            end = self.offset(end)?;
        }
        self.end = Some(end);
        let prefix = self
            .delta
            .read(&mut self.list, self.geometry.last_of(self.pivot))?;
        let payload = self.list.get(self.geometry.payload_bits())? as u32;
        self.read += 1;
        Ok(Some(RoutingEntry { prefix, payload }))
    }

    fn ended(&mut self) -> Result<Option<RoutingEntry>, L::Error> {
        if self.list.position() != self.list_bits {
            return Err(damaged(
                self.list_bits,
                "end of a routing list",
                "after its last entry",
                self.list.position(),
            ));
        }
        Ok(None)
    }

    /// Reads the next table record. Returns an error if its offset is less than `from`.
    fn offset(&mut self, from: u64) -> Result<u64, L::Error> {
        let mut bytes = [0; OFFSET_BYTES as usize];
        for byte in &mut bytes {
            *byte = match self.table.byte()? {
                Some(byte) => byte,
                None => return Err(damaged(from, "table of pivots", "a record for each", self.pivot)),
            };
        }
        let offset = get_offset(&bytes).map_err(L::Error::from)?;
        if offset < from || offset > self.list_bits {
            return Err(damaged(from, "pivot", "places in rising order", offset));
        }
        Ok(offset)
    }
}

fn damaged<E: From<Error>>(bit: u64, what: &'static str, expected: &str, found: u64) -> E {
    Error::damaged_bits(bit, what, expected, found.to_string()).into()
}
