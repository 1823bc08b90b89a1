//! A store of levels in the system's temporary directory, with operations to load, scan and query
//! it.

use crate::entry::AxisPosition;
use crate::measurements::{FigurePoint, FigureSeries};
use crate::scratch::ScratchDirectory;
use alluvium::simulation::{DirectoryOpener as _, FilterSource, StoreScale};
use alluvium::{
    Db, DeviceProfile, Durability, Keyspace, KeyspaceOptions, LevelsOptions, Options, Structure, WriteBatch,
};
use alluvium_base::Purpose;
use alluvium_device::Directory;
use alluvium_storage::log::LogOptions;
use anyhow::{Context as _, Result, ensure};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a key: the unit that is scanned, and the position within it.
pub(super) const KEY: usize = 16;
/// Number of writes per commit. A memtable of the document holds 34 commits: 2,040 pairs.
pub(super) const BATCH: u64 = 60;
/// Approximate bytes that a memtable reserves for a record in addition to its key and value.
const BESIDE: u64 = 150;
/// Minimum bytes of a memtable, and of the cache; a smaller cache does not work.
const LEAST_MEMTABLE: u64 = 64 << 10;
const LEAST_CACHE: u64 = 2 << 20;
/// Ratio of data to the document's memory: 10 GB to 3 GB, part of which merges need.
const DATA_TO_MEMORY: u64 = 4;
/// Values are stored in leaves, whose pages hold one pair of 4 KiB, as in the document. Leaves
/// sized for the local device would be longer.
pub(super) const VALUE_THRESHOLD: u32 = 16 << 10;
const SHORT_LEAVES: DeviceProfile = DeviceProfile {
    setup_ns: 500,
    byte_ps: 500,
    ..DeviceProfile::SSD
};
/// Number of full memtables after which a load makes a checkpoint. The log has space for four times
/// as many, because a checkpoint forced by a full log would flush a memtable in the middle of
/// related writes.
const CHECKPOINT_MEMTABLES: u64 = 8;
const LOG_MEMTABLES: u64 = 4 * CHECKPOINT_MEMTABLES;

/// Returns the key of a position in a unit.
pub(super) fn key(unit: u64, place: u64) -> [u8; KEY] {
    let mut key = [0; KEY];
    key[..8].copy_from_slice(&unit.to_be_bytes());
    key[8..].copy_from_slice(&place.to_be_bytes());
    key
}

/// The sizes and options of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreSizing {
    /// Bytes of a memtable (an eviction in the document's terms), and its number of records.
    pub(super) memtable: u64,
    memtable_records: u64,
    /// Bytes of the page cache.
    pub(super) cache: u64,
    pub(super) value_bytes: usize,
    /// Values longer than this are stored outside the leaves.
    pub(super) value_threshold: u32,
    /// The source of the filters of merged runs.
    pub(super) filters: FilterSource,
}

impl StoreSizing {
    /// Returns the document's sizes, scaled so that this number of records fills a memtable.
    pub(super) fn of(records_of_memtable: u64, value_bytes: usize) -> StoreSizing {
        // Allow for half a commit; a whole one must not fit.
        let records = records_of_memtable + BATCH / 2;
        let memtable = records * ((KEY + value_bytes) as u64 + BESIDE);
        StoreSizing {
            memtable: memtable.max(LEAST_MEMTABLE),
            memtable_records: records_of_memtable.max(BATCH),
            cache: LEAST_CACHE,
            value_bytes,
            value_threshold: VALUE_THRESHOLD,
            filters: FilterSource::Merged,
        }
    }

    /// Sets the cache to the document's whole memory for this number of records. The document's
    /// operating system caches file pages there; our reads use direct I/O.
    pub(super) fn with_memory(self, records: u64) -> StoreSizing {
        let cache = records * self.record_bytes() / DATA_TO_MEMORY;
        StoreSizing {
            cache: cache.max(LEAST_CACHE),
            ..self
        }
    }

    /// Selects filters for which merges must read all keys.
    pub(super) fn rehashed(self) -> StoreSizing {
        StoreSizing {
            filters: FilterSource::Rehashed,
            ..self
        }
    }

    /// Stores all values outside the leaves.
    pub(super) fn apart(self) -> StoreSizing {
        StoreSizing {
            value_threshold: 0,
            ..self
        }
    }

    pub(super) fn record_bytes(&self) -> u64 {
        (KEY + self.value_bytes) as u64
    }

