//! Tests that compare trie indexes with sorted vectors.

use alluvium_filters::Error;
use alluvium_filters::trie::{BatchChange, TrieCodes, TrieIndex, TrieIndexBuilder, TrieShape, key_of, merge};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn build(codes: &TrieCodes, shape: TrieShape, buckets: u64, keys: &[Vec<u8>]) -> Vec<u8> {
    let mut builder = TrieIndexBuilder::new(codes, shape, buckets).unwrap();
    keys.iter().for_each(|key| builder.push(key).unwrap());
    assert_eq!(builder.keys(), keys.len() as u64);
    builder.finish()
}

/// Fails unless every key leads to its item or block and the check finds no violations.
fn assert_finds(codes: &TrieCodes, bytes: &[u8], keys: &[Vec<u8>]) {
    let key_bytes = keys.first().map_or(12, Vec::len) as u32;
    let index = TrieIndex::open(codes, key_bytes, bytes).unwrap();
    assert_eq!(index.keys(), keys.len() as u64);
    assert!(index.check().is_empty(), "{:?}", index.check());
    let block_items = u64::from(index.shape().block_items);
    for (item, key) in (0..).zip(keys) {
        index.prefetch(key);
        assert_eq!(
            index.lookup(key).unwrap(),
            Some(item / block_items),
            "T1: {key:?}"
        );
        assert!(index.items(index.bucket_of(key)).unwrap().contains(&item));
    }
}

/// Fails unless an absent key leads to an item or block in its bucket, or to none if the bucket is
/// empty.
fn assert_stays_in_bucket(index: &TrieIndex<'_>, key: &[u8]) {
    let items = index.items(index.bucket_of(key)).unwrap();
    let block_items = u64::from(index.shape().block_items);
    match index.lookup(key).unwrap() {
        Some(found) => assert!((items.start / block_items..=(items.end - 1) / block_items).contains(&found)),
        None => assert!(items.is_empty()),
    }
}

