//! A store of levels on the device under the directory for temporary files: loaded, scanned, asked.

use crate::entry::At;
use crate::measured::{Line, Spot};
use crate::scratch::Scratch;
use alluvium::simulation::{Filters, OpenIn as _, Scale};
use alluvium::{
    Db, DeviceProfile, Durability, Keyspace, KeyspaceOptions, LevelsOptions, Options, Structure, WriteBatch,
};
use alluvium_base::Purpose;
use alluvium_device::Directory;
use alluvium_storage::log::LogOptions;
use anyhow::{Context as _, Result, ensure};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a key: the unit that is scanned, and the place in it.
pub(super) const KEY: usize = 16;
/// Commits have as many writes: a memtable of the document holds 34 of them, 2,040 pairs.
pub(super) const BATCH: u64 = 60;
/// Bytes that a memtable reserves for a record, beside its key and value, about.
const BESIDE: u64 = 150;
/// The least bytes of a memtable, and of a cache: the least that a cache works with.
const LEAST_MEMTABLE: u64 = 64 << 10;
const LEAST_CACHE: u64 = 2 << 20;
/// Bytes of data for each of the document's memory: 10 GB and 3 GB, of which merges need some.
const DATA_TO_MEMORY: u64 = 4;
/// Values are in the leaves, whose pages hold one pair of 4 KiB, as in the document. With the costs
/// of the device at hand leaves would be longer.
pub(super) const VALUE_THRESHOLD: u32 = 16 << 10;
const SHORT_LEAVES: DeviceProfile = DeviceProfile {
    setup_ns: 500,
    byte_ps: 500,
    ..DeviceProfile::SSD
};
/// A load makes a checkpoint whenever this many memtables are full, and the log has space for four
/// times as many: a checkpoint for want of space would end a memtable amid what belongs together.
const CHECKPOINT_MEMTABLES: u64 = 8;
const LOG_MEMTABLES: u64 = 4 * CHECKPOINT_MEMTABLES;

/// A key: `unit`, then the place in it.
pub(super) fn key(unit: u64, place: u64) -> [u8; KEY] {
    let mut key = [0; KEY];
    key[..8].copy_from_slice(&unit.to_be_bytes());
    key[8..].copy_from_slice(&place.to_be_bytes());
    key
}

/// How a store is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes of a memtable, an eviction of the document, and how many records it has.
    pub(super) memtable: u64,
    memtable_records: u64,
    /// Bytes of the cache of pages.
    pub(super) cache: u64,
    pub(super) value_bytes: usize,
    /// Longer values are kept apart from their leaves.
    pub(super) value_threshold: u32,
    /// What the filters of merged runs are made of.
    pub(super) filters: Filters,
}

impl Shape {
    /// The sizes of the document, of which this number of records fills a memtable.
    pub(super) fn of(records_of_memtable: u64, value_bytes: usize) -> Shape {
        // Half a commit more does not fit.
        let records = records_of_memtable + BATCH / 2;
        let memtable = records * ((KEY + value_bytes) as u64 + BESIDE);
        Shape {
            memtable: memtable.max(LEAST_MEMTABLE),
            memtable_records: records_of_memtable.max(BATCH),
            cache: LEAST_CACHE,
            value_bytes,
            value_threshold: VALUE_THRESHOLD,
            filters: Filters::Merged,
        }
    }

    /// The same with a cache of all memory that the document has for this number of records: its
    /// operating system keeps pages of files there, ours are read past it.
    pub(super) fn with_memory(self, records: u64) -> Shape {
        let cache = records * self.record_bytes() / DATA_TO_MEMORY;
        Shape {
            cache: cache.max(LEAST_CACHE),
            ..self
        }
    }

    /// The same with filters for which merges read all keys.
    pub(super) fn rehashed(self) -> Shape {
        Shape {
            filters: Filters::Rehashed,
            ..self
        }
    }

    /// The same with all values apart from their leaves.
    pub(super) fn apart(self) -> Shape {
        Shape {
            value_threshold: 0,
            ..self
        }
    }

    pub(super) fn record_bytes(&self) -> u64 {
        (KEY + self.value_bytes) as u64
    }

    pub(super) fn options(&self) -> Options {
        let mut scale = Scale::small(0x5e3d, self.memtable, 0);
        scale.cache = self.cache;
        scale.filters = self.filters;
        scale.log = LogOptions::with_limit((self.memtable * LOG_MEMTABLES).max(4 << 20));
        // The document commits without waiting, and logs nothing that is in a run by then.
        Options::new()
            .device(SHORT_LEAVES)
            .durability(Durability::Memory)
            .record_memory(0)
            .simulated(scale, || 0)
    }
}

/// A store in its directory.
pub(super) struct Store {
    scratch: Scratch,
    shape: Shape,
    levels: LevelsOptions,
    db: Db,
    keyspace: Keyspace,
}

fn open(scratch: &Scratch, shape: Shape, levels: &LevelsOptions) -> Result<(Db, Keyspace)> {
    let directory: Arc<dyn Directory> = Arc::clone(&scratch.directory) as _;
    let db = shape.options().open_in(&directory)?;
    let options = KeyspaceOptions::new()
        .structure(Structure::Levels(levels.clone()))
        .value_threshold(shape.value_threshold);
    let keyspace = db.keyspace_with("records", &options)?;
    Ok((db, keyspace))
}