    pub(super) fn options(&self) -> Options {
        let mut scale = StoreScale::small(0x5e3d, self.memtable, 0);
        scale.cache = self.cache;
        scale.filters = self.filters;
        scale.log = LogOptions::with_limit((self.memtable * LOG_MEMTABLES).max(4 << 20));
        // The document's commits do not wait for a sync. Its log omits data that is already in a
        // run.
        Options::new()
            .device(SHORT_LEAVES)
            .durability(Durability::Memory)
            .record_memory(0)
            .simulated(scale, || 0)
    }
}

/// An open store in a temporary directory.
pub(super) struct LevelsStore {
    scratch: ScratchDirectory,
    shape: StoreSizing,
    levels: LevelsOptions,
    db: Db,
    keyspace: Keyspace,
}

fn open(scratch: &ScratchDirectory, shape: StoreSizing, levels: &LevelsOptions) -> Result<(Db, Keyspace)> {
    let directory: Arc<dyn Directory> = Arc::clone(&scratch.directory) as _;
    let db = shape.options().open_in(&directory)?;
    let options = KeyspaceOptions::new()
        .structure(Structure::Levels(levels.clone()))
        .value_threshold(shape.value_threshold);
    let keyspace = db.keyspace_with("records", &options)?;
    Ok((db, keyspace))
}

impl LevelsStore {
    pub(super) fn new(shape: StoreSizing, levels: &LevelsOptions) -> Result<LevelsStore> {
        let scratch = ScratchDirectory::new()?;
        let (db, keyspace) = open(&scratch, shape, levels).context("making a store of levels")?;
        Ok(LevelsStore {
            scratch,
            shape,
            levels: levels.clone(),
            db,
            keyspace,
        })
    }

    /// Writes a record for each key. Returns the number of records and the time, including the
    /// merges that the load causes.
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

    /// Reopens the store, so that its cache is empty.
    pub(super) fn reopen(self) -> Result<LevelsStore> {
        let LevelsStore {
            scratch,
            shape,
            levels,
            db,
            keyspace,
        } = self;
        drop(keyspace);
        db.close()?;
        let (db, keyspace) = open(&scratch, shape, &levels).context("opening it again")?;
        Ok(LevelsStore {
            scratch,
            shape,
            levels,
            db,
            keyspace,
        })
    }

    /// Scans all records. Returns their bytes and the time.
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

    /// Returns the write amplification of memtable flushes and merges.
    pub(super) fn amplification(&self) -> f64 {
        let stats = self.db.stats();
        let of = |purpose| stats.device.of(purpose).written_bytes;
        let written = of(Purpose::Incorporate) + of(Purpose::Compact);
        written as f64 / (stats.written_bytes as f64).max(1.0)
    }

    /// Returns the bytes read by merges for each byte written by the user.
    pub(super) fn read_by_merges(&self) -> f64 {
        let stats = self.db.stats();
        let read = stats.device.of(Purpose::Compact).read_bytes;
        read as f64 / (stats.written_bytes as f64).max(1.0)
    }

    /// Returns the jumps of a scan of all records, per record.
    pub(super) fn jumps(&self, records: u64) -> Result<f64> {
        let jumps = || self.db.stats().levels.map_or(0, |levels| levels.jumps);
        let before = jumps();
        self.scan(records)?;
        Ok((jumps() - before) as f64 / records.max(1) as f64)
    }

    /// Performs all pending background work.
    pub(super) fn work(&self) -> Result<()> {
        while self.db.work()? {}
        Ok(())
    }

    /// Looks up existing keys. Returns the time.
    pub(super) fn look(&self, keys: &[[u8; KEY]]) -> Result<Duration> {
        let started = Instant::now();
        for key in keys {
            ensure!(self.keyspace.get(key)?.is_some(), "a record is missing");
        }
        Ok(started.elapsed())
    }
}

/// Returns the throughput in megabytes per second.
pub(super) fn mb_s(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64().max(1e-9) / 1e6
}

/// Returns the rate per second.
pub(super) fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}

/// Returns a line of a measure.
pub(super) fn line(measure: &str, whose: &str, points: Vec<(AxisPosition, f64)>) -> FigureSeries {
    FigureSeries {
        name: format!("{measure}, {whose}"),
        points: points
            .into_iter()
            .map(|(at, value)| FigurePoint { at, value })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memtable_holds_the_records_that_its_shape_says() {
        // The document's 2,040 records, and fewer. Each multiple must fill exactly one memtable.
        for records in [BATCH, 540, 1020, 2040] {
            let store = LevelsStore::new(StoreSizing::of(records, 3800), &LevelsOptions::never()).unwrap();
            let (loaded, _) = store.load((0..5 * records).map(|place| key(0, place))).unwrap();
            assert_eq!(loaded, 5 * records);
            let levels = store.db.stats().levels.unwrap();
            assert_eq!(levels.runs, 5, "{records} records to a memtable");
        }
    }
}
