//! Tests that compare store mode with a map: a get returns the last value, and no item is lost.

use alluvium_hashes::mica::mode::Erew;
use alluvium_hashes::mica::{
    BurstRequest, BurstResponse, Error, ExclusiveTable, HashedKey, LosslessOptions, LosslessTable, NEVER,
};
use std::collections::HashMap;

const SEED: u64 = 99;

fn table(heap_bytes: usize, buckets: usize, spare_buckets: usize) -> ExclusiveTable<LosslessTable<Erew>> {
    let options = LosslessOptions {
        heap_bytes,
        buckets,
        spare_buckets,
        seed: SEED,
    };
    ExclusiveTable::new(LosslessTable::new(&options).unwrap())
}

/// Fills a store until it rejects items, keeps it full for a while, and empties it. Returns how
/// often it rejected an item for want of memory and for want of buckets.
fn run(table: &mut ExclusiveTable<LosslessTable<Erew>>, seed: u64, keys: u64) -> (u32, u32) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model: HashMap<u64, (Vec<u8>, u64)> = HashMap::new();
    let mut refused = (0, 0);
    for now in 0..40_000 {
        let key = random.u64(..keys);
        let bytes = key.to_le_bytes();
        let hashed = HashedKey::new(SEED, &bytes[..3 + (key % 6) as usize]);
        let live = |model: &HashMap<u64, (Vec<u8>, u64)>| {
            model
                .get(&key)
                .filter(|(_, expires_at)| now < *expires_at)
                .map(|(value, _)| value.clone())
        };
        match random.u8(..10) {
            0 => {
                assert_eq!(table.delete(hashed, now), live(&model).is_some());
                model.remove(&key);
            }
            1..=5 => {
                let len = if random.u8(..9) == 0 {
                    random.usize(..900)
                } else {
                    random.usize(..40)
                };
                let value: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
                let expires_at = if random.u8(..8) == 0 {
                    now + random.u64(..4000)
                } else {
                    NEVER
                };
                match table.set(hashed, &value, expires_at, now) {
                    Ok(()) => {
                        model.insert(key, (value, expires_at));
                    }
                    Err(Error::OutOfSpace { .. }) => refused.0 += 1,
                    Err(Error::OutOfBuckets { .. }) => refused.1 += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            _ => assert_eq!(
                table.get(hashed, now),
                live(&model).as_deref(),
                "key {key} at {now}"
            ),
        }
        if now % 1000 == 0 {
            let freed = table.reclaim(now, usize::MAX);
            let before = model.len();
            model.retain(|_, (_, expires_at)| now < *expires_at);
            assert_eq!(before - model.len(), freed);
        }
        assert_eq!(table.table().items(), model.len());
    }
    let keys: Vec<u64> = model.keys().copied().collect();
    for key in keys {
        let bytes = key.to_le_bytes();
        table.delete(HashedKey::new(SEED, &bytes[..3 + (key % 6) as usize]), 0);
    }
    assert_eq!(
        (table.table().heap_bytes().1, table.table().spare_buckets().1),
        (0, 0)
    );
    refused
}

#[test]
fn nothing_is_lost_while_there_is_memory_and_what_does_not_fit_is_refused() {
    let mut small = table(60_000, 300, 100);
    let refused = run(&mut small, 1, 3000);
    assert!(refused.0 > 1000 && refused.1 == 0, "{refused:?}");
    // All free blocks have been joined into one, so an item may be as large as the heap.
    let key = HashedKey::new(SEED, b"large");
    small.set(key, &[7; 59_000], NEVER, 0).unwrap();
    assert_eq!(small.get(key, 0).unwrap(), [7; 59_000]);
}

#[test]
fn a_store_without_buckets_left_refuses_and_loses_nothing() {
    let refused = run(&mut table(4 << 20, 20, 10), 2, 3000);
    assert!(refused.0 == 0 && refused.1 > 1000, "{refused:?}");
    let refused = run(&mut table(4 << 20, 1, 40), 3, 600);
    assert!(refused.0 == 0 && refused.1 == 0, "one chain of all: {refused:?}");
}

#[test]
fn a_burst_answers_as_single_requests_do() {
    let (mut single, mut burst) = (table(40_000, 40, 20), table(40_000, 40, 20));
    let mut random = fastrand::Rng::with_seed(6);
    for now in 0..500 {
        let keys: Vec<[u8; 8]> = (0..random.usize(..60))
            .map(|_| random.u64(..1200).to_le_bytes())
            .collect();
        let requests: Vec<BurstRequest<'_>> = keys
            .iter()
            .map(|key| {
                let hashed = HashedKey::new(SEED, key);
                if random.bool() {
                    BurstRequest::Get(hashed)
                } else {
                    BurstRequest::Set(hashed, &key[..4], NEVER)
                }
            })
            .collect();
        burst.burst(&requests, now, |number, response| match requests[number] {
            BurstRequest::Get(key) => assert_eq!(response, BurstResponse::Value(single.get(key, now))),
            BurstRequest::Set(key, value, expires_at) => {
                assert_eq!(
                    response,
                    BurstResponse::Set(single.set(key, value, expires_at, now))
                );
            }
        });
    }
    assert_eq!(single.table().stats(), burst.table().stats());
}

/// Chain lengths depend only on chance, so 192 Mi items behave like these.
#[test]
fn a_tenth_of_spare_buckets_suffices_for_eleven_items_a_bucket_and_not_for_twelve() {
    let buckets = 20_000;
    // Items per bucket, and the percentage of buckets that overflow under the Poisson distribution.
    for (load, overflowing) in [(10, 4.9), (11, 9.3), (12, 15.6), (13, 23.6)] {
        let mut ample = table(16 << 20, buckets, buckets);
        let mut tight = table(16 << 20, buckets, buckets / 10);
        let mut refused = 0;
        for key in 0..(load * buckets) as u64 {
            let bytes = key.to_le_bytes();
            let key = HashedKey::new(SEED, &bytes);
            ample.set(key, &bytes, NEVER, 0).unwrap();
            let set = tight.set(key, &bytes, NEVER, 0);
            assert!(matches!(set, Ok(()) | Err(Error::OutOfBuckets { .. })), "{set:?}");
            refused += u64::from(set.is_err());
        }
        assert_eq!(refused > 0, load > 11, "{load} items a bucket: {refused} refused");
        let percent = ample.table().spare_buckets().1 as f64 * 100.0 / buckets as f64;
        assert!(
            (percent - overflowing).abs() < 0.6,
            "{load} items a bucket: {percent} overflow"
        );
    }
}

#[test]
fn options_that_make_no_sense_and_items_that_are_too_long_are_refused() {
    let good = LosslessOptions {
        heap_bytes: 10_000,
        buckets: 10,
        spare_buckets: 1,
        seed: SEED,
    };
    for (bad, named) in [
        (LosslessOptions { buckets: 0, ..good }, "buckets"),
        (
            LosslessOptions {
                heap_bytes: 8,
                ..good
            },
            "heap_bytes",
        ),
        (
            LosslessOptions {
                heap_bytes: 5 << 30,
                ..good
            },
            "heap_bytes",
        ),
    ] {
        let error = LosslessTable::<Erew>::new(&bad).unwrap_err();
        assert!(
            matches!(error, Error::BadOption { option, .. } if option == named),
            "{error}"
        );
    }
    let mut table = ExclusiveTable::new(LosslessTable::<Erew>::new(&good).unwrap());
    let key = HashedKey::new(SEED, b"key");
    table.set(key, b"before", NEVER, 0).unwrap();
    assert!(matches!(
        table.set(key, &[0; 12_000], NEVER, 0),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(
        table.set(key, &[0; 9990], NEVER, 0),
        Err(Error::OutOfSpace { .. })
    ));
    assert_eq!(
        table.get(key, 0),
        Some(&b"before"[..]),
        "a set that fails changes nothing"
    );
}
