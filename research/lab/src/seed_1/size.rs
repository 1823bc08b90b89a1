//! E3, E6, E7 and E9: bits per key of tries, and the time of a lookup in them.

use super::harness::{at_name, at_number, line, lines};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use alluvium_filters::hash;
use alluvium_filters::trie::{TrieCodes, TrieIndex, TrieIndexBuilder, TrieShape, key_of};
use anyhow::Result;
use research_filters::perfect;
use std::hint::black_box;
use std::time::Instant;

const BITS: &str = "bits";
const BY_BUCKET: &str = "bits by bucket";
const BY_HMAX: &str = "bits by hmax";
const TIME: &str = "time by bucket";
const TRIE: &str = "trie";
const SPARSE: &str = "sparse";
const ITEMS: &str = "items";

const LOOKUPS: u64 = 200_000;
/// Number of bits in 4 GiB.
const MEMORY_BITS: f64 = (4u64 << 33) as f64;

pub(super) const E3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/E3",
    ours: &[("size", |measured| lines(measured, BITS))],
    work: ExperimentMethod::Here {
        quick: 500_000,
        full: 16_000_000,
        most: 200_000_000,
        measure: sizes,
    },
};

pub(super) const E6: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/E6",
    ours: &[
        ("size by keys of a bucket", |measured| lines(measured, BY_BUCKET)),
        ("size by keys of a Huffman-coded trie", |measured| {
            lines(measured, BY_HMAX)
        }),
        ("time of a lookup", |measured| lines(measured, TIME)),
    ],
    work: ExperimentMethod::Here {
        quick: 300_000,
        full: 16_000_000,
        most: 200_000_000,
        measure: trade,
    },
};

pub(super) const E7: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/E7",
    ours: &[
        ("trie of one bucket", |measured| lines(measured, TRIE)),
        ("sparse trie of 256 keys", |measured| lines(measured, SPARSE)),
    ],
    work: ExperimentMethod::Here {
        quick: 256,
        full: 1024,
        most: 4096,
        measure: expected,
    },
};

pub(super) const E9: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/E9",
    ours: &[("items", |measured| lines(measured, ITEMS))],
    work: ExperimentMethod::Here {
        quick: 500_000,
        full: 16_000_000,
        most: 200_000_000,
        measure: |keys| {
            let (bytes, keys) = tries(&sorted(keys), 64, 256)?;
            let per_key = bytes.len() as f64 * 8.0 / keys as f64;
            let items = MEMORY_BITS / per_key / 1e9;
            Ok(MeasurementSet {
                counts: vec![line(ITEMS, "alluvium", vec![at_name("tries", items)])],
                ..MeasurementSet::default()
            })
        },
    },
};

/// Returns the hashes of the numbers below `keys`, in order.
fn sorted(keys: u64) -> Vec<u64> {
    let mut hashes: Vec<u64> = (0..keys).map(|number| hash(1, &number.to_le_bytes())).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Returns the encoded tries of an index, and the number of keys.
fn tries(hashes: &[u64], hmax: u32, keys_per_bucket: u32) -> Result<(Vec<u8>, u64)> {
    let codes = TrieCodes::new(hmax);
    let shape = TrieShape {
        hmax,
        keys_per_bucket,
        ..TrieShape::new(8)
    };
    let mut builder = TrieIndexBuilder::new(&codes, shape, shape.buckets(hashes.len() as u64))?;
    for &hash in hashes {
        builder.push(&key_of(hash))?;
    }
    Ok((builder.finish(), hashes.len() as u64))
}

fn sizes(keys: u64) -> Result<MeasurementSet> {
    let hashes = sorted(keys);
    let (bytes, keys) = tries(&hashes, 64, 256)?;
    let mut builder = perfect::PerfectHashBuilder::new(8, perfect::buckets(keys), |_, _: &[u8]| {})?;
    for &hash in &hashes {
        builder.push(&key_of(hash))?;
    }
    let bits = |bytes: usize| bytes as f64 * 8.0 / keys as f64;
    let points = vec![
        at_name("tries", bits(bytes.len())),
        at_name("perfect hashes", bits(builder.finish()?.len())),
    ];
    Ok(MeasurementSet {
        counts: vec![line(BITS, "alluvium", points)],
        ..MeasurementSet::default()
    })
}

fn trade(keys: u64) -> Result<MeasurementSet> {
    let hashes = sorted(keys);
    let bits = |bytes: &[u8]| bytes.len() as f64 * 8.0 / hashes.len() as f64;
    let (mut built, mut computed, mut times) = (Vec::new(), Vec::new(), Vec::new());
    let codes = TrieCodes::new(64);
    for bucket in [16, 32, 64, 128, 256, 512, 1024] {
        let (bytes, _) = tries(&hashes, 64, bucket)?;
        built.push(at_number(bucket.into(), bits(&bytes)));
        computed.push(at_number(bucket.into(), codes.expected_bits_per_key(bucket)));
        times.push(at_number(bucket.into(), lookup_us(&codes, &bytes, &hashes)?));
    }
    let (mut by_hmax, mut computed_by_hmax) = (Vec::new(), Vec::new());
    for hmax in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
        let (bytes, _) = tries(&hashes, hmax, 256)?;
        by_hmax.push(at_number(hmax.into(), bits(&bytes)));
        computed_by_hmax.push(at_number(
            hmax.into(),
            TrieCodes::new(hmax).expected_bits_per_key(256),
        ));
    }
    Ok(MeasurementSet {
        counts: vec![
            line(BY_BUCKET, "alluvium", built),
            line(BY_BUCKET, "expected", computed),
            line(BY_HMAX, "alluvium", by_hmax),
            line(BY_HMAX, "expected", computed_by_hmax),
            line(TIME, "alluvium", times),
        ],
        ..MeasurementSet::default()
    })
}