impl Store {
    pub(super) fn new(shape: Shape, levels: &LevelsOptions) -> Result<Store> {
        let scratch = Scratch::new()?;
        let (db, keyspace) = open(&scratch, shape, levels).context("making a store of levels")?;
        Ok(Store {
            scratch,
            shape,
            levels: levels.clone(),
            db,
            keyspace,
        })
    }

    /// Puts a record for each key; how long that and the merges took that are due then.
    pub(super) fn load(&self, keys: impl Iterator<Item = [u8; KEY]>) -> Result<(u64, Duration)> {
        let mut value = vec![0; self.shape.value_bytes];
        let (mut batch, mut count) = (WriteBatch::new(), 0u64);
        let mut checkpoint_at = self.shape.memtable_records * CHECKPOINT_MEMTABLES;
        let started = Instant::now();
        for key in keys {
            count += 1;
            let len = value.len().min(8);
            value[..len].copy_from_slice(&count.to_le_bytes()[..len]);
            batch.put(&self.keyspace, key, &value)?;
            if count.is_multiple_of(BATCH) {
                self.db.write(&std::mem::take(&mut batch))?;
                if count >= checkpoint_at {
                    self.db.checkpoint()?;
                    checkpoint_at = count + self.shape.memtable_records * CHECKPOINT_MEMTABLES;
                }
            }
        }
        self.db.write(&batch)?;
        self.db.checkpoint()?;
        while self.db.work()? {}
        Ok((count, started.elapsed()))
    }

    /// Opens the store again: nothing of it is in the cache.
    pub(super) fn reopen(self) -> Result<Store> {
        let Store {
            scratch,
            shape,
            levels,
            db,
            keyspace,
        } = self;
        drop(keyspace);
        db.close()?;
        let (db, keyspace) = open(&scratch, shape, &levels).context("opening it again")?;
        Ok(Store {
            scratch,
            shape,
            levels,
            db,
            keyspace,
        })
    }

    /// Walks over all records; how many bytes they have, and how long it took.
    pub(super) fn scan(&self, records: u64) -> Result<(u64, Duration)> {
        let (mut count, mut bytes) = (0u64, 0u64);
        let started = Instant::now();
        for pair in self.keyspace.iter() {
            let (key, value) = pair?;
            count += 1;
            bytes += (key.len() + value.len()) as u64;
        }
        let took = started.elapsed();
        ensure!(count == records, "{count} of {records} records were found");
        Ok((bytes, took))
    }

    /// Bytes that were written for each of the users': by memtables on their way, and by merges.
    pub(super) fn amplification(&self) -> f64 {
        let stats = self.db.stats();
        let of = |purpose| stats.device.of(purpose).written_bytes;
        let written = of(Purpose::Incorporate) + of(Purpose::Compact);
        written as f64 / (stats.written_bytes as f64).max(1.0)
    }

    /// Bytes that merges have read for each of the users'.
    pub(super) fn read_by_merges(&self) -> f64 {
        let stats = self.db.stats();
        let read = stats.device.of(Purpose::Compact).read_bytes;
        read as f64 / (stats.written_bytes as f64).max(1.0)
    }

    /// How often a scan of all records jumps, for each of them.
    pub(super) fn jumps(&self, records: u64) -> Result<f64> {
        let jumps = || self.db.stats().levels.map_or(0, |levels| levels.jumps);
        let before = jumps();
        self.scan(records)?;
        Ok((jumps() - before) as f64 / records.max(1) as f64)
    }

    /// Does what the background has to do.
    pub(super) fn work(&self) -> Result<()> {
        while self.db.work()? {}
        Ok(())
    }

    /// Looks keys up that are there; how long it took.
    pub(super) fn look(&self, keys: &[[u8; KEY]]) -> Result<Duration> {
        let started = Instant::now();
        for key in keys {
            ensure!(self.keyspace.get(key)?.is_some(), "a record is missing");
        }
        Ok(started.elapsed())
    }
}

/// Megabytes a second.
pub(super) fn mb_s(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64().max(1e-9) / 1e6
}

/// A second's share of a number.
pub(super) fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}

/// A line of a measure.
pub(super) fn line(measure: &str, whose: &str, points: Vec<(At, f64)>) -> Line {
    Line {
        name: format!("{measure}, {whose}"),
        points: points.into_iter().map(|(at, value)| Spot { at, value }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memtable_holds_the_records_that_its_shape_says() {
        // The document's 2,040, and fewer: each time around ends a memtable.
        for records in [BATCH, 540, 1020, 2040] {
            let store = Store::new(Shape::of(records, 3800), &LevelsOptions::never()).unwrap();
            let (loaded, _) = store.load((0..5 * records).map(|place| key(0, place))).unwrap();
            assert_eq!(loaded, 5 * records);
            let levels = store.db.stats().levels.unwrap();
            assert_eq!(levels.runs, 5, "{records} records to a memtable");
        }
    }
}
