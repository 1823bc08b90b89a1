//! S9 to S12: the speed of indexes, and of a store's writes, conversions, merges and reads.

use super::harness::{at_name, at_number, line, lines, thousands};
use super::hashed_store::{self, RECORD};
use super::silt::{SET, SiltStore, TAG_BITS, proportioned};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use alluvium::HashedOptions;
use alluvium_filters::trie::{TrieCodes, TrieIndex, TrieIndexBuilder, TrieShape, key_of};
use alluvium_filters::{hash, pachash};
use anyhow::{Result, ensure};
use research_filters::cuckoo::{CuckooFilter, CuckooShape, CuckooTable};
use research_hashes::silt::HashedKey;
use research_hashes::silt::log::LogIndex;
use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

const RATE: &str = "rate";
const LOAD: &str = "load";
const COMBINED: &str = "combined";

/// Maximum number of timed lookups.
const LOOKUPS: u64 = 10_000_000;
/// Number of filters in the combined index, and of tables filled to measure their load.
const FILTERS: usize = 32;
const TABLES: u64 = 20;

pub(super) const S9: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S9",
    ours: &[
        ("rate", |measured| lines(measured, RATE)),
        ("load of a cuckoo table when an insert fails first", |measured| {
            lines(measured, LOAD)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 300_000,
        full: 30_000_000,
        most: 126_000_000,
        measure: indexes,
    },
};

pub(super) const S10: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S10",
    ours: &[("lookups", |measured| lines(measured, COMBINED))],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 10_000_000,
        most: 100_000_000,
        measure: combined,
    },
};

pub(super) const S11: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S11",
    ours: &[("rate", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: 100_000,
        full: 10_000_000,
        most: 100_000_000,
        measure: construction,
    },
};

pub(super) const S12: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/S12",
    ours: &[("lookups", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: 100_000,
        full: 10_000_000,
        most: 100_000_000,
        measure: by_store,
    },
};

/// Returns the shape of the document's table.
fn shape() -> Result<CuckooShape> {
    Ok(CuckooShape::alternate(TAG_BITS)?)
}

fn hash_of(number: u64) -> u64 {
    hash(7, &number.to_le_bytes())
}

/// Fills tables one after the other and returns them.
fn tables(keys: u64, shape: CuckooShape) -> Vec<CuckooTable> {
    let mut tables = vec![CuckooTable::new(shape, 1)];
    for number in 0..keys {
        let table = tables.last_mut().expect("there is one");
        if table.insert(hash_of(number), 0).is_err() {
            let mut next = CuckooTable::new(shape, number);
            next.insert(hash_of(number), 0)
                .expect("an empty table takes a key");
            tables.push(next);
        }
    }
    tables
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let made = run();
    (made, started.elapsed())
}

/// Builds a trie. Returns the hashes, the encoded trie and the build time.
fn trie(keys: u64, codes: &TrieCodes) -> Result<(Vec<u64>, Vec<u8>, Duration)> {
    let mut hashes: Vec<u64> = (0..keys).map(hash_of).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let (bytes, took) = timed(|| -> Result<Vec<u8>> {
        // Buckets of 64 keys, as in the document's second chapter.
        let shape = TrieShape {
            keys_per_bucket: 64,
            ..TrieShape::new(8)
        };
        let mut builder = TrieIndexBuilder::new(codes, shape, shape.buckets(hashes.len() as u64))?;
        for &hash in &hashes {
            builder.push(&key_of(hash))?;
        }
        Ok(builder.finish())
    });
    Ok((hashes, bytes?, took))
}

