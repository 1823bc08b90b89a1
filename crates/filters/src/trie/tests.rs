//! Tests with the paper's example, and with the sizes that its analysis predicts.

use super::code::SMALL;
use super::encode::{BucketKeys, TrieEncoder};
use super::huffman::lengths;
use super::key::KeyBits;
use super::walk::{TrieFault, TrieWalk};
use super::*;
use crate::bits::BitWriter;

/// Returns keys of 8 bytes that start with the given bits.
fn keys(prefixes: &[&str]) -> Vec<[u8; 8]> {
    let key = |prefix: &&str| key_of(u64::from_str_radix(prefix, 2).unwrap() << (64 - prefix.len()));
    prefixes.iter().map(key).collect()
}

#[test]
fn the_paper_s_trie_is_3_2_1_3_1_1_1_and_10010_has_rank_3() {
    let codes = TrieCodes::new(64);
    let all = keys(&["000", "001", "01", "100", "1010", "1011", "110", "111"]);
    let mut bucket = BucketKeys::new(0);
    all.iter()
        .for_each(|key| bucket.push(KeyBits::of(key, 1).1.fraction, &[]));
    let mut out = BitWriter::new();
    let encoder = TrieEncoder {
        codes: &codes,
        keys: &bucket,
        block_items: 1,
        key_bits: 64,
    };
    encoder.encode(&mut out, 0);
    let end = out.len();
    let stream = out.finish();
    let (mut at, mut numbers) = (0, Vec::new());
    // Decode the numbers of keys that go left, for the subtries in the order in which they were
    // written.
    for keys in [8, 3, 2, 5, 3, 2, 2] {
        let (left, bits) = codes.decode(&stream, at, keys).unwrap();
        numbers.push(left);
        at += u64::from(bits);
    }
    assert_eq!((at, numbers), (end, vec![3, 2, 1, 3, 1, 1, 1]));
    let walk = || TrieWalk {
        codes: &codes,
        stream: &stream,
        at: 0,
        end,
        block_items: 1,
        key_bits: 64,
    };
    for (key, rank) in [("10010", 3), ("10000", 3), ("10011", 3), ("001", 1), ("1111", 7)] {
        let key = keys(&[key])[0];
        assert_eq!(walk().rank(KeyBits::of(&key, 1).1, 8, 0), Ok(rank));
    }
    let mut skipping = walk();
    skipping.skip(8, 0, 0).unwrap();
    assert_eq!(skipping.at, end, "skipping passes the trie and no more");
}

/// Generates random keys. Returns them in ascending order, and their encoded index.
fn build(codes: &TrieCodes, shape: TrieShape, keys: u64, buckets: u64, seed: u64) -> (Vec<[u8; 8]>, Vec<u8>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all: Vec<[u8; 8]> = (0..keys).map(|_| key_of(random.u64(..))).collect();
    all.sort_unstable();
    all.dedup();
    let mut builder = TrieIndexBuilder::new(codes, shape, buckets).unwrap();
    all.iter().for_each(|key| builder.push(key).unwrap());
    (all, builder.finish())
}

fn assert_near(found: f64, expected: f64, within: f64) {
    assert!((found - expected).abs() <= within, "{found:.4}, not {expected}");
}

#[test]
fn tries_of_n_keys_have_the_expected_bits_of_the_paper() {
    let codes = TrieCodes::new(64);
    let bits = codes.expected_trie_bits(1024);
    for (keys, expected) in [
        (2, 1.0),
        (16, 2.123),
        (64, 2.299),
        (128, 2.353),
        (256, 2.379),
        (512, 2.394),
        (1024, 2.402),
    ] {
        assert_near(bits[keys] / keys as f64, expected, 0.0006);
    }
    let mut random = fastrand::Rng::with_seed(8);
    let mut sum = 0;
    for _ in 0..200 {
        let all: Vec<u64> = (0..256).map(|_| random.u64(..)).collect();
        sum += trie_bits(&codes, &all, 64);
    }
    assert_near(f64::from(sum) / 200.0 / 256.0, bits[256] / 256.0, 0.01);
}

#[test]
fn one_word_for_all_left_and_all_right_saves_0_44_bits_a_key() {
    let codes = TrieCodes::new(64);
    let (mut bits, mut row) = (vec![0.0f64], vec![1.0f64]);
    for keys in 1..=256usize {
        row.push(0.0);
        (1..=keys)
            .rev()
            .for_each(|left| row[left] = f64::midpoint(row[left], row[left - 1]));
        row[0] /= 2.0;
        let scaled: Vec<u64> = row.iter().map(|p| (p * 44f64.exp2()).max(1.0) as u64).collect();
        let words = if keys <= 64 { lengths(&scaled) } else { Vec::new() };
        let length = |left: usize| {
            words
                .get(left)
                .map_or_else(|| codes.bits(left as u32, keys as u32), |&bits| bits.into())
        };
        let mut sum = 0.0;
        for left in (0..=keys).filter(|_| keys > 1) {
            let below = if left % keys == 0 {
                0.0
            } else {
                bits[left] + bits[keys - left]
            };
            sum += row[left] * (f64::from(length(left)) + below);
        }
        bits.push(sum / (1.0 - row[0] - row[keys]).max(0.1));
    }
    let merged = codes.expected_trie_bits(256)[256] / 256.0;
    assert_near(bits[256] / 256.0, 2.822, 0.0006);
    assert_near(bits[256] / 256.0 - merged, 0.443, 0.001);
}

