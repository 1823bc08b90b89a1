//! G1 and G2: a small fast device as a tier above a large slow one.
//!
//! Both devices are directories inside the system's temporary directory, throttled to the seek and
//! transfer costs of the document's devices.

use super::harness::{KEY, VALUE_THRESHOLD, key, line, per_second};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{MeasurementSet, name};
use crate::scratch::ScratchDirectory;
use alluvium::simulation::{DirectoryOpener as _, StoreScale};
use alluvium::{Db, Durability, Keyspace, KeyspaceOptions, LevelsOptions, Options, Structure, WriteBatch};
use alluvium_base::MIB;
use alluvium_device::{Directory, ThrottledDirectory};
use alluvium_model::AffineClock;
use alluvium_storage::TierDirectories;
use alluvium_storage::log::LogOptions;
use anyhow::{Result, ensure};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WARM: &str = "warm";
const INSERTS: &str = "inserts";
const NEWEST: &str = "newest";
const SLOW: &str = "one slow device";
const BOTH: &str = "a fast one before it";

/// Accesses per second and megabytes per second of the document's devices.
const DISK: (u64, u64) = (250, 100);
const FLASH: (u64, u64) = (3800, 240);

/// Ratios of the document's 16 GB of data to the newest memtable, the fast device and the hot set.
const DATA_TO_MEMTABLE: u64 = 64;
const DATA_TO_FAST: u64 = 3;
const DATA_TO_HOT: u64 = 16;
/// Ratio of data to cache. The cache holds index nodes and a few leaves of the hot set; the
/// document's memory of 900 MB does not hold the hot set either.
const DATA_TO_CACHE: u64 = 40;
const LEAST_MEMTABLE: u64 = 256 << 10;
const LEAST_CACHE: u64 = MIB;
/// Ratio of copied bytes to the hot set; the pages of hot records also contain cold ones.
const HOT_TO_COPIES: u64 = 8;

/// Number of warm-up reads of each key in the hot set.
const WARMING: u64 = 3;
/// Number of reads between steps of background work. A step writes at most one extent of copies;
/// the leaves of these reads fill a quarter of it.
const READS_TO_STEP: u64 = 64;
/// Maximum number of timed reads; a disk performs a few hundred per second.
const MOST_TIMED: u64 = 3000;

pub(super) const G1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/G1",
    ours: &[("lookups in the set", |measured| measured.series_with_prefix(WARM))],
    work: ExperimentMethod::Here {
        quick: 10_000,
        full: 4_000_000,
        most: 1 << 26,
        measure: hot_set,
    },
};

