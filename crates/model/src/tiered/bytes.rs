//! Average sizes of runs and maplets on the device, as their formats determine them.
//!
//! A leaf consists of whole pages and contains whole records, so the space at its end stays unused.
//! An index node has as many children as fit into a page. A maplet has 1/0.9 quotients per entry,
//! which is a load factor of nine tenths, and a slot per entry, which stores a remainder and a
//! value.

use super::parameters::{RecordProfile, TreeShape, ValueLengths};

/// Size of the header of a leaf, in bytes.
const LEAF_HEADER: f64 = 28.0;
/// Size in bytes of the record kind, which leaves with deletes store.
const TAG: f64 = 1.0;
/// Size in bytes of a value's end offset.
const END: f64 = 2.0;
/// Size in bytes of a child's entry in an index node, without its separator's suffix.
const CHILD: f64 = 17.0;
/// Size of the header of an index node, in bytes.
const INDEX_HEADER: f64 = 92.0;
/// Average size in bytes of a separator's suffix, which distinguishes two adjacent leaves.
const SEPARATOR: f64 = 4.0;
/// A value longer than a page divided by this number is stored outside of leaves. The leaf then
/// contains a pointer to it.
const SEPARATE: f64 = 4.0;
/// Size in bytes of a pointer to a value outside of leaves.
const POINTER: f64 = 48.0;

/// Size in bytes of the header and the trailing zeros of a maplet page.
const PAGE_HEADER: f64 = 40.0;
/// Number of quotients in a block of a maplet page.
const QUOTIENTS: f64 = 48.0;
/// Size in bytes of a block without its slots.
const BLOCK: f64 = 16.0;
/// Average number of entries per quotient of a maplet.
const LOAD: f64 = 0.9;
/// Size in bytes of a maplet's directory without checksums.
const DIRECTORY: f64 = 92.0;
/// Size of a page's checksum in bytes.
const CHECKSUM: f64 = 8.0;

/// The number of records in a part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RecordAmount {
    pub(super) puts: f64,
    pub(super) deletes: f64,
    /// Number of sequence numbers that a leaf's records span, or 0 if they are not stored.
    pub(super) span: f64,
}

impl RecordAmount {
    pub(super) fn records(&self) -> f64 {
        self.puts + self.deletes
    }
}

/// Computes the sizes of runs and maplets from their formats, for a given tree shape and record
/// sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunFormats {
    shape: TreeShape,
    records: RecordProfile,
}

impl RunFormats {
    pub(super) fn new(shape: TreeShape, records: RecordProfile) -> RunFormats {
        RunFormats { shape, records }
    }

    /// Returns how many bytes of a value are stored in the leaf, and how many outside of it.
    fn value(&self) -> (f64, f64) {
        let value = self.records.value_bytes;
        match value > self.shape.page_bytes as f64 / SEPARATE {
            true => (POINTER, value),
            false => (value, 0.0),
        }
    }

    /// Returns the average size in bytes of a record in the leaves of a run.
    fn record(&self, amount: &RecordAmount) -> f64 {
        let (value, _) = self.value();
        let ends = match self.records.values {
            ValueLengths::Equal if amount.deletes == 0.0 => 0.0,
            _ => END,
        };
        let sequence = ((amount.span + 1.0).log2() / 8.0).ceil().min(8.0);
        let tag = if amount.deletes > 0.0 { TAG } else { 0.0 };
        let puts = amount.puts / amount.records().max(f64::MIN_POSITIVE);
        self.records.key_bytes + ends + sequence + tag + value * puts
    }

    /// Returns the size of a leaf in bytes.
    pub(super) fn leaf(&self) -> f64 {
        let (value, _) = self.value();
        self.shape.leaf_bytes(self.records.key_bytes + value)
    }

    /// Returns the number of leaves that the records need. The last one may be partly filled.
    pub(super) fn leaves(&self, amount: &RecordAmount) -> f64 {
        let records = amount.records();
        if records <= 0.0 {
            return 0.0;
        }
        let (room, mut record) = (self.leaf() - LEAF_HEADER, self.record(amount));
        // All keys of a leaf share a prefix, which is stored only once.
        let leaves = (records * record / room).max(1.0);
        let shared = (leaves.log2() / 8.0).floor().min(self.records.key_bytes);
        record -= shared;
        let in_leaf = ((room - shared) / record).floor();
        // A record longer than a leaf gets leaves of its own.
        if in_leaf >= 1.0 {
            records / in_leaf
        } else {
            records * record / room
        }
    }