/// Computes the length in bits of the trie of some numbers without building it.
fn trie_bits(codes: &TrieCodes, all: &[u64], depth: u32) -> u32 {
    if all.len() <= 1 {
        return 0;
    }
    let (right, left): (Vec<u64>, Vec<u64>) = all.iter().partition(|&&key| key >> (depth - 1) & 1 == 1);
    let here = codes.bits(left.len() as u32, all.len() as u32);
    here + trie_bits(codes, &left, depth - 1) + trie_bits(codes, &right, depth - 1)
}

#[test]
fn indexes_have_the_bits_a_key_of_the_paper() {
    let codes = TrieCodes::new(64);
    for (keys, expected) in [
        (16, 4.13),
        (32, 3.24),
        (64, 2.82),
        (128, 2.61),
        (256, 2.512),
        (512, 2.46),
        (1024, 2.44),
    ] {
        let computed = codes.expected_bits_per_key(keys);
        assert_near(computed, expected, 0.006);
        let buckets = 200_000 / u64::from(keys);
        let (all, bytes) = build(&codes, TrieShape::new(8), buckets * u64::from(keys), buckets, 5);
        assert_near(
            bytes.len() as f64 * 8.0 / all.len() as f64,
            computed,
            computed / 100.0,
        );
    }
    for (hmax, expected) in [
        (1, 3.64),
        (2, 2.92),
        (4, 2.71),
        (8, 2.61),
        (16, 2.56),
        (32, 2.53),
        (64, 2.51),
        (128, 2.50),
        (256, 2.49),
    ] {
        let codes = TrieCodes::new(hmax);
        let computed = codes.expected_bits_per_key(256);
        assert_near(computed, expected, 0.006);
        let shape = TrieShape {
            hmax,
            ..TrieShape::new(8)
        };
        let (all, bytes) = build(&codes, shape, 100_000, 391, 6);
        assert_near(
            bytes.len() as f64 * 8.0 / all.len() as f64,
            computed,
            computed / 100.0,
        );
    }
}

#[test]
fn sparse_indexes_have_the_bits_a_key_of_the_paper() {
    let codes = TrieCodes::new(64);
    let table = [
        (2, 2.02, 2.02),
        (4, 1.57, 1.58),
        (8, 1.13, 1.15),
        (16, 0.76, 0.79),
        (32, 0.47, 0.52),
        (64, 0.27, 0.33),
    ];
    for (block_items, aligned, average) in table {
        let bits = codes.expected_sparse_bits(256, block_items);
        assert_near(bits[0][256] / 256.0, aligned, 0.006);
        let mean = bits.iter().map(|bits| bits[256]).sum::<f64>() / f64::from(block_items);
        assert_near(mean / 256.0, average, 0.006);
        let shape = TrieShape {
            block_items,
            ..TrieShape::new(8)
        };
        let (all, bytes) = build(&codes, shape, 200_000, 781, 7);
        let index = TrieIndex::open(&codes, 8, &bytes).unwrap();
        let found = index.trie_bits() as f64 / all.len() as f64;
        assert_near(found, mean / 256.0, 0.02);
        assert!(block_items < 16 || found <= 0.8, "{found}");
    }
}

#[test]
fn small_tries_found_at_once_end_where_decoding_them_ends() {
    let mut random = fastrand::Rng::with_seed(3);
    for hmax in [1, 5, 64] {
        let codes = TrieCodes::new(hmax);
        let mut found = 0;
        for _ in 0..20_000 {
            let (keys, bits) = (random.u32(2..=SMALL), random.u64(..));
            let mut stream = BitWriter::new();
            stream.push(bits, 64);
            let stream = stream.finish();
            let mut walk = TrieWalk {
                codes: &codes,
                stream: &stream,
                at: 0,
                end: 64,
                block_items: 1,
                key_bits: 64,
            };
            let end = walk.skip(keys, 0, 0).ok().map(|()| walk.at as u32);
            let at_once = codes.small_trie(&stream, 0, keys);
            assert_eq!(
                at_once,
                end.filter(|&end| end <= 12).unwrap_or(0),
                "{keys} keys, {bits:b}"
            );
            found += u32::from(at_once != 0);
        }
        assert!(found > 5000, "{found}");
    }
}

#[test]
fn a_trie_deeper_than_a_key_or_longer_than_its_bucket_is_refused() {
    let codes = TrieCodes::new(64);
    // For a node with 2 keys, a zero bit means that both keys go to the same side.
    let stream = [0; 64];
    let walk = |end, key_bits| TrieWalk {
        codes: &codes,
        stream: &stream,
        at: 0,
        end,
        block_items: 1,
        key_bits,
    };
    let key = KeyBits::of(&[0xff; 8], 1).1;
    assert_eq!(walk(400, 64).rank(key, 2, 0), Err(TrieFault::Depth), "T4");
    assert_eq!(walk(400, 64).skip(2, 0, 0), Err(TrieFault::Depth), "T4");
    assert_eq!(walk(40, 64).rank(key, 2, 0), Err(TrieFault::Word));
    assert_eq!(walk(40, 64).skip(2, 0, 0), Err(TrieFault::Word));
}