fn indexes(keys: u64) -> Result<MeasurementSet> {
    let lookups = keys.min(LOOKUPS);
    let (tables, inserting) = timed(|| tables(keys, shape().expect("15 bits are possible")));
    let mut random = fastrand::Rng::with_seed(5);
    let (found, looking) = timed(|| {
        let find = |_| {
            let table = &tables[random.usize(..tables.len())];
            table.candidates(hash_of(random.u64(..keys))).count() as u64
        };
        (0..lookups).map(find).sum::<u64>()
    });
    ensure!(black_box(found) > 0, "some keys are in the table that was asked");
    let codes = TrieCodes::new(64);
    let (hashes, bytes, building) = trie(keys, &codes)?;
    let index = TrieIndex::open(&codes, 8, &bytes)?;
    let (right, ranking) = timed(|| {
        let find = |_| {
            let at = random.usize(..hashes.len());
            let found = index.lookup(&key_of(hashes[at])).ok().flatten();
            u64::from(found == Some(at as u64))
        };
        (0..lookups).map(find).sum::<u64>()
    });
    ensure!(right == lookups, "the trie has lost a key");
    let pachash = leaf_rate(&hashes, lookups)?;
    let points = vec![
        at_name("cuckoo insert", thousands(keys, inserting)),
        at_name("cuckoo lookup", thousands(lookups, looking)),
        at_name("trie build", thousands(hashes.len() as u64, building)),
        at_name("trie lookup", thousands(lookups, ranking)),
        at_name("PaCHash lookup", pachash),
    ];
    let loads = [10u32, 12, 15].map(|bits| {
        let shape = CuckooShape::alternate(bits).expect("such tags are possible");
        let mean = (0..TABLES).map(|seed| first_failure(shape, seed)).sum::<f64>() / TABLES as f64;
        at_number(f64::from(shape.buckets()), mean)
    });
    Ok(MeasurementSet {
        counts: vec![
            line(RATE, "alluvium", points),
            line(LOAD, "alluvium", loads.to_vec()),
        ],
        ..MeasurementSet::default()
    })
}

/// Returns the load of a table at its first failed insert.
fn first_failure(shape: CuckooShape, seed: u64) -> f64 {
    let mut table = CuckooTable::new(shape, seed);
    let mut random = fastrand::Rng::with_seed(seed);
    while table.insert(random.u64(..), 0).is_ok() {}
    table.load()
}

/// Returns thousands of lookups per second that map a hash to its leaf, for leaves of 60 records.
fn leaf_rate(hashes: &[u64], lookups: u64) -> Result<f64> {
    const LEAF: u32 = 4096;
    const RECORDS: usize = 60;
    let leaves = hashes.chunks(RECORDS);
    let shape = pachash::BlockIndexShape::with_bins(leaves.len() as u64 * u64::from(LEAF), LEAF, 8)?;
    let mut builder = pachash::BlockIndexBuilder::new(shape);
    for leaf in leaves {
        builder.push(leaf[0], 1)?;
        builder.push(leaf[leaf.len() - 1], u64::from(LEAF) - 1)?;
    }
    let bytes = builder.finish()?;
    let index = pachash::BlockIndex::open(&bytes)?;
    let mut random = fastrand::Rng::with_seed(9);
    let (right, took) = timed(|| {
        let find = |_| {
            let at = random.usize(..hashes.len());
            let found = index.blocks(hashes[at]).unwrap_or_default();
            u64::from(found.contains(&((at / RECORDS) as u64)))
        };
        (0..lookups).map(find).sum::<u64>()
    });
    ensure!(right == lookups, "the index has lost a key");
    Ok(thousands(lookups, took))
}

fn combined(keys: u64) -> Result<MeasurementSet> {
    let lookups = (keys / 4).clamp(1, 1_000_000);
    let shape = shape()?;
    let codes = TrieCodes::new(64);
    let (_, bytes, _) = trie(keys, &codes)?;
    let index = TrieIndex::open(&codes, 8, &bytes)?;
    let filters: Vec<Vec<u8>> = (0..FILTERS as u64)
        .map(|number| {
            let mut log = LogIndex::new(shape, number);
            let is_key = |_| Ok::<_, Infallible>(false);
            // Fill to about the load at which the first insert fails.
            for key in 0..u64::from(shape.slots()) * 93 / 100 {
                let key = HashedKey::of(number, &key.to_le_bytes());
                let Ok(_) = log.put(key, 0, is_key);
            }
            log.filter()
        })
        .collect();
    let opened: Result<Vec<CuckooFilter<'_>>, _> =
        filters.iter().map(|bytes| CuckooFilter::open(bytes)).collect();
    let opened = opened?;
    let (hits, took) = timed(|| {
        let look = |number: u64| {
            let hash = hash_of(keys + number);
            let in_filters = opened.iter().filter(|filter| filter.may_hold(hash)).count() as u64;
            let rank = index.lookup(&key_of(hash)).ok().flatten();
            in_filters + u64::from(black_box(rank).is_some())
        };
        (0..lookups).map(look).sum::<u64>()
    });
    black_box(hits);
    let points = vec![at_name("32 filters and a trie", thousands(lookups, took))];
    Ok(MeasurementSet {
        counts: vec![line(COMBINED, "alluvium", points)],
        ..MeasurementSet::default()
    })
}

