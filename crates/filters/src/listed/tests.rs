//! Tests of hits, false positives and sizes, which compare a filter with the set of its hashes.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Returns random hashes in ascending order, generated from a seed.
fn random(count: usize, seed: u64) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut hashes: Vec<u64> = (0..count).map(|_| random.u64(..)).collect();
    hashes.sort_unstable();
    hashes
}

/// Builds the filter of ascending hashes. Checks that it is valid and finds each of them (F13).
fn sound(hashes: &[u64], bits: u32, known: u32) -> ListedFilter<Vec<u8>> {
    let shape = ListedShape::new(hashes.len() as u64, bits)
        .unwrap()
        .knowing(known);
    let bytes = encode(shape, hashes.iter().copied()).unwrap();
    let filter = ListedFilter::open(bytes).unwrap();
    assert_eq!((filter.shape(), filter.is_whole()), (shape, true));
    assert_eq!(filter.check(), []);
    // If the hashes are clustered, look up only some of them, because a lookup reads the whole list
    // of a bucket.
    let is_crowd = hashes
        .windows(1024)
        .any(|some| some[1023] - some[0] < u64::MAX >> 12);
    let every = if is_crowd { hashes.len() / 300 } else { 1 };
    for &hash in hashes.iter().step_by(every).chain(hashes.last()) {
        assert!(filter.may_hold(hash).unwrap(), "{hash:016x} of {}", hashes.len());
    }
    filter
}

#[test]
fn the_bytes_of_a_filter_are_these() {
    let shape = ListedShape::new(3, 4).unwrap();
    // There are 48 possible fingerprints. Those of the hashes are computed from the first 8 bits
    // and are 0, 12 and 47.
    let bytes = encode(shape, [0, 64 << 56, 64 << 56 | 7, u64::MAX]).unwrap();
    let mut expected = b"AFLS\x01\x04\x08\0".to_vec();
    expected.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    expected.extend([0; 8]);
    // The page has 130 bytes of bit offsets and 3 bytes of lists.
    expected.extend((64 * 133u64).to_le_bytes());
    // The differences are 0, 12 = 1 · 8 + 4 and 35 = 4 · 8 + 3, which take 4, 5 and 8 bits.
    expected.extend([0, 0]);
    (0..64).for_each(|_| expected.extend([17, 0]));
    let bits: u32 = 0b1_0001 << 4 | 0b0110_1111 << 9;
    expected.extend(&bits.to_le_bytes()[..3]);
    expected.extend(alluvium_base::checksum(&expected).to_le_bytes());
    assert_eq!(bytes, expected);
}

#[test]
fn a_hash_takes_12_bits_and_a_half_and_one_answer_in_1024_is_wrong() {
    let mut strange = fastrand::Rng::with_seed(2);
    for (count, bits) in [(100_000, 10), (65_537, 10), (20_000, 6), (20_000, 11)] {
        let hashes = random(count, 1);
        let filter = sound(&hashes, bits, 64);
        let a_hash = filter.bytes().len() as f64 * 8.0 / count as f64;
        let expected = f64::from(bits) + 2.52;
        assert!((a_hash - expected).abs() < 0.06, "{a_hash} bits for {bits}");
        let asked = 300u64 << bits;
        let wrong = (0..asked)
            .filter(|_| filter.may_hold(strange.u64(..)).unwrap())
            .count();
        let times = wrong as f64 / 300.0;
        assert!((0.85..1.15).contains(&times), "{times} times 2^-{bits}");
    }
}

#[test]
fn hashes_may_lie_in_any_way() {
    sound(&[], 10, 64);
    assert!(!sound(&[], 10, 64).may_hold(0).unwrap());
    for one in [0, 1, 1 << 63, u64::MAX] {
        let filter = sound(&[one], 10, 64);
        assert!(!filter.may_hold(one ^ 1 << 62).unwrap());
    }
    // Test equal hashes, and hashes that differ only in bits that the filter does not use.
    for same in [0, 7 << 40, u64::MAX] {
        let filter = sound(&[same; 10_000], 10, 64);
        assert!(
            filter.bytes().len() < 10 * 140 + 100,
            "each fingerprint is listed once"
        );
    }
    // Test hashes that are all in one bucket, in one page, or in a quarter of the pages.
    for shift in [50, 40, 36, 2] {
        for bits in [4, 10, 24] {
            let crowd: Vec<u64> = random(20_000, 3)
                .iter()
                .map(|hash| 5 << 60 | hash >> 4 >> shift)
                .collect();
            let filter = sound(&crowd, bits, 64);
            assert!(!filter.may_hold(1 << 60).unwrap() && !filter.may_hold(15 << 60).unwrap());
            let most = crowd.len() * (bits as usize + 2) / 8 + 20 * 140 + 100;
            assert!(
                filter.bytes().len() < most + most / 400,
                "{}",
                filter.bytes().len()
            );
        }
    }
    // Test a dense sequence of hashes, all in a few buckets.
    let dense: Vec<u64> = (0..50_000).map(|at| 9 << 60 | at << 32).collect();
    let filter = sound(&dense, 20, 64);
    assert!(!filter.may_hold(9 << 60 | 1 << 31).unwrap());
}

