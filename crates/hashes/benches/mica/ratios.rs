//! Hit ratios of the eviction policies, by cache size.

use crate::load::Scale;
use crate::zipf::Zipf;
use alluvium_hashes::mica::mode::Erew;
use alluvium_hashes::mica::{CacheEviction, ExclusiveTable, HashedKey, LossyOptions, LossyTable, NEVER};

const EVICTIONS: [(&str, CacheEviction); 4] = [
    ("FIFO", CacheEviction::Fifo),
    ("LRU", CacheEviction::Lru),
    ("approximate LRU", CacheEviction::ApproximateLru),
    ("S3-FIFO", CacheEviction::S3Fifo),
];

/// Requests in a trace per key.
const LENGTH: usize = 8;
/// Number of keys in a scan; it alternates with the same number of requests of the skewed load.
const SCAN: usize = 1000;

pub(crate) fn run(scale: &Scale) {
    let (zipf, mut random) = (Zipf::new(scale.keys), fastrand::Rng::with_seed(3));
    let skewed: Vec<u64> = (0..LENGTH * scale.keys).map(|_| zipf.draw(&mut random)).collect();
    let mut scanned = Vec::with_capacity(2 * skewed.len());
    let mut next = 1 << 40;
    for requests in skewed.chunks(SCAN) {
        scanned.extend_from_slice(requests);
        scanned.extend(next..next + SCAN as u64);
        next += SCAN as u64;
    }
    for (name, trace) in [("zipf", &skewed), ("zipf with scans", &scanned)] {
        for percent in [1, 10, 25] {
            let ratios = EVICTIONS.map(|(named, eviction)| {
                format!(
                    "{named} {:.3}",
                    ratio(scale.keys * percent / 100, eviction, trace)
                )
            });
            println!(
                "hit ratio, {name}, cache of {percent} % of the keys: {}",
                ratios.join(", ")
            );
        }
    }
}

/// Runs a trace through a cache of `items` items, and sets each key that misses. Returns the hit
/// ratio in the second half.
fn ratio(items: usize, eviction: CacheEviction, trace: &[u64]) -> f64 {
    let options = LossyOptions {
        eviction,
        ..LossyOptions::new(items.max(20) * 64, 60)
    };
    let mut cache = ExclusiveTable::new(LossyTable::<Erew>::new(&options).expect("options that fit"));
    let mut hits = 0;
    for (step, key) in trace.iter().enumerate() {
        let bytes = key.to_le_bytes();
        let key = HashedKey::new(options.seed, &bytes);
        if cache.get(key, 0).is_some() {
            hits += usize::from(step >= trace.len() / 2);
        } else {
            cache.set(key, &[7; 52], NEVER, 0).expect("an item that fits");
        }
    }
    hits as f64 / (trace.len() / 2) as f64
}
