//! S8: random inserts into levels, compared with an ideal log-structured file system with a tree.
//!
//! The mock follows the document (§6.3.4): a copy-on-write binary tree whose upper parents are in
//! memory as keys and pointers only. Its cache is always clean and its tree is never rebalanced. An
//! insert causes at most two parent faults, and appends the value with the parents that are not in
//! memory.

use super::harness::{KEY, LevelsStore, StoreSizing, key, line, per_second};
use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use crate::scratch::ScratchDirectory;
use alluvium::LevelsOptions;
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions};
use anyhow::Result;
use std::time::{Duration, Instant};

const RATES: &str = "rates";
const VALUE: usize = 16;
/// Bytes of a parent, both in memory and on the device.
const PARENT: u64 = 16;
const BLOCK: u64 = 4096;
/// Maximum number of parent faults of an insert.
const MOST_FAULTS: u32 = 2;
/// Ratio of records to parents in memory: 100 million records to 2²⁵ parents in the document.
const DATA_TO_PARENTS: u64 = 3;
/// Appends are written in batches of this many bytes.
const APPEND: usize = 1 << 20;
/// Number of timed inserts at each size. The mock's rate is constant after them.
const SAMPLE: u64 = 20_000;
/// Number of places on the axis: a sixteenth of the records, an eighth and so on.
const STEPS: u32 = 5;

pub(super) const S8: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/S8",
    ours: &[("inserts", |measured| measured.series_with_prefix(RATES))],
    work: ExperimentMethod::Here {
        quick: 1_000_000,
        full: 100_000_000,
        most: 1 << 32,
        measure,
    },
};

/// Returns the sizes at which both are measured.
fn sizes(records: u64) -> impl Iterator<Item = u64> {
    (0..STEPS).rev().map(move |step| (records >> step).max(1))
}

/// An ideal tree in a log.
struct LogFileSystemMock {
    file: std::sync::Arc<dyn Device>,
    /// Bytes of a full tree on the device.
    span: u64,
    parents_in_memory: u64,
    appended: usize,
    end: u64,
    random: fastrand::Rng,
    _scratch: ScratchDirectory,
}

impl LogFileSystemMock {
    fn new(records: u64) -> Result<LogFileSystemMock> {
        let scratch = ScratchDirectory::new()?;
        let file = scratch.directory.create("log", FileOptions::DIRECT)?;
        let span = (records * PARENT).next_multiple_of(APPEND as u64);
        file.grow(span)?;
        // Write all blocks first; the file system would answer reads of unwritten blocks without
        // I/O.
        for at in (0..span).step_by(APPEND) {
            file.write_at(at, AlignedBuffer::zeroed(APPEND), Purpose::Other)?;
        }
        Ok(LogFileSystemMock {
            file,
            span,
            parents_in_memory: (records / DATA_TO_PARENTS).max(1),
            appended: 0,
            end: 0,
            random: fastrand::Rng::with_seed(6),
            _scratch: scratch,
        })
    }

    /// Performs one insert into a tree of `keys` keys.
    fn insert(&mut self, keys: u64) -> Result<()> {
        let (levels, in_memory) = (keys.max(2).ilog2(), self.parents_in_memory.max(2).ilog2());
        let below = levels.saturating_sub(in_memory);
        for _ in 0..below.min(MOST_FAULTS) {
            let block = self.random.u64(..(self.span / BLOCK).max(1));
            self.file.read_at(block * BLOCK, BLOCK as usize, Purpose::Other)?;
        }
        self.appended += KEY + VALUE + (u64::from(below) * PARENT) as usize;
        if self.appended >= APPEND {
            self.append()?;
        }
        Ok(())
    }

    fn append(&mut self) -> Result<()> {
        self.appended = 0;
        if self.end >= self.span {
            // Cleaning the log costs nothing in this model.
            self.end = 0;
        }
        self.file
            .write_at(self.end, AlignedBuffer::zeroed(APPEND), Purpose::Other)?;
        self.end += APPEND as u64;
        Ok(())
    }

    fn time(&mut self, keys: u64) -> Result<(u64, Duration)> {
        let count = SAMPLE.min(keys);
        let started = Instant::now();
        for _ in 0..count {
            self.insert(keys)?;
        }
        self.append()?;
        Ok((count, started.elapsed()))
    }
}

fn measure(records: u64) -> Result<MeasurementSet> {
    let mut mock = LogFileSystemMock::new(records)?;
    let mut mocked = Vec::new();
    for keys in sizes(records) {
        let (count, took) = mock.time(keys)?;
        mocked.push((AxisPosition::Number(keys as f64), per_second(count, took)));
    }
    drop(mock);
    let store = LevelsStore::new(StoreSizing::of(records / 64, VALUE), &LevelsOptions::samt(4))?;
    let (mut loaded, mut ours) = (0, Vec::new());
    let mut random = fastrand::Rng::with_seed(7);
    for keys in sizes(records) {
        let some = (loaded..keys).map(|number| key(random.u64(..), number));
        let (count, took) = store.load(some)?;
        if count > 0 {
            ours.push((AxisPosition::Number(keys as f64), per_second(count, took)));
        }
        loaded = keys;
    }
    Ok(MeasurementSet {
        counts: vec![
            line(RATES, "Alluvium, levels", ours),
            line(RATES, "mock of a log-structured file system", mocked),
        ],
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_that_are_not_in_memory_are_read() {
        let mut mock = LogFileSystemMock::new(1 << 16).unwrap();
        let reads = |mock: &LogFileSystemMock| mock._scratch.directory.counters().snapshot().total().reads;
        mock.time(1 << 8).unwrap();
        assert_eq!(reads(&mock), 0, "all parents are in memory");
        mock.time(1 << 16).unwrap();
        assert_eq!(reads(&mock), 2 * SAMPLE, "2¹⁴ parents of 2¹⁶ keys are");
        let measured = measure(2000).unwrap();
        assert!(
            measured
                .series_with_prefix(RATES)
                .iter()
                .all(|line| line.points.len() >= 4)
        );
    }
}