#[test]
fn places_count_steps_where_hashes_crowd() {
    // Add every possible fingerprint of the first buckets.
    let shape = ListedShape::new(1 << 16, 10).unwrap();
    let all = (0..1u64 << 16).map(|fingerprint| fingerprint << (64 - 26));
    let filter = ListedFilter::open(encode(shape, all.clone()).unwrap()).unwrap();
    let (_, step) = filter.header.entry(filter.bytes(), 0).unwrap();
    assert!(step > 0 && filter.check().is_empty());
    assert!(all.step_by(301).all(|hash| filter.may_hold(hash).unwrap()));
    assert!(!filter.may_hold(1 << 54).unwrap());
}

#[test]
fn fewer_known_bits_find_all_and_are_wrong_more_often() {
    let hashes = random(5000, 4);
    for known in [1, 3, 12, 20, 24, 64] {
        let cut: Vec<u64> = hashes
            .iter()
            .map(|hash| hash >> (64 - known.min(63)) << (64 - known.min(63)))
            .collect();
        let filter = sound(&cut, 10, known);
        assert_eq!(filter, sound(&hashes, 10, known));
    }
}

#[test]
fn a_part_says_the_same_of_its_pages_and_yes_of_all_others() {
    let hashes = random(9000, 5);
    let whole = sound(&hashes, 10, 64);
    assert_eq!(whole.pages(), 0..9);
    for pages in [0..1, 0..9, 3..7, 8..9] {
        let part = whole.part(pages.clone(), |len| vec![0; len]).unwrap();
        assert_eq!((part.pages(), part.check()), (pages.clone(), vec![]));
        assert_eq!(part.is_whole(), pages.len() == 9);
        assert_eq!(ListedFilter::open(part.bytes()).unwrap(), part);
        for hash in hashes.iter().copied().chain((0..1000).map(|at| at << 54)) {
            let is_there = pages.contains(&whole.shape().page_of(hash));
            let expected = !is_there || whole.may_hold(hash).unwrap();
            assert_eq!(part.may_hold(hash).unwrap(), expected);
        }
        if pages == (3..7) {
            let less = part.part(4..6, |len| vec![0; len]).unwrap();
            assert_eq!(less, whole.part(4..6, |len| vec![0; len]).unwrap());
            assert!(part.part(2..4, |len| vec![0; len]).is_none());
            assert!(part.part(5..5, |len| vec![0; len]).is_none());
        }
    }
}

#[test]
fn no_damage_of_a_filter_makes_anything_panic_and_each_is_reported() {
    let hashes = random(1100, 6);
    let filter = sound(&hashes, 10, 64);
    let part = filter.part(1..2, |len| vec![0; len]).unwrap();
    for bytes in [&sound(&hashes[..40], 10, 64), &part].map(ListedFilter::bytes) {
        for at in 0..bytes.len() {
            for flip in [1, 0xff] {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= flip;
                // Also test the damage with a checksum that matches the damaged bytes.
                for fits in [false, true] {
                    if fits {
                        let end = damaged.len() - 8;
                        let sum = alluvium_base::checksum(&damaged[..end]);
                        damaged[end..].copy_from_slice(&sum.to_le_bytes());
                    }
                    let Ok(filter) = ListedFilter::open(&damaged[..]) else {
                        continue;
                    };
                    for hash in hashes.iter().step_by(97) {
                        let _ = filter.may_hold(*hash);
                    }
                    let found = filter.check();
                    assert!(fits || !found.is_empty(), "byte {at}");
                }
            }
        }
        for len in 0..bytes.len() {
            assert!(ListedFilter::open(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(ListedFilter::open([bytes, &[0]].concat()).is_err());
    }
}

#[test]
fn what_cannot_be_is_refused() {
    assert!(ListedShape::new(MOST_HASHES + 1, 10).is_err());
    assert!(ListedShape::new(1, 0).is_err() && ListedShape::new(1, MOST_BITS + 1).is_err());
    assert_eq!(ListedShape::new(MOST_HASHES, MOST_BITS).unwrap().known_bits(), 62);
    let shape = ListedShape::new(2, 10).unwrap();
    assert!(encode(shape, [2 << 60, 1 << 60]).is_err(), "they fall");
    assert!(
        encode(shape, [1 << 60, 2 << 60, 3 << 60]).is_err(),
        "more than the shape says"
    );
    for len in 0..140 {
        assert!(write(shape, [1 << 60], &mut vec![0; len]).is_err());
    }
}

proptest! {
    #[test]
    fn it_is_wrong_only_where_a_fingerprint_is_shared(
        mut hashes in proptest::collection::vec((any::<u64>(), 0u32..64), 0..600),
        strange in proptest::collection::vec(any::<u64>(), 50),
        bits in 1u32..=MOST_BITS, known in 1u32..=64,
    ) {
        hashes.sort_unstable_by_key(|(hash, shift)| hash >> shift);
        let hashes: Vec<u64> = hashes.iter().map(|(hash, shift)| hash >> shift).collect();
        let filter = sound(&hashes, bits, known);
        let shape = filter.shape();
        let fingerprints: BTreeSet<u64> = hashes.iter().map(|&hash| shape.fingerprint(hash)).collect();
        let near = hashes.iter().flat_map(|hash| [hash ^ 1 << 50, hash.wrapping_add(1 << 40)]);
        for hash in strange.into_iter().chain(near) {
            prop_assert_eq!(filter.may_hold(hash).unwrap(), fingerprints.contains(&shape.fingerprint(hash)));
        }
    }
}
