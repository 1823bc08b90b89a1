//! Compares the index with a list of keys; tests its size and copied buckets.

use super::*;
use crate::Error;
use proptest::prelude::*;

fn build(keys: &[Vec<u8>], key_bytes: u32, buckets: u64) -> (Vec<u8>, Vec<u64>) {
    let mut places = Vec::new();
    let sink =
        |first: u64, of_keys: &[u8]| places.extend(of_keys.iter().map(|place| first + u64::from(*place)));
    let mut builder = PerfectHashBuilder::new(key_bytes, buckets, sink).unwrap();
    keys.iter().for_each(|key| builder.push(key).unwrap());
    (builder.finish().unwrap(), places)
}

fn assert_perfect(bytes: &[u8], keys: &[Vec<u8>], key_bytes: u32, places: &[u64]) {
    let index = PerfectHashIndex::open(key_bytes, bytes).unwrap();
    assert!(index.check().is_empty(), "{:?}", index.check());
    let mut taken = vec![false; keys.len()];
    for (key, place) in keys.iter().zip(places) {
        assert_eq!(index.lookup(key).unwrap(), Some(*place), "{key:?}");
        assert!(index.items(index.bucket_of(key)).unwrap().contains(place));
        assert!(!std::mem::replace(&mut taken[*place as usize], true), "P1");
    }
    assert!(
        taken.iter().all(|taken| *taken) && index.keys() == keys.len() as u64,
        "P1"
    );
}

fn random_keys(count: usize, bytes: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut keys: Vec<Vec<u8>> = (0..count)
        .map(|_| (0..bytes).map(|_| random.u8(..)).collect())
        .collect();
    keys.sort_unstable();
    keys
}

#[test]
fn every_key_has_a_place_of_its_own_at_less_bits_than_the_paper_s_3_8() {
    for count in [0, 1, 2, 100, 100_000] {
        let keys = random_keys(count, 12, 3);
        let (bytes, places) = build(&keys, 12, buckets(count as u64));
        assert_perfect(&bytes, &keys, 12, &places);
        let bits = bytes.len() as f64 * 8.0 / count.max(1) as f64;
        assert!(count < 1000 || (2.7..2.9).contains(&bits), "{bits} bits a key");
    }
}

#[test]
fn keys_that_are_not_there_stay_in_their_bucket() {
    let keys = random_keys(5000, 8, 4);
    let (bytes, _) = build(&keys, 8, 40);
    let index = PerfectHashIndex::open(8, &bytes).unwrap();
    let mut refused = 0;
    for key in random_keys(5000, 8, 5) {
        match index.lookup(&key).unwrap() {
            Some(place) => assert!(index.items(index.bucket_of(&key)).unwrap().contains(&place)),
            None => refused += 1,
        }
    }
    assert!(
        (300..2000).contains(&refused),
        "{refused} lead to an unused vertex"
    );
}

#[test]
fn buckets_that_are_too_full_or_out_of_order_are_refused() {
    let mut builder = PerfectHashBuilder::new(8, 1, |_, _| {}).unwrap();
    for key in random_keys(256, 8, 6) {
        builder.push(&key).unwrap();
        assert!(matches!(builder.push(&key), Err(Error::Order { .. })));
    }
    let text = builder.push(&[0xff; 8]).unwrap_err().to_string();
    assert!(text.contains("256") && text.contains("more buckets"), "{text}");
    assert!(
        PerfectHashBuilder::new(7, 1, |_, _| {}).is_err()
            && PerfectHashBuilder::new(8, 0, |_, _| {}).is_err()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn copied_buckets_give_the_bytes_of_building_them(
        keys in proptest::collection::btree_set(proptest::collection::vec(any::<u8>(), 10), 0..700),
        buckets in 4u64..20, copied in any::<u32>(),
    ) {
        let keys: Vec<Vec<u8>> = keys.into_iter().collect();
        let (bytes, places) = build(&keys, 10, buckets);
        assert_perfect(&bytes, &keys, 10, &places);
        let old = PerfectHashIndex::open(10, &bytes).unwrap();
        let mut builder = PerfectHashBuilder::new(10, buckets, |_, _| {}).unwrap();
        for bucket in 0..buckets {
            if copied >> bucket & 1 == 1 {
                prop_assert!(builder.copy(&old, bucket).unwrap());
                prop_assert!(!builder.copy(&old, bucket).unwrap());
            } else {
                let of_bucket = keys.iter().filter(|key| old.bucket_of(key) == bucket);
                of_bucket.for_each(|key| builder.push(key).unwrap());
            }
        }
        prop_assert_eq!(builder.finish().unwrap(), bytes, "P3");
    }
}
