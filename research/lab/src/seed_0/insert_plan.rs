//! Random inserts with and without an insertion buffer, as in Figure 5.1: the points of
//! measurement, and the pages that our tree moves with the same memory.

use super::recycling::{LEAF, SEED, spot};
use crate::measurements::{FigurePoint, FigureSeries};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Directory, FileOptions};
use alluvium_model::SplitMix64;
use anyhow::{Result, ensure};
use research_trees::insertion::{AbsorptionMode, FlushPolicy, InsertionOptions, InsertionTree};

/// Prefixes of figures: pages per insert, and their ratio to a tree without a buffer.
pub(super) const PAGES: &str = "pages";
pub(super) const RATIO: &str = "ratio";

/// Points of measurement, in multiples of the records that fit in memory. The document states
/// figures at 5 and at 250.
const PLACES: [u64; 7] = [1, 2, 5, 10, 25, 50, 250];
/// Records that fit in the document's memory; the document's axis is scaled by this number.
const DOCUMENT: f64 = 200_000.0;
const PAGE: u32 = 16 << 10;

/// A number of random inserts, and memory that holds a part of them.
///
/// ```
/// use alluvium_bench::lab::Inserts;
/// let inserts = InsertPlan::new(50_000)?;
/// assert_eq!(inserts.memory_records(), 200);
/// // At 5 times as many records as memory holds the document has inserted a million.
/// assert_eq!(inserts.ends(1000), Some(1e6));
/// assert!(inserts.begins(800) && !inserts.begins(801));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsertPlan {
    records: u64,
    memory_records: u64,
}

impl InsertPlan {
    /// Number of records in a full leaf.
    pub const LEAF: usize = LEAF;
    /// The value of a record. With a key of 8 bytes, [`LEAF`](InsertPlan::LEAF) such records fill a
    /// page of 16 KiB.
    pub const ROW: [u8; 92] = [7; 92];

    /// Plans `records` inserts, with memory for one record in 250 as in the document.
    ///
    /// # Errors
    /// When there are too few records.
    pub fn new(records: u64) -> Result<InsertPlan> {
        ensure!(
            records >= 1000,
            "--records {records}: 1000 are the fewest, for a window at each place"
        );
        InsertPlan::with_memory(records, records / 250)
    }

    /// Plans `records` inserts, with memory for `memory_records` records.
    ///
    /// # Errors
    /// When memory holds all records, or fewer than 4.
    pub fn with_memory(records: u64, memory_records: u64) -> Result<InsertPlan> {
        ensure!(
            memory_records >= 4 && memory_records <= records,
            "--records {records}: memory holds {memory_records}, and there must be as many at least"
        );
        Ok(InsertPlan {
            records,
            memory_records,
        })
    }

    /// Returns the number of records that fit in memory.
    #[must_use]
    pub fn memory_records(&self) -> u64 {
        self.memory_records
    }