pub(super) const G2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-3/G2",
    ours: &[
        ("inserts", |measured| measured.series_with_prefix(INSERTS)),
        ("lookups of the newest sixth", |measured| {
            measured.series_with_prefix(NEWEST)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 20_000,
        full: 16_000_000,
        most: 1 << 28,
        measure: insert_and_look,
    },
};

/// Creates a directory that is throttled to the pace of a device.
fn paced(scratch: &ScratchDirectory, (accesses, mb): (u64, u64)) -> Arc<dyn Directory> {
    let clock = AffineClock::new(1_000_000_000 / accesses, 1_000_000_000, mb * 1_000_000);
    let directory: Arc<dyn Directory> = Arc::clone(&scratch.directory) as _;
    Arc::new(ThrottledDirectory::new(directory, Box::new(clock)))
}

/// A store on one slow device, optionally with a fast device as upper tier.
struct TwoTierStore {
    db: Db,
    keyspace: Keyspace,
    value_bytes: usize,
    _scratches: [ScratchDirectory; 2],
}

impl TwoTierStore {
    fn new(has_fast: bool, records: u64, value_bytes: usize, copies: u64) -> Result<TwoTierStore> {
        let scratches = [ScratchDirectory::new()?, ScratchDirectory::new()?];
        let data = records * (KEY + value_bytes) as u64;
        let mut scale = StoreScale::small(0x61, (data / DATA_TO_MEMTABLE).max(LEAST_MEMTABLE), 0);
        scale.cache = (data / DATA_TO_CACHE).max(LEAST_CACHE);
        scale.log = LogOptions::with_limit((8 * scale.memtable).max(4 << 20));
        scale.extents.planned_bytes = Some(data / DATA_TO_FAST);
        let slow = paced(&scratches[1], DISK);
        let directories = match has_fast {
            true => TierDirectories::from(paced(&scratches[0], FLASH)).and(slow),
            false => TierDirectories::from(slow),
        };
        let options = Options::new()
            .durability(Durability::Memory)
            .record_memory(0)
            .copy_hot(copies)
            .simulated(scale, || 0);
        let db = options.create_in(directories)?;
        let levels = KeyspaceOptions::new()
            .structure(Structure::Levels(LevelsOptions::samt(4)))
            .value_threshold(VALUE_THRESHOLD);
        let keyspace = db.keyspace_with("records", &levels)?;
        Ok(TwoTierStore {
            db,
            keyspace,
            value_bytes,
            _scratches: scratches,
        })
    }

    /// Inserts the numbers from 0 on. Their keys are not in order.
    fn load(&self, records: u64) -> Result<Duration> {
        let started = Instant::now();
        let mut batch = WriteBatch::new();
        for number in 0..records {
            batch.put(
                &self.keyspace,
                key(scattered(number), number),
                vec![7; self.value_bytes],
            )?;
            if number % 64 == 63 {
                self.db.write(&std::mem::take(&mut batch))?;
            }
        }
        self.db.write(&batch)?;
        self.db.checkpoint()?;
        while self.db.work()? {}
        Ok(started.elapsed())
    }

    /// Looks up numbers. Returns lookups per second.
    fn look(&self, numbers: impl Iterator<Item = u64>) -> Result<f64> {
        let (mut count, started) = (0, Instant::now());
        for number in numbers {
            let found = self.keyspace.get(key(scattered(number), number))?;
            ensure!(found.is_some(), "record {number} is missing");
            count += 1;
            if count % READS_TO_STEP == 0 {
                while self.db.work()? {}
            }
        }
        Ok(per_second(count, started.elapsed()))
    }
}

fn scattered(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn hot_set(records: u64) -> Result<MeasurementSet> {
    const VALUE: usize = 3800;
    let hot = (records / DATA_TO_HOT).clamp(1, records);
    let copies = (hot * (KEY + VALUE) as u64 * HOT_TO_COPIES).max(8 * MIB);
    let store = TwoTierStore::new(true, records, VALUE, copies)?;
    store.load(records)?;
    // The oldest records are on the slow device.
    let timed = hot.min(MOST_TIMED);
    let cold = store.look(0..timed)?;
    for _ in 0..WARMING {
        store.look(0..hot)?;
    }
    let warm = store.look(0..timed)?;
    let points = vec![(name("cold"), cold), (name(WARM), warm)];
    Ok(MeasurementSet {
        counts: vec![line(WARM, "Alluvium, levels", points)],
        ..MeasurementSet::default()
    })
}

fn insert_and_look(records: u64) -> Result<MeasurementSet> {
    const VALUE: usize = 1008;
    let (mut rates, mut newest) = (Vec::new(), Vec::new());
    let sixth = (records / 6).clamp(1, MOST_TIMED);
    for (place, has_fast) in [(SLOW, false), (BOTH, true)] {
        let store = TwoTierStore::new(has_fast, records, VALUE, 0)?;
        rates.push(per_second(records, store.load(records)?));
        newest.push((name(place), store.look((records - sixth..records).rev())?));
    }
    let times = vec![(name(BOTH), rates[1] / rates[0])];
    Ok(MeasurementSet {
        counts: vec![
            line(INSERTS, "Alluvium, levels", times),
            line(NEWEST, "Alluvium, levels", newest),
        ],
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_experiments_are_measured_at_a_small_size() {
        let measured = hot_set(300).unwrap();
        assert_eq!(measured.series_with_prefix(WARM)[0].points.len(), 2);
        let measured = insert_and_look(600).unwrap();
        let newest = &measured.series_with_prefix(NEWEST)[0].points;
        assert!(newest.len() == 2 && newest.iter().all(|spot| spot.value > 0.0));
        assert_eq!(measured.series_with_prefix(INSERTS)[0].points.len(), 1);
    }
}