    /// Returns the total size in bytes of the values stored outside of leaves.
    pub(super) fn separate(&self, amount: &RecordAmount) -> f64 {
        self.value().1 * amount.puts
    }

    /// Returns the size of a run in bytes: its leaves, values, index nodes, and the footer, which
    /// contains the root of the index.
    pub(super) fn run(&self, amount: &RecordAmount) -> f64 {
        if amount.records() <= 0.0 {
            return 0.0;
        }
        let page = self.shape.page_bytes as f64;
        let leaves = self.leaves(amount).ceil();
        leaves * self.leaf() + self.separate(amount) + self.index_pages(leaves) * page
    }

    /// Returns the number of children of an index node.
    fn children(&self) -> f64 {
        ((self.shape.page_bytes as f64 - INDEX_HEADER) / (CHILD + SEPARATOR)).floor()
    }

    /// Returns the number of index pages for `leaves` leaves, including the root.
    pub(super) fn index_pages(&self, leaves: f64) -> f64 {
        let (mut below, mut pages) = (leaves, 0.0);
        loop {
            below = (below / self.children()).ceil().max(1.0);
            pages += below;
            if below <= 1.0 {
                return pages;
            }
        }
    }

    /// Returns the number of pages of a maplet without its directory, and of the directory.
    pub(super) fn maplet_pages(&self, entries: f64, runs: f64) -> (f64, f64) {
        if entries <= 0.0 {
            return (0.0, 0.0);
        }
        let page = self.shape.page_bytes as f64;
        let wanted = entries / LOAD;
        let value = if runs > 1.0 {
            (runs - 1.0).log2().floor() + 1.0
        } else {
            0.0
        };
        let mut pages = 1.0_f64;
        for remainder in 2..=48 {
            let slot = f64::from(remainder) + value;
            let blocks = ((page - PAGE_HEADER) * 8.0 / (BLOCK * 8.0 + QUOTIENTS * slot)).floor();
            pages = (wanted / (blocks * QUOTIENTS)).ceil().max(1.0);
            let quotient = (pages * blocks * QUOTIENTS).log2().floor();
            if f64::from(self.shape.fingerprint_bits) - quotient <= f64::from(remainder) {
                break;
            }
        }
        let directory = DIRECTORY + 12.0 * runs + CHECKSUM * pages;
        (pages, (directory / page).ceil())
    }

    /// Returns the size of a maplet in bytes.
    pub(super) fn maplet(&self, entries: f64, runs: f64) -> f64 {
        let (pages, directory) = self.maplet_pages(entries, runs);
        (pages + directory) * self.shape.page_bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formats(value_bytes: f64) -> RunFormats {
        let records = RecordProfile {
            key_bytes: 24.0,
            value_bytes,
            values: ValueLengths::Equal,
        };
        RunFormats::new(TreeShape::default(), records)
    }

    #[test]
    fn a_leaf_has_whole_records() {
        let amount = RecordAmount {
            puts: 3200.0,
            deletes: 0.0,
            span: 3200.0,
        };
        // A record has 126 bytes, less the common prefix, so 32 records fit into 4,068 bytes.
        assert_eq!(formats(100.0).leaves(&amount), 100.0);
        let deletes = RecordAmount {
            puts: 0.0,
            deletes: 3200.0,
            span: 3200.0,
        };
        assert!(formats(100.0).leaves(&deletes) < 25.0);
        assert_eq!(formats(100.0).leaves(&RecordAmount::default()), 0.0);
    }

    #[test]
    fn a_maplet_takes_what_its_geometry_says() {
        // The example of `alluvium_filters::FilterGeometry`: a maplet of 2^20 keys, 33 bits and 16
        // runs has less than 23 bits per key.
        let (pages, _) = formats(100.0).maplet_pages(f64::from(1 << 20), 16.0);
        let bits = pages * 4096.0 * 8.0 / f64::from(1 << 20);
        assert!((21.0..23.0).contains(&bits), "{bits}");
        assert_eq!(formats(100.0).maplet(1.0, 1.0), 8192.0);
    }

    #[test]
    fn long_values_lie_outside_of_leaves() {
        let amount = RecordAmount {
            puts: 100.0,
            deletes: 0.0,
            span: 100.0,
        };
        let formats = formats(5000.0);
        assert_eq!(formats.separate(&amount), 500_000.0);
        assert!(formats.run(&amount) < 520_000.0);
    }
}