/// Returns the time of a lookup in microseconds.
fn lookup_us(codes: &TrieCodes, bytes: &[u8], hashes: &[u64]) -> Result<f64> {
    let index = TrieIndex::open(codes, 8, bytes)?;
    let mut random = fastrand::Rng::with_seed(7);
    let started = Instant::now();
    for _ in 0..LOOKUPS {
        let at = random.usize(0..hashes.len());
        let found = black_box(index.lookup(&key_of(hashes[at]))?);
        anyhow::ensure!(found == Some(at as u64), "the index has lost a key");
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / LOOKUPS as f64)
}

fn expected(most: u64) -> Result<MeasurementSet> {
    let codes = TrieCodes::new(64);
    let most = u32::try_from(most)?.max(256);
    let dense = codes.expected_trie_bits(most);
    let keys = (1..=most.ilog2()).map(|log| 1usize << log);
    let trie = keys.map(|keys| at_number(keys as f64, dense[keys] / keys as f64));
    let sparse = [2u32, 4, 8, 16, 32, 64].map(|items| {
        let by_start = codes.expected_sparse_bits(256, items);
        let sum: f64 = by_start.iter().map(|bits| bits[256]).sum();
        at_number(items.into(), sum / f64::from(items) / 256.0)
    });
    Ok(MeasurementSet {
        counts: vec![
            line(TRIE, "alluvium", trie.collect()),
            line(SPARSE, "alluvium", sparse.to_vec()),
        ],
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_takes_the_bits_that_are_expected() {
        let measured = trade(60_000).unwrap();
        for what in [BY_BUCKET, BY_HMAX] {
            let both = lines(&measured, what);
            for (built, expected) in both[0].points.iter().zip(&both[1].points) {
                assert!(
                    (built.value / expected.value - 1.0).abs() < 0.02,
                    "{built:?} {expected:?}"
                );
            }
        }
        // The exact recursion over the codes, for 16 and for 256 keys in a bucket.
        let points = &lines(&measured, BY_BUCKET)[1].points;
        for (at, bits) in [
            (0, 4.13),
            (1, 3.24),
            (2, 2.82),
            (3, 2.61),
            (4, 2.512),
            (5, 2.46),
            (6, 2.44),
        ] {
            assert!((points[at].value - bits).abs() < 0.006, "{:?}", points[at]);
        }
    }

    #[test]
    fn curves_are_those_of_the_exact_recursion() {
        let measured = expected(1024).unwrap();
        let trie = &lines(&measured, TRIE)[0].points;
        for (keys, bits) in [
            (2.0, 1.0),
            (16.0, 2.123),
            (64.0, 2.299),
            (256.0, 2.379),
            (1024.0, 2.402),
        ] {
            let point = trie.iter().find(|point| point.at.number() == Some(keys)).unwrap();
            assert!((point.value - bits).abs() < 0.001, "{point:?}");
        }
        let sparse = &lines(&measured, SPARSE)[0].points;
        for (point, bits) in sparse.iter().zip([2.02, 1.58, 1.15, 0.79, 0.52, 0.33]) {
            assert!((point.value - bits).abs() < 0.011, "{point:?}");
        }
    }

    #[test]
    fn tries_are_smaller_than_perfect_hashes() {
        let points = lines(&sizes(50_000).unwrap(), BITS).remove(0).points;
        assert!(points[0].value < points[1].value, "{points:?}");
    }
}
