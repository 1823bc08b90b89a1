//! Tests of the eviction policies' hit ratios.

use crate::zipf::Zipf;
use alluvium_hashes::mica::mode::Erew;
use alluvium_hashes::mica::{CacheEviction, ExclusiveTable, HashedKey, LossyOptions, LossyTable, NEVER};
use std::collections::{BTreeMap, HashMap};

const KEYS: usize = 20_000;

/// Runs a trace through a cache for a tenth of the keys, and sets each key that misses. Returns the
/// hit ratio in the second half.
fn ratio(eviction: CacheEviction, trace: &[u64]) -> f64 {
    // Items take 64 bytes, including their header.
    let options = LossyOptions {
        eviction,
        ..LossyOptions::new(KEYS / 10 * 64, 60)
    };
    let mut cache = ExclusiveTable::new(LossyTable::<Erew>::new(&options).unwrap());
    let mut hits = 0;
    for (step, key) in trace.iter().enumerate() {
        let bytes = key.to_le_bytes();
        let key = HashedKey::new(options.seed, &bytes);
        if cache.get(key, 0).is_some() {
            hits += usize::from(step >= trace.len() / 2);
        } else {
            cache.set(key, &[7; 52], NEVER, 0).unwrap();
        }
    }
    hits as f64 / (trace.len() / 2) as f64
}

fn zipf_trace(len: usize) -> Vec<u64> {
    let (zipf, mut random) = (Zipf::new(KEYS), fastrand::Rng::with_seed(3));
    (0..len).map(|_| zipf.draw(&mut random)).collect()
}

/// Returns the same trace, interleaved with scans of keys that are each read once and make up half
/// of all lookups.
fn scan_trace(len: usize) -> Vec<u64> {
    let mut next = 1 << 40;
    let mut trace = Vec::with_capacity(2 * len);
    for keys in zipf_trace(len).chunks(500) {
        trace.extend_from_slice(keys);
        trace.extend(next..next + 500);
        next += 500;
    }
    trace
}

/// Returns the hit ratio of an exact LRU list with the same capacity.
fn exact_lru(trace: &[u64]) -> f64 {
    let (mut last, mut order) = (HashMap::new(), BTreeMap::new());
    let mut hits = 0;
    for (step, key) in trace.iter().enumerate() {
        if let Some(before) = last.insert(*key, step) {
            order.remove(&before);
            hits += usize::from(step >= trace.len() / 2);
        }
        order.insert(step, *key);
        if order.len() > KEYS / 10 {
            let (_, oldest) = order.pop_first().unwrap();
            last.remove(&oldest);
        }
    }
    hits as f64 / (trace.len() / 2) as f64
}

/// LRU that copies every hit to the tail has a lower hit ratio than FIFO, because each copy takes
/// the space of an item. Copying only from the older half pays off.
#[test]
fn under_zipf_approximate_lru_answers_nearly_what_an_exact_list_does_and_more_than_fifo() {
    let trace = zipf_trace(300_000);
    let [fifo, copying, approximate, s3] = [
        CacheEviction::Fifo,
        CacheEviction::Lru,
        CacheEviction::ApproximateLru,
        CacheEviction::S3Fifo,
    ]
    .map(|eviction| ratio(eviction, &trace));
    let exact = exact_lru(&trace);
    let ratios = format!(
        "exact LRU {exact:.3}, approximate {approximate:.3}, FIFO {fifo:.3}, LRU {copying:.3}, S3 {s3:.3}"
    );
    assert!(exact >= approximate && approximate >= fifo, "{ratios}");
    assert!(approximate > exact * 0.96, "{ratios}");
    assert!(copying < approximate, "{ratios}");
    assert!(s3 > exact * 1.02, "{ratios}");
}

#[test]
fn beside_scans_s3_fifo_keeps_what_is_asked_for_again() {
    let trace = scan_trace(200_000);
    let [fifo, lru, s3] = [CacheEviction::Fifo, CacheEviction::Lru, CacheEviction::S3Fifo]
        .map(|eviction| ratio(eviction, &trace));
    let ratios = format!("FIFO {fifo:.3}, LRU {lru:.3}, S3 {s3:.3}");
    assert!(s3 > lru * 1.1 && s3 > fifo * 1.1, "{ratios}");
    // Half of the lookups can never hit.
    assert!(s3 < 0.5, "{ratios}");
}