    /// Returns the size of memory in bytes, counted in full leaves.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_records.div_ceil(LEAF as u64) * u64::from(PAGE)
    }

    /// Returns the number of inserts in a window. Each window ends with one figure.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.memory_records
    }

    /// Returns whether a window begins after this number of inserts.
    #[must_use]
    pub fn begins(&self, inserted: u64) -> bool {
        self.ends(inserted + self.window()).is_some()
    }

    /// Returns the place on the document's axis if a window ends with this insert.
    #[must_use]
    pub fn ends(&self, inserted: u64) -> Option<f64> {
        let times = inserted / self.memory_records;
        let is_place = inserted.is_multiple_of(self.memory_records) && PLACES.contains(&times);
        (is_place && inserted <= self.records).then_some(times as f64 * DOCUMENT)
    }

    /// Measures our trees: one without a buffer, and one whose buffer uses half of the memory. The
    /// lines are pages moved per insert, and their quotient.
    ///
    /// # Errors
    /// Errors of the tree.
    pub fn ours(&self) -> Result<Vec<FigureSeries>> {
        let leaves = |records: u64| (records.div_ceil(LEAF as u64) as usize).max(1);
        let plain = InsertionOptions {
            page_bytes: PAGE,
            leaf_records: LEAF,
            waiting_records: 0,
            policy: FlushPolicy::None,
            absorption: AbsorptionMode::On,
            leaves_in_memory: leaves(self.memory_records),
            seed: SEED,
        };
        let without = self.pages(plain)?;
        let mut lines = vec![FigureSeries {
            name: format!("{PAGES}, alluvium, no buffer"),
            points: without.clone(),
        }];
        for (title, policy) in [
            ("random walk", FlushPolicy::RandomWalk),
            ("golden gate", FlushPolicy::GoldenGate),
            ("random ball", FlushPolicy::RandomBall),
        ] {
            let with = self.pages(InsertionOptions {
                waiting_records: (self.memory_records / 2) as usize,
                policy,
                leaves_in_memory: leaves(self.memory_records / 2),
                ..plain
            })?;
            lines.push(FigureSeries {
                name: format!("{RATIO}, alluvium, {title}"),
                points: quotients(&with, &without),
            });
            lines.push(FigureSeries {
                name: format!("{PAGES}, alluvium, {title}"),
                points: with,
            });
        }
        Ok(lines)
    }

    /// Inserts records. Returns the pages moved per insert at the points of measurement.
    fn pages(&self, options: InsertionOptions) -> Result<Vec<FigurePoint>> {
        let file = MemoryDirectory::new().create("leaves", FileOptions::DIRECT)?;
        let mut tree = InsertionTree::new(file, options)?;
        let mut random = SplitMix64::from_seed(SEED);
        let (mut points, mut before) = (Vec::new(), tree.counts());
        for inserted in 1..=self.records {
            tree.put(&random.bits().to_be_bytes(), &InsertPlan::ROW)?;
            if let Some(place) = self.ends(inserted) {
                let counts = tree.counts().since(&before);
                let moved = (counts.reads + counts.writes) as f64 / counts.changes as f64;
                points.push(spot(place, moved));
            }
            if self.begins(inserted) {
                before = tree.counts();
            }
        }
        Ok(points)
    }
}

/// Returns the quotients of two lines with the same places. Without a buffer, no pages are moved
/// while all leaves fit in memory.
pub(super) fn quotients(with: &[FigurePoint], without: &[FigurePoint]) -> Vec<FigurePoint> {
    let quotient = |(with, without): (&FigurePoint, &FigurePoint)| {
        (without.value > 0.0).then(|| FigurePoint {
            at: with.at.clone(),
            value: with.value / without.value,
        })
    };
    with.iter().zip(without).filter_map(quotient).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::{MeasurementSet, value_at};

    #[test]
    fn windows_end_at_times_of_what_memory_holds() {
        let inserts = InsertPlan::with_memory(1000, 100).unwrap();
        let ends: Vec<u64> = (0..=1000).filter(|at| inserts.ends(*at).is_some()).collect();
        assert_eq!(ends, [100, 200, 500, 1000]);
        let begins: Vec<u64> = (0..=1000).filter(|at| inserts.begins(*at)).collect();
        assert_eq!(begins, [0, 100, 400, 900]);
        for (records, memory) in [(10, 100), (10, 3)] {
            let refused = InsertPlan::with_memory(records, memory).unwrap_err();
            assert!(refused.to_string().contains("--records 10"), "{refused}");
        }
    }

    #[test]
    fn without_a_buffer_there_is_a_cliff_and_what_a_buffer_saves_shrinks() {
        let counts = InsertPlan::with_memory(20_000, 800).unwrap().ours().unwrap();
        let measured = MeasurementSet {
            counts,
            ..MeasurementSet::default()
        };
        let pages = measured.series_with_prefix(PAGES);
        let [inside, beyond] = [2e5, 5e6].map(|place| value_at(&pages[0], place).unwrap());
        assert!(inside < 1.0 && beyond > 1.8, "{inside} {beyond}");
        for line in measured.series_with_prefix(RATIO) {
            let [first, last] = [1e6, 5e6].map(|place| value_at(&line, place).unwrap());
            assert!(first < last && last < 1.0, "{line:?}");
        }
        let at = |line: &FigureSeries| value_at(line, 1e6).unwrap();
        let [gate, ball] = [2, 3].map(|line: usize| at(&pages[line]));
        assert!(gate < ball, "the order of keys saves more: {pages:?}");
    }
}
