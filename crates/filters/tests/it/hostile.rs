//! Tests that arbitrary bytes never make the readers of unpaged structures panic, loop forever or
//! allocate without bound, and that damage is reported.

use alluvium_filters::{pachash, trie};

/// Damages valid bytes in many ways and passes on the results: flipped bits, overwritten bytes and
/// words, truncated and extended ends, and random bytes.
fn damaged(sound: &[u8], rounds: u32, seed: u64, mut read: impl FnMut(&[u8])) {
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..rounds {
        let mut bytes = sound.to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match round % 6 {
                0 => bytes[at] ^= 1 << random.u8(0..8),
                1 => bytes[at] = random.u8(..),
                2 => bytes[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
                3 => bytes[at..]
                    .iter_mut()
                    .take(8)
                    .for_each(|byte| *byte = random.u8(..)),
                4 => bytes.truncate(at.max(1)),
                _ => bytes.extend((0..at % 64).map(|_| random.u8(..))),
            }
        }
        read(&bytes);
    }
    for len in 0..sound.len().min(200) {
        let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        read(&bytes);
        read(&sound[..len]);
    }
}

#[test]
fn damaged_tries_make_nothing_panic_and_are_reported() {
    use trie::{BatchChange, TrieCodes, TrieIndex, TrieIndexBuilder, TrieShape, key_of};
    let codes = TrieCodes::new(64);
    for (block_items, buckets) in [(1, 9), (1, 1), (7, 5)] {
        let shape = TrieShape {
            block_items,
            ..TrieShape::new(8)
        };
        let mut builder = TrieIndexBuilder::new(&codes, shape, buckets).unwrap();
        let mut random = fastrand::Rng::with_seed(5);
        let mut hashes: Vec<u64> = (0..700).map(|_| random.u64(..)).collect();
        hashes.sort_unstable();
        hashes
            .iter()
            .for_each(|&hash| builder.push(&key_of(hash)).unwrap());
        let sound = builder.finish();
        assert!(TrieIndex::open(&codes, 8, &sound).unwrap().check().is_empty());
        let mut opened = 0;
        damaged(&sound, 4000, 6, |bytes| {
            let Ok(index) = TrieIndex::open(&codes, 8, bytes) else {
                return;
            };
            opened += 1;
            for hash in hashes.iter().step_by(40) {
                index.prefetch(&key_of(*hash));
                let _ = index.lookup(&key_of(*hash));
            }
            assert_eq!(index.check().is_empty(), bytes == sound);
            let changes = [(key_of(hashes[opened % 700]), BatchChange::Delete)];
            let read = |items: std::ops::Range<u64>| -> Result<Vec<[u8; 8]>, alluvium_filters::Error> {
                let items = items.start.min(700) as usize..items.end.min(700) as usize;
                let items = hashes.get(items).unwrap_or_default();
                Ok(items.iter().map(|&hash| key_of(hash)).collect())
            };
            let _ = index.update(&codes, &changes, read);
        });
        assert!(opened > 1000, "{opened} were opened");
    }
}

#[test]
fn a_trie_of_nothing_but_one_sided_words_ends_in_an_error() {
    use trie::{TrieCodes, TrieIndex, TrieIndexBuilder, TrieShape, key_of};
    let codes = TrieCodes::new(64);
    let mut builder = TrieIndexBuilder::new(&codes, TrieShape::new(8), 1).unwrap();
    (0..60).for_each(|hash| builder.push(&key_of(hash << 58)).unwrap());
    let mut bytes = builder.finish();
    let at = bytes.len() - 24;
    // With 2 keys, zeros mean that all keys go the same way at every level, forever.
    bytes[40 + 20..at].fill(0);
    let index = TrieIndex::open(&codes, 8, &bytes).unwrap();
    let text = index.lookup(&key_of(u64::MAX)).unwrap_err().to_string();
    assert!(text.contains("trie index") && text.contains("bucket 0"), "{text}");
}

#[test]
fn damaged_block_indexes_make_nothing_panic_and_are_reported() {
    use pachash::{BlockIndex, BlockIndexBuilder, BlockIndexShape};
    for bins_log in [0, 3, 9] {
        let mut random = fastrand::Rng::with_seed(6);
        let mut hashes: Vec<u64> = (0..4000).map(|_| random.u64(..)).collect();
        hashes.sort_unstable();
        let mut builder = BlockIndexBuilder::new(BlockIndexShape::with_bins(400_000, 300, bins_log).unwrap());
        hashes.iter().for_each(|&hash| builder.push(hash, 100).unwrap());
        let sound = builder.finish().unwrap();
        assert!(BlockIndex::open(&sound).unwrap().check().is_empty());
        let mut opened = 0;
        damaged(&sound, 1500, 7, |bytes| {
            let Ok(index) = BlockIndex::open(bytes) else {
                return;
            };
            opened += 1;
            for hash in hashes.iter().step_by(100).chain(&[0, u64::MAX]) {
                if let Ok(blocks) = index.blocks(*hash) {
                    assert!(blocks.start <= blocks.end && blocks.end <= index.shape().blocks());
                }
            }
            assert_eq!(index.check().is_empty(), bytes == sound);
        });
        assert!(opened > 500, "{opened} were opened");
    }
}

#[test]
fn damage_behind_a_right_checksum_is_found_by_the_other_rules() {
    use trie::{TrieCodes, TrieIndex, TrieIndexBuilder, TrieShape, key_of};
    let codes = TrieCodes::new(64);
    let mut builder = TrieIndexBuilder::new(&codes, TrieShape::new(8), 9).unwrap();
    let mut random = fastrand::Rng::with_seed(10);
    let mut hashes: Vec<u64> = (0..700).map(|_| random.u64(..)).collect();
    hashes.sort_unstable();
    hashes
        .iter()
        .for_each(|&hash| builder.push(&key_of(hash)).unwrap());
    let sound = builder.finish();
    // The bit offsets of the tries: one group of 9 buckets, after the group's own offset.
    for bucket in 0..9 {
        for bit in 0..16 {
            let mut bytes = sound.clone();
            bytes[40 + 16 + 4 * bucket + bit / 8] ^= 1 << (bit % 8);
            let end = bytes.len() - 8;
            let sum = alluvium_base::checksum(&bytes[..end]);
            bytes[end..].copy_from_slice(&sum.to_le_bytes());
            let violations = TrieIndex::open(&codes, 8, &bytes).unwrap().check();
            assert!(!violations.is_empty(), "bucket {bucket}, bit {bit}");
            assert!(
                !violations
                    .iter()
                    .any(|violation| violation.what.contains("checksum"))
            );
        }
    }
}
