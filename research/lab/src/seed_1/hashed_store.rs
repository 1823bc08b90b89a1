//! Our hashed keyspaces on a device, used through the public API: memory, reads and writes
//! according to the store's counters.

use super::harness::ScratchDirectory;
use alluvium::{
    Db, HashedOptions, Keyspace, KeyspaceOptions, Options, Purpose, Stats, Structure, WriteBatch,
};
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// Bytes of a key and of its value; the document's small entries.
const KEY: usize = 20;
const VALUE: usize = 44;
pub(super) const RECORD: u64 = (KEY + VALUE) as u64;

/// Ratio of data to memory, and minimum memory of a store.
const DATA_TO_MEMORY: u64 = 16;
const LEAST_MEMORY: u64 = 16 << 20;

/// Number of writes per commit.
const BATCH: u64 = 1000;

/// Number of intervals into which the updates are divided. Memory is sampled after each.
const PARTS: u64 = 20;

/// The measurements of one store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StoreMeasurements {
    /// Bytes of memory per key: average and maximum during updates, and at rest.
    pub(super) memory_bytes: f64,
    pub(super) most_memory_bytes: f64,
    pub(super) rest_memory_bytes: f64,
    /// Bytes written for each byte of updates, the log included.
    pub(super) write_amplification: f64,
    /// Pages requested by a lookup: hits and misses at rest, and hits with hash stores present.
    pub(super) hit_pages: f64,
    pub(super) miss_pages: f64,
    pub(super) busy_hit_pages: f64,
    /// Number of lookups at rest and their total time, for hits and for misses.
    pub(super) hits: (u64, Duration),
    pub(super) misses: (u64, Duration),
    /// Duration of the load, without and with its merges.
    pub(super) load: Duration,
    pub(super) load_and_merges: Duration,
    /// Number of hash stores after the updates.
    pub(super) hash_stores: u64,
}

fn key(number: u64) -> [u8; KEY] {
    let mut random = fastrand::Rng::with_seed(number);
    std::array::from_fn(|_| random.u8(..))
}

fn put(db: &Db, keyspace: &Keyspace, numbers: impl Iterator<Item = u64>) -> Result<()> {
    let (mut batch, mut count) = (WriteBatch::new(), 0);
    for number in numbers {
        let mut value = [0; VALUE];
        value[..8].copy_from_slice(&number.to_le_bytes());
        batch.put(keyspace, key(number), value)?;
        count += 1;
        if count % BATCH == 0 {
            db.write(&std::mem::take(&mut batch))?;
        }
    }
    Ok(db.write(&batch)?)
}

/// Looks up keys. Returns the average pages requested by a lookup, and the total time.
fn look(
    db: &Db,
    keyspace: &Keyspace,
    is_there: bool,
    numbers: impl ExactSizeIterator<Item = u64>,
) -> Result<(f64, (u64, Duration))> {
    let count = numbers.len() as u64;
    let asked = |stats: &Stats| stats.cache.hits + stats.cache.misses + stats.cache.joined;
    let before = asked(&db.stats());
    let started = Instant::now();
    for number in numbers {
        let found = keyspace.get(key(number))?;
        let is_right = found.is_some_and(|value| value.starts_with(&number.to_le_bytes()));
        ensure!(is_right == is_there, "key {number} has another value, or none");
    }
    let took = started.elapsed();
    let pages = (asked(&db.stats()) - before) as f64 / count.max(1) as f64;
    Ok((pages, (count, took)))
}

/// Loads records, performs as many random updates, and looks up keys.
pub(super) fn measure(records: u64, index: HashedOptions) -> Result<StoreMeasurements> {
    let scratch = ScratchDirectory::new()?;
    let memory = (records * RECORD / DATA_TO_MEMORY).max(LEAST_MEMORY);
    // Pages are counted; a record in the record cache would request none.
    let options = Options::new().memory(memory).record_memory(0);
    let db = options.open(scratch.path().join("store"))?;
    let options = KeyspaceOptions::new().structure(Structure::Hashed(index));
    let keyspace = db.keyspace_with("records", &options)?;
    let lookups = (records / 4).clamp(1, 200_000);
    let mut ours = StoreMeasurements::default();
    let started = Instant::now();
    put(&db, &keyspace, 0..records)?;
    ours.load = started.elapsed();
    db.compact()?;
    ours.load_and_merges = started.elapsed();
    let mut random = fastrand::Rng::with_seed(7);
    let guides = |stats: &Stats| stats.hashed.map_or(0, |hashed| hashed.memory_bytes) as f64;
    let written = |stats: &Stats| {
        let of = |purpose| stats.device.of(purpose).written_bytes;
        of(Purpose::Log) + of(Purpose::Incorporate) + of(Purpose::Compact)
    };
    let before = db.stats();
    let (mut sum, mut most) = (0.0, 0.0_f64);
    for _ in 0..PARTS {
        put(
            &db,
            &keyspace,
            (0..records / PARTS).map(|_| random.u64(..records)),
        )?;
        let bytes = guides(&db.stats());
        (sum, most) = (sum + bytes, most.max(bytes));
    }
    ours.memory_bytes = sum / PARTS as f64 / records as f64;
    ours.most_memory_bytes = most / records as f64;
    let busy = db.stats();
    ours.hash_stores = busy.hashed.map_or(0, |hashed| hashed.hash_stores);
    let any: Vec<u64> = (0..lookups).map(|_| random.u64(..records)).collect();
    ours.busy_hit_pages = look(&db, &keyspace, true, any.iter().copied())?.0;
    db.compact()?;
    let after = db.stats();
    let user = (after.written_bytes - before.written_bytes).max(1);
    ours.write_amplification = (written(&after) - written(&before)) as f64 / user as f64;
    ours.rest_memory_bytes = guides(&after) / records as f64;
    (ours.hit_pages, ours.hits) = look(&db, &keyspace, true, any.iter().copied())?;
    let absent: Vec<u64> = (records..records + lookups).collect();
    (ours.miss_pages, ours.misses) = look(&db, &keyspace, false, absent.iter().copied())?;
    db.close()?;
    Ok(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_asks_for_a_page_and_memory_is_a_fraction_of_a_byte() {
        let ours = measure(40_000, HashedOptions::pachash()).unwrap();
        assert!((0.9..1.1).contains(&ours.hit_pages), "{ours:?}");
        assert!((0.9..1.2).contains(&ours.miss_pages), "{ours:?}");
        assert!(
            ours.rest_memory_bytes < 0.5 && ours.rest_memory_bytes > 0.1,
            "{ours:?}"
        );
        assert!(ours.write_amplification > 1.0, "{ours:?}");
    }
}
