//! What runs and maplets take on the device: their formats, as averages.
//!
//! A leaf has whole pages and whole records, so that its end is empty. Each index node names as
//! many children as fit a page. A maplet has a quotient for each entry at a load of nine tenths,
//! and a slot of a remainder and a value for each quotient.

use super::parameters::{Lengths, Records, Shape};

/// Bytes of a leaf before its records.
const LEAF_HEADER: f64 = 28.0;
/// What the kind of a record takes in a leaf with deletes.
const TAG: f64 = 1.0;
/// Where a value ends.
const END: f64 = 2.0;
/// An index node's bytes for a child beside what tells its separator from the one before.
const CHILD: f64 = 17.0;
/// Bytes of an index node before its children.
const INDEX_HEADER: f64 = 92.0;
/// Bytes of a separator, about: as many as tell two leaves apart.
const SEPARATOR: f64 = 4.0;
/// Values longer than this part of a page lie outside of their leaves; a pointer stands for them.
const SEPARATE: f64 = 4.0;
/// Bytes of a pointer to a value.
const POINTER: f64 = 48.0;

/// Bytes of a maplet's page before its blocks, and those that stay zero.
const PAGE_HEADER: f64 = 40.0;
/// Quotients of a block.
const QUOTIENTS: f64 = 48.0;
/// Bytes of a block before its slots.
const BLOCK: f64 = 16.0;
/// The share of quotients that have an entry.
const LOAD: f64 = 0.9;
/// Bytes of a maplet's directory beside its checksums.
const DIRECTORY: f64 = 92.0;
/// Bytes of a page's checksum.
const CHECKSUM: f64 = 8.0;

/// What a stretch of records takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amount {
    /// Puts.
    pub(super) puts: f64,
    /// Deletes.
    pub(super) deletes: f64,
    /// Sequence numbers that a leaf's records span; 0 where they are not stored.
    pub(super) span: f64,
}

impl Amount {
    pub(super) fn records(&self) -> f64 {
        self.puts + self.deletes
    }
}

/// The formats with the sizes of one tree's records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Formats {
    shape: Shape,
    records: Records,
}

impl Formats {
    pub(super) fn new(shape: Shape, records: Records) -> Formats {
        Formats { shape, records }
    }

    /// Returns the bytes of a value that lie in the leaf, and those outside.
    fn value(&self) -> (f64, f64) {
        let value = self.records.value_bytes;
        match value > self.shape.page_bytes as f64 / SEPARATE {
            true => (POINTER, value),
            false => (value, 0.0),
        }
    }

    /// Returns what a record of this kind of run takes in a leaf, on average.
    fn record(&self, amount: &Amount) -> f64 {
        let (value, _) = self.value();
        let ends = match self.records.values {
            Lengths::Equal if amount.deletes == 0.0 => 0.0,
            _ => END,
        };
        let sequence = ((amount.span + 1.0).log2() / 8.0).ceil().min(8.0);
        let tag = if amount.deletes > 0.0 { TAG } else { 0.0 };
        let puts = amount.puts / amount.records().max(f64::MIN_POSITIVE);
        self.records.key_bytes + ends + sequence + tag + value * puts
    }

    /// Returns the bytes of a leaf.
    pub(super) fn leaf(&self) -> f64 {
        let (value, _) = self.value();
        self.shape.leaf_bytes(self.records.key_bytes + value)
    }

    /// Returns how many leaves records fill, the last one perhaps in part.
    pub(super) fn leaves(&self, amount: &Amount) -> f64 {
        let records = amount.records();
        if records <= 0.0 {
            return 0.0;
        }
        let (room, mut record) = (self.leaf() - LEAF_HEADER, self.record(amount));
        // What all keys of a leaf begin with is stored once.
        let leaves = (records * record / room).max(1.0);
        let shared = (leaves.log2() / 8.0).floor().min(self.records.key_bytes);
        record -= shared;
        let in_leaf = ((room - shared) / record).floor();
        // A record longer than a leaf takes leaves of its own.
        if in_leaf >= 1.0 {
            records / in_leaf
        } else {
            records * record / room
        }
    }

    /// Returns what values outside of leaves take.
    pub(super) fn separate(&self, amount: &Amount) -> f64 {
        self.value().1 * amount.puts
    }

    /// Returns the bytes of a run: leaves, values, index, and the footer, which has the index's
    /// root.
    pub(super) fn run(&self, amount: &Amount) -> f64 {
        if amount.records() <= 0.0 {
            return 0.0;
        }
        let page = self.shape.page_bytes as f64;
        let leaves = self.leaves(amount).ceil();
        leaves * self.leaf() + self.separate(amount) + self.index_pages(leaves) * page
    }

    /// Returns how many children an index node has.
    fn children(&self) -> f64 {
        ((self.shape.page_bytes as f64 - INDEX_HEADER) / (CHILD + SEPARATOR)).floor()
    }

    /// Returns the pages of index nodes above a number of leaves, the root included.
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

    /// Returns the pages of a maplet, without its directory, and those of the directory.
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

    /// Returns the bytes of a maplet.
    pub(super) fn maplet(&self, entries: f64, runs: f64) -> f64 {
        let (pages, directory) = self.maplet_pages(entries, runs);
        (pages + directory) * self.shape.page_bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formats(value_bytes: f64) -> Formats {
        let records = Records {
            key_bytes: 24.0,
            value_bytes,
            values: Lengths::Equal,
        };
        Formats::new(Shape::default(), records)
    }

    #[test]
    fn a_leaf_has_whole_records() {
        let amount = Amount {
            puts: 3200.0,
            deletes: 0.0,
            span: 3200.0,
        };
        // 126 bytes each, less what all begin with: 32 fit 4,068 bytes.
        assert_eq!(formats(100.0).leaves(&amount), 100.0);
        let deletes = Amount {
            puts: 0.0,
            deletes: 3200.0,
            span: 3200.0,
        };
        assert!(formats(100.0).leaves(&deletes) < 25.0);
        assert_eq!(formats(100.0).leaves(&Amount::default()), 0.0);
    }

    #[test]
    fn a_maplet_takes_what_its_geometry_says() {
        // The example of `alluvium_filters::Geometry`: 2^20 keys, 33 bits, 16 runs, under 23 bits.
        let (pages, _) = formats(100.0).maplet_pages(f64::from(1 << 20), 16.0);
        let bits = pages * 4096.0 * 8.0 / f64::from(1 << 20);
        assert!((21.0..23.0).contains(&bits), "{bits}");
        assert_eq!(formats(100.0).maplet(1.0, 1.0), 8192.0);
    }

    #[test]
    fn long_values_lie_outside_of_leaves() {
        let amount = Amount {
            puts: 100.0,
            deletes: 0.0,
            span: 100.0,
        };
        let formats = formats(5000.0);
        assert_eq!(formats.separate(&amount), 500_000.0);
        assert!(formats.run(&amount) < 520_000.0);
    }
}
