//! Tests of a block index: the blocks of each object, the size of the index, and the number of
//! blocks read unnecessarily. They compare the index with a list of object positions.

use super::*;
use proptest::prelude::*;
use std::ops::Range;

/// Builds an index. Returns its bytes, and the range of blocks for each object.
fn build(objects: &[(u64, u64)], block_bytes: u32, bins_log: u32) -> (Vec<u8>, Vec<Range<u64>>) {
    let total = objects.iter().map(|(_, bytes)| bytes).sum();
    let mut builder =
        BlockIndexBuilder::new(BlockIndexShape::with_bins(total, block_bytes, bins_log).unwrap());
    let (mut at, mut places) = (0, Vec::new());
    for &(hash, bytes) in objects {
        builder.push(hash, bytes).unwrap();
        places.push(at / u64::from(block_bytes)..(at + bytes).div_ceil(block_bytes.into()));
        at += bytes;
    }
    (builder.finish().unwrap(), places)
}

/// Checks that a lookup of each object returns its blocks, and no others except those that the
/// definition permits.
fn assert_holds(bytes: &[u8], objects: &[(u64, u64)], places: &[Range<u64>]) {
    let index = BlockIndex::open(bytes).unwrap();
    assert!(index.check().is_empty(), "{:?}", index.check());
    assert_eq!(index.objects(), objects.len() as u64);
    for ((hash, _), place) in objects.iter().zip(places) {
        let found = index.blocks(*hash).unwrap();
        assert!(
            found.start <= place.start && place.end <= found.end,
            "B1: {found:?}, {place:?}"
        );
        assert!(found.end <= index.shape().blocks());
        // A lookup may return only the blocks with objects of the bin, and one block before them.
        let bin = index.shape().bin(*hash);
        let of_bin = || {
            objects
                .iter()
                .zip(places)
                .filter(|((hash, _), _)| index.shape().bin(*hash) == bin)
        };
        let (first, last) = (of_bin().next().unwrap().1, of_bin().next_back().unwrap().1);
        assert!(
            found.start + 1 >= first.start && found.end == last.end,
            "{found:?}, {first:?}, {last:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_blocks_of_a_hash_hold_its_objects_and_at_most_one_block_before(
        mut objects in proptest::collection::vec((any::<u64>(), prop_oneof![6 => 1u64..300, 1 => Just(100u64), 1 => 3000u64..9000]), 0..150),
        block_bytes in prop_oneof![Just(100u32), 1u32..600], bins_log in 0u32..7, crowd: bool,
    ) {
        if crowd {
            objects.iter_mut().for_each(|(hash, _)| *hash >>= 6);
        }
        objects.sort_unstable();
        let (bytes, places) = build(&objects, block_bytes, bins_log);
        assert_holds(&bytes, &objects, &places);
        let index = BlockIndex::open(&bytes).unwrap();
        for hash in [0, 1, u64::MAX / 3, u64::MAX] {
            let blocks = index.blocks(hash).unwrap();
            prop_assert!(blocks.end <= index.shape().blocks() && (objects.is_empty() || !blocks.is_empty()));
        }
    }
}

#[test]
fn an_index_has_about_5_bits_a_block_and_lookups_read_one_eighth_of_a_block_in_vain() {
    let mut random = fastrand::Rng::with_seed(4);
    let mut objects: Vec<(u64, u64)> = (0..200_000)
        .map(|_| (random.u64(..), random.u64(50..462)))
        .collect();
    objects.sort_unstable();
    for (bins_log, bits) in [(2, 4.15), (3, 5.15), (4, 6.15)] {
        let (bytes, _) = build(&objects, 4096, bins_log);
        let index = BlockIndex::open(&bytes).unwrap();
        let blocks = index.shape().blocks() as f64;
        let bits_per_block = bytes.len() as f64 * 8.0 / blocks;
        assert!(
            bits_per_block < bits + 0.06 && bits_per_block > bits - 0.06,
            "{bits_per_block}"
        );
        let read: u64 = objects
            .iter()
            .map(|(hash, _)| index.blocks(*hash).unwrap())
            .map(|blocks| blocks.end - blocks.start)
            .sum();
        let mean = read as f64 / objects.len() as f64;
        // A lookup reads one block, plus the fraction of objects that cross a block boundary, plus
        // one block for each bin that crosses a block boundary.
        let expected = 1.0 + 256.0 / 4096.0 + 1.0 / f64::from(1 << bins_log);
        assert!((mean - expected).abs() < 0.03, "{mean}, not {expected}");
    }
}

#[test]
fn objects_that_begin_with_their_block_are_read_alone() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut objects: Vec<(u64, u64)> = (0..50_000).map(|_| (random.u64(..), 4096)).collect();
    objects.sort_unstable();
    let (bytes, _) = build(&objects, 4096, 3);
    let index = BlockIndex::open(&bytes).unwrap();
    let read: u64 = objects
        .iter()
        .map(|(hash, _)| index.blocks(*hash).unwrap())
        .map(|blocks| blocks.end - blocks.start)
        .sum();
    // A lookup reads an extra block only if two objects are in the same bin or in adjacent bins, so
    // the average is 1.37 rather than 2.
    let mean = read as f64 / objects.len() as f64;
    assert!(mean < 1.4, "{mean}");
}

#[test]
fn objects_out_of_order_too_long_or_missing_are_refused() {
    let mut builder = BlockIndexBuilder::new(BlockIndexShape::new(100, 10).unwrap());
    builder.push(7, 10).unwrap();
    assert!(builder.push(6, 10).is_err() && builder.push(8, 0).is_err() && builder.push(8, 91).is_err());
    builder.push(7, 80).unwrap();
    assert!(builder.finish().is_err());
    assert!(
        BlockIndexShape::new(1, 0).is_err()
            && BlockIndexShape::with_bins(1, 1, 17).is_err()
            && BlockIndexShape::new(1 << 50, 8).is_err()
    );
}