fn random_keys(count: usize, bytes: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut keys: Vec<Vec<u8>> = (0..count)
        .map(|_| (0..bytes).map(|_| random.u8(..)).collect())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn keys_of(bytes: usize, most: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    // Generates random keys, keys that differ in few bits far down, and keys with long common
    // prefixes.
    let random = proptest::collection::vec(any::<u8>(), bytes);
    let near = (any::<u8>(), any::<u8>()).prop_map(move |(a, b)| {
        let mut key = vec![0xa5; bytes];
        key[bytes - 1] = a;
        key[bytes / 2] = b & 3;
        key
    });
    let key = prop_oneof![3 => random, 1 => near];
    proptest::collection::btree_set(key, 0..most).prop_map(|keys| keys.into_iter().collect())
}

fn any_keys() -> impl Strategy<Value = (usize, Vec<Vec<u8>>)> {
    (8usize..24).prop_flat_map(|bytes| (Just(bytes), keys_of(bytes, 600)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_key_leads_to_its_item_or_block(
        (bytes, keys) in any_keys(), hmax in prop_oneof![Just(1u32), Just(7), Just(64), Just(200)],
        block_items in prop_oneof![Just(1u32), 2u32..70], buckets in 1u64..20, strangers in proptest::collection::vec(any::<u64>(), 40),
    ) {
        let codes = TrieCodes::new(hmax);
        let shape = TrieShape { hmax, block_items, ..TrieShape::new(bytes as u32) };
        let encoded = build(&codes, shape, buckets, &keys);
        if !keys.is_empty() {
            assert_finds(&codes, &encoded, &keys);
        }
        let index = TrieIndex::open(&codes, bytes as u32, &encoded).unwrap();
        for stranger in strangers {
            let key: Vec<u8> = key_of(stranger).into_iter().cycle().take(bytes).collect();
            assert_stays_in_bucket(&index, &key);
        }
    }

    #[test]
    fn an_update_gives_the_bytes_of_building_from_the_merged_keys(
        keys in keys_of(10, 500), others in keys_of(10, 60), changed in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..60),
        block_items in prop_oneof![Just(1u32), 2u32..20], buckets in 1u64..30,
    ) {
        let codes = TrieCodes::new(64);
        let shape = TrieShape { block_items, ..TrieShape::new(10) };
        let mut changes = std::collections::BTreeMap::new();
        for (at, put) in changed.into_iter().filter(|_| !keys.is_empty()) {
            changes.insert(at.get(&keys).clone(), if put { BatchChange::Put } else { BatchChange::Delete });
        }
        changes.extend(others.into_iter().enumerate().map(|(at, key)| (key, if at % 5 == 0 { BatchChange::Delete } else { BatchChange::Put })));
        let mut expected: BTreeSet<Vec<u8>> = keys.iter().cloned().collect();
        for (key, change) in &changes {
            match change {
                BatchChange::Put => expected.insert(key.clone()),
                BatchChange::Delete => expected.remove(key),
            };
        }
        let expected: Vec<Vec<u8>> = expected.into_iter().collect();
        let changes: Vec<_> = changes.into_iter().collect();
        let merged: Vec<Vec<u8>> = merge(keys.iter().cloned(), changes.iter().cloned()).map(|(_, key)| key).collect();
        prop_assert_eq!(&merged, &expected);
        let before = build(&codes, shape, buckets, &keys);
        let index = TrieIndex::open(&codes, 10, &before).unwrap();
        let mut reads = 0;
        let read = |items: std::ops::Range<u64>| -> Result<Vec<Vec<u8>>, Error> {
            reads += 1;
            Ok(keys[items.start as usize..items.end as usize].to_vec())
        };
        let after = index.update(&codes, &changes, read).unwrap();
        prop_assert_eq!(&after, &build(&codes, shape, buckets, &expected), "T2");
        if !expected.is_empty() {
            assert_finds(&codes, &after, &expected);
        }
        let touched: BTreeSet<u64> = changes.iter().map(|(key, _)| index.bucket_of(key)).collect();
        prop_assert!(block_items > 1 || reads == touched.len(), "only buckets with changes are read");
    }
}

#[test]
fn few_and_many_keys_are_found() {
    let codes = TrieCodes::new(64);
    for count in [0, 1, 2, 3, 10, 1000, 200_000] {
        let keys = random_keys(count, 12, count as u64);
        for block_items in [1, 16] {
            let shape = TrieShape {
                block_items,
                ..TrieShape::new(12)
            };
            let bytes = build(&codes, shape, shape.buckets(keys.len() as u64), &keys);
            assert_finds(&codes, &bytes, &keys);
        }
    }
}

#[test]
fn a_bucket_of_10_000_keys_that_share_64_bits_makes_groups_smaller() {
    let codes = TrieCodes::new(64);
    let mut keys = random_keys(20_000, 20, 4);
    let crowd = random_keys(10_000, 12, 5);
    keys.extend(crowd.iter().map(|rest| [&[0x77; 8][..], rest].concat()));
    keys.sort_unstable();
    // 100 such buckets in a row have more than 65,535 items, so no group of 64 buckets spans them.
    for count in [1u8, 100] {
        let mut keys = keys.clone();
        for other in 1..count {
            let crowd = crowd.iter().take(900);
            keys.extend(crowd.map(|rest| [&[0x30, other * 2, 0, 0, 0, 0, 0, 0][..], rest].concat()));
        }
        keys.sort_unstable();
        let shape = TrieShape::new(20);
        let bytes = build(&codes, shape, 30_000, &keys);
        assert_finds(&codes, &bytes, &keys);
    }
    let sparse = TrieShape {
        block_items: 64,
        ..TrieShape::new(20)
    };
    assert_finds(&codes, &build(&codes, sparse, 117, &keys), &keys);
}

#[test]
fn dense_and_sparse_indexes_are_made_of_the_same_keys() {
    let codes = TrieCodes::new(64);
    let keys = random_keys(5000, 20, 6);
    let dense = build(&codes, TrieShape::new(20), 20, &keys);
    let sparse = build(
        &codes,
        TrieShape {
            block_items: 8,
            ..TrieShape::new(20)
        },
        20,
        &keys,
    );
    assert!(sparse.len() < dense.len());
    assert_eq!(build(&codes, TrieShape::new(20), 20, &keys), dense);
}

#[test]
fn keys_out_of_order_equal_or_too_many_buckets_are_refused() {
    let codes = TrieCodes::new(64);
    let mut builder = TrieIndexBuilder::new(&codes, TrieShape::new(8), 4).unwrap();
    builder.push(&key_of(7)).unwrap();
    for late in [7, 6] {
        assert!(matches!(builder.push(&key_of(late)), Err(Error::Order { entry, last: 7 }) if entry == late));
    }
    builder.push(&key_of(u64::MAX)).unwrap();
    assert!(builder.push(&key_of(1 << 62)).is_err());
    assert!(
        TrieIndexBuilder::new(&codes, TrieShape::new(8), 0).is_err()
            && TrieIndexBuilder::new(&codes, TrieShape::new(7), 1).is_err()
    );
    let none = TrieShape {
        block_items: 0,
        ..TrieShape::new(8)
    };
    assert!(TrieIndexBuilder::new(&codes, none, 1).is_err());
}
