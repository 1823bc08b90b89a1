//! Random inserts with and without an insertion buffer, as in Figure 5.1: the points of
//! measurement, and the pages that our tree moves with the same memory.

use super::recycling::{LEAF, SEED, spot};
use crate::measured::{Line, Spot};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Directory, FileOptions};
use alluvium_model::Random;
use anyhow::{Result, ensure};
use research_trees::insertion::{Absorption, Options, Policy, Tree};

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
/// let inserts = Inserts::new(50_000)?;
/// assert_eq!(inserts.memory_records(), 200);
/// // At 5 times as many records as memory holds the document has inserted a million.
/// assert_eq!(inserts.ends(1000), Some(1e6));
/// assert!(inserts.begins(800) && !inserts.begins(801));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserts {
    records: u64,
    memory_records: u64,
}

impl Inserts {
    /// Number of records in a full leaf.
    pub const LEAF: usize = LEAF;
    /// The value of a record. With a key of 8 bytes, [`LEAF`](Inserts::LEAF) such records fill a
    /// page of 16 KiB.
    pub const ROW: [u8; 92] = [7; 92];

    /// Plans `records` inserts, with memory for one record in 250 as in the document.
    ///
    /// # Errors
    /// When there are too few records.
    pub fn new(records: u64) -> Result<Inserts> {
        ensure!(
            records >= 1000,
            "--records {records}: 1000 are the fewest, for a window at each place"
        );
        Inserts::with_memory(records, records / 250)
    }

    /// Plans `records` inserts, with memory for `memory_records` records.
    ///
    /// # Errors
    /// When memory holds all records, or fewer than 4.
    pub fn with_memory(records: u64, memory_records: u64) -> Result<Inserts> {
        ensure!(
            memory_records >= 4 && memory_records <= records,
            "--records {records}: memory holds {memory_records}, and there must be as many at least"
        );
        Ok(Inserts {
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
    pub fn ours(&self) -> Result<Vec<Line>> {
        let leaves = |records: u64| (records.div_ceil(LEAF as u64) as usize).max(1);
        let plain = Options {
            page_bytes: PAGE,
            leaf_records: LEAF,
            waiting_records: 0,
            policy: Policy::None,
            absorption: Absorption::On,
            leaves_in_memory: leaves(self.memory_records),
            seed: SEED,
        };
        let without = self.pages(plain)?;
        let mut lines = vec![Line {
            name: format!("{PAGES}, alluvium, no buffer"),
            points: without.clone(),
        }];
        for (title, policy) in [
            ("random walk", Policy::RandomWalk),
            ("golden gate", Policy::GoldenGate),
            ("random ball", Policy::RandomBall),
        ] {
            let with = self.pages(Options {
                waiting_records: (self.memory_records / 2) as usize,
                policy,
                leaves_in_memory: leaves(self.memory_records / 2),
                ..plain
            })?;
            lines.push(Line {
                name: format!("{RATIO}, alluvium, {title}"),
                points: quotients(&with, &without),
            });
            lines.push(Line {
                name: format!("{PAGES}, alluvium, {title}"),
                points: with,
            });
        }
        Ok(lines)
    }

    /// Inserts records. Returns the pages moved per insert at the points of measurement.
    fn pages(&self, options: Options) -> Result<Vec<Spot>> {
        let file = MemoryDirectory::new().create("leaves", FileOptions::DIRECT)?;
        let mut tree = Tree::new(file, options)?;
        let mut random = Random::from_seed(SEED);
        let (mut points, mut before) = (Vec::new(), tree.counts());
        for inserted in 1..=self.records {
            tree.put(&random.bits().to_be_bytes(), &Inserts::ROW)?;
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
pub(super) fn quotients(with: &[Spot], without: &[Spot]) -> Vec<Spot> {
    let quotient = |(with, without): (&Spot, &Spot)| {
        (without.value > 0.0).then(|| Spot {
            at: with.at.clone(),
            value: with.value / without.value,
        })
    };
    with.iter().zip(without).filter_map(quotient).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{Measured, value_at};

    #[test]
    fn windows_end_at_times_of_what_memory_holds() {
        let inserts = Inserts::with_memory(1000, 100).unwrap();
        let ends: Vec<u64> = (0..=1000).filter(|at| inserts.ends(*at).is_some()).collect();
        assert_eq!(ends, [100, 200, 500, 1000]);
        let begins: Vec<u64> = (0..=1000).filter(|at| inserts.begins(*at)).collect();
        assert_eq!(begins, [0, 100, 400, 900]);
        for (records, memory) in [(10, 100), (10, 3)] {
            let refused = Inserts::with_memory(records, memory).unwrap_err();
            assert!(refused.to_string().contains("--records 10"), "{refused}");
        }
    }

    #[test]
    fn without_a_buffer_there_is_a_cliff_and_what_a_buffer_saves_shrinks() {
        let counts = Inserts::with_memory(20_000, 800).unwrap().ours().unwrap();
        let measured = Measured {
            counts,
            ..Measured::default()
        };
        let pages = measured.under(PAGES);
        let [inside, beyond] = [2e5, 5e6].map(|place| value_at(&pages[0], place).unwrap());
        assert!(inside < 1.0 && beyond > 1.8, "{inside} {beyond}");
        for line in measured.under(RATIO) {
            let [first, last] = [1e6, 5e6].map(|place| value_at(&line, place).unwrap());
            assert!(first < last && last < 1.0, "{line:?}");
        }
        let at = |line: &Line| value_at(line, 1e6).unwrap();
        let [gate, ball] = [2, 3].map(|line: usize| at(&pages[line]));
        assert!(gate < ball, "the order of keys saves more: {pages:?}");
    }
}