fn construction(keys: u64) -> Result<MeasurementSet> {
    let (shape, count) = proportioned(keys, SET)?;
    // Half of a set is merged at once into an empty sorted store, as in the document.
    let mut silt = SiltStore::new(shape, u64::MAX);
    let (put, took) = timed(|| (0..count).try_for_each(|key| silt.put(key)));
    put?;
    let putting = took.saturating_sub(silt.counted.converting);
    let converted = silt.counted;
    silt.merge()?;
    let merging = silt.counted.merging;
    let ours = hashed_store::measure(keys, HashedOptions::pachash())?;
    let entries = (converted.loads * f64::from(shape.slots())) as u64;
    Ok(MeasurementSet {
        counts: vec![
            line(
                RATE,
                "SILT, without a device",
                vec![
                    at_name("put", thousands(count, putting)),
                    at_name("convert", thousands(entries, converted.converting)),
                    at_name("merge", thousands(silt.counted.taken, merging)),
                ],
            ),
            line(
                RATE,
                "alluvium, 64 bytes",
                vec![
                    at_name("put", thousands(keys, ours.load)),
                    at_name("put and merge", thousands(keys, ours.load_and_merges)),
                ],
            ),
        ],
        ..MeasurementSet::default()
    })
}

fn by_store(keys: u64) -> Result<MeasurementSet> {
    let shape = shape()?;
    let full = u64::from(shape.slots()) * 92 / 100;
    let mut log = LogIndex::new(shape, 1);
    let hashed = |number: u64| HashedKey::of(3, &number.to_le_bytes());
    for number in 0..full {
        let Ok(_) = log.put(hashed(number), number as u32, |_| Ok::<_, Infallible>(false));
    }
    let filter = log.filter();
    let filter = CuckooFilter::open(&filter)?;
    let lookups = keys.min(LOOKUPS);
    let in_log = |first: u64| {
        timed(|| {
            let find = |number: u64| {
                let number = first + number % full;
                let is_key = |unit: u32| Ok::<_, Infallible>(u64::from(unit) == number);
                let Ok(found) = log.find(hashed(number), is_key);
                u64::from(found.is_some())
            };
            (0..lookups).map(find).sum::<u64>()
        })
    };
    let in_filter = |first: u64| {
        timed(|| {
            let find = |number: u64| u64::from(filter.may_hold(hashed(first + number % full).tag_hash()));
            (0..lookups).map(find).sum::<u64>()
        })
    };
    let (log_hits, log_misses) = (in_log(0), in_log(1 << 40));
    let (hash_hits, hash_misses) = (in_filter(0), in_filter(1 << 40));
    ensure!(log_misses.0 == 0 && log_hits.0 > 0, "the log has what was put");
    ensure!(hash_hits.0 > 100 * hash_misses.0, "the filter tells keys apart");
    let ours = hashed_store::measure(keys, HashedOptions::pachash())?;
    let rate = |(count, took): (u64, Duration)| thousands(count, took);
    let points = vec![
        at_name("sorted, hit", rate(ours.hits)),
        at_name("sorted, miss", rate(ours.misses)),
        at_name("hash, hit", thousands(lookups, hash_hits.1)),
        at_name("hash, miss", thousands(lookups, hash_misses.1)),
        at_name("log, hit", thousands(lookups, log_hits.1)),
        at_name("log, miss", thousands(lookups, log_misses.1)),
    ];
    Ok(MeasurementSet {
        counts: vec![line(RATE, &format!("alluvium, {RECORD} bytes"), points)],
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fill_as_far_as_the_document_says_and_every_rate_is_there() {
        let measured = indexes(20_000).unwrap();
        assert_eq!(lines(&measured, RATE)[0].points.len(), 5);
        let loads = &lines(&measured, LOAD)[0].points;
        let of_document = loads.last().unwrap();
        assert!((0.92..0.95).contains(&of_document.value), "{loads:?}");
        let combined = combined(20_000).unwrap();
        let stores = by_store(20_000).unwrap();
        let construction = construction(20_000).unwrap();
        for (measured, what, points) in [
            (&combined, COMBINED, 1),
            (&stores, RATE, 6),
            (&construction, RATE, 3),
        ] {
            let found = &lines(measured, what)[0].points;
            assert_eq!(found.len(), points);
            assert!(found.iter().all(|point| point.value > 0.0), "{found:?}");
        }
    }
}
