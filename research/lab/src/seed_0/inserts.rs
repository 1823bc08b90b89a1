//! Random inserts before and behind an insertion buffer, as Figure 5.1 has them: where they are
//! measured, and what a tree of ours moves with as much memory.

use super::recycling::{LEAF, SEED, spot};
use crate::measured::{Line, Spot};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Directory, FileOptions};
use alluvium_model::Random;
use anyhow::{Result, ensure};
use research_trees::insertion::{Absorption, Options, Policy, Tree};

/// Figures that begin so are pages for an insert, or parts of those without a buffer.
pub(super) const PAGES: &str = "pages";
pub(super) const RATIO: &str = "ratio";

/// Where inserts are measured, in times of the records that memory holds: the document states
/// figures at 5 and at 250 times.
const PLACES: [u64; 7] = [1, 2, 5, 10, 25, 50, 250];
/// The records that the document's memory holds, at which its axis is scaled.
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
    /// The records of a full leaf.
    pub const LEAF: usize = LEAF;
    /// The value of a record of which a page of 16 KiB holds as many, with a key of 8 bytes.
    pub const ROW: [u8; 92] = [7; 92];

    /// Returns `records` inserts, with memory for one in 250 as in the document.
    ///
    /// # Errors
    /// When they are too few for that.
    pub fn new(records: u64) -> Result<Inserts> {
        ensure!(
            records >= 1000,
            "--records {records}: 1000 are the fewest, for a window at each place"
        );
        Inserts::with_memory(records, records / 250)
    }

    /// Returns `records` inserts, with memory for `memory_records` of them.
    ///
    /// # Errors
    /// When memory holds all of them, or fewer than 4.
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

    /// Returns how many records memory holds.
    #[must_use]
    pub fn memory_records(&self) -> u64 {
        self.memory_records
    }

    /// Returns the bytes of as many leaves as memory holds.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_records.div_ceil(LEAF as u64) * u64::from(PAGE)
    }

    /// Returns how many inserts a window has, at whose end there is a figure.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.memory_records
    }

    /// Returns whether a window begins behind the insert of this number.
    #[must_use]
    pub fn begins(&self, inserted: u64) -> bool {
        self.ends(inserted + self.window()).is_some()
    }

    /// Returns the place on the document's axis, if a window ends with this insert.
    #[must_use]
    pub fn ends(&self, inserted: u64) -> Option<f64> {
        let times = inserted / self.memory_records;
        let is_place = inserted.is_multiple_of(self.memory_records) && PLACES.contains(&times);
        (is_place && inserted <= self.records).then_some(times as f64 * DOCUMENT)
    }

    /// Measures trees of ours: without a buffer, and with one that has half of the memory. Lines
    /// are of pages moved for an insert, and of their quotient.
    ///
    /// # Errors
    /// As the tree says.
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

    /// Inserts records, and returns the pages that an insert moves at some places.
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

/// Returns the quotients of two lines with the same places. Where all leaves are in memory no page
/// is moved without a buffer.
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
