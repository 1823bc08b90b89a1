//! Tests that compare cache mode with a map: a get returns the last value or nothing.

use alluvium_hashes::mica::{
    BurstRequest, BurstResponse, CacheEviction, Error, ExclusiveTable, HashedKey, LossyOptions, LossyTable,
    NEVER,
};
use std::collections::HashMap;

const EVICTIONS: [CacheEviction; 4] = [
    CacheEviction::Fifo,
    CacheEviction::Lru,
    CacheEviction::ApproximateLru,
    CacheEviction::S3Fifo,
];

fn options(log_bytes: usize, buckets: usize, eviction: CacheEviction) -> LossyOptions {
    let seed = 77;
    // Make offsets wrap around after a mebibyte.
    let offset_bits = 20;
    LossyOptions {
        log_bytes,
        buckets,
        longest_item_bytes: usize::MAX,
        eviction,
        offset_bits,
        seed,
    }
}

fn table(options: &LossyOptions) -> ExclusiveTable<LossyTable<alluvium_hashes::mica::mode::Erew>> {
    ExclusiveTable::new(LossyTable::new(options).unwrap())
}

/// Returns a value that its key and version determine.
fn value(key: u64, version: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(key << 32 | version);
    (0..len).map(|_| random.u8(..)).collect()
}

/// Expected value and expiry time of each key.
type Model = HashMap<u64, (Vec<u8>, u64)>;

/// Checks that a get has returned the last value or nothing. Returns whether it was a hit.
fn check(model: &Model, key: u64, now: u64, got: Option<&[u8]>) -> bool {
    if let Some(got) = got {
        let (value, expires_at) = model.get(&key).expect("a value of a key that has none");
        assert!(got == value, "another value of key {key}");
        assert!(now < *expires_at, "key {key} has expired");
    }
    got.is_some()
}

/// Runs random operations. Returns the number of hits, and the number of gets of keys with a value.
fn run(options: &LossyOptions, seed: u64, keys: u64, operations: usize) -> (u64, u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut table, mut model) = (table(options), Model::new());
    let (mut hits, mut alive) = (0, 0);
    for step in 0..operations as u64 {
        // Read a few keys more often than others.
        let key = if random.bool() {
            random.u64(..keys)
        } else {
            random.u64(..keys.div_ceil(10))
        };
        let (now, bytes) = (step, key.to_le_bytes());
        // Use keys of different lengths.
        let hashed = HashedKey::new(options.seed, &bytes[..3 + (key % 6) as usize]);
        match random.u8(..20) {
            0 => {
                let was_there = table.delete(hashed, now);
                assert!(!was_there || model.get(&key).is_some_and(|(_, expires_at)| now < *expires_at));
                model.remove(&key);
            }
            1..=9 => {
                let len = if random.u8(..20) == 0 {
                    random.usize(..400)
                } else {
                    random.usize(..40)
                };
                let expires_at = if random.u8(..4) == 0 {
                    now + random.u64(1..2000)
                } else {
                    NEVER
                };
                let value = value(key, step, len);
                table.set(hashed, &value, expires_at, now).unwrap();
                assert_eq!(
                    table.get(hashed, now),
                    Some(&value[..]),
                    "what was just set is there"
                );
                model.insert(key, (value, expires_at));
            }
            _ => {
                alive += u64::from(model.get(&key).is_some_and(|(_, expires_at)| now < *expires_at));
                hits += u64::from(check(&model, key, now, table.get(hashed, now)));
            }
        }
    }
    let stats = table.table().stats();
    assert!(
        stats.dropped > 0 && stats.swept + stats.displaced > 0,
        "{stats:?}"
    );
    (hits, alive)
}

#[test]
fn a_get_returns_the_last_value_or_nothing_while_log_and_offsets_wrap() {
    for eviction in EVICTIONS {
        for (seed, log_bytes) in [(1, 1 << 15), (2, 50_000), (3, 1 << 17), (4, 9_004)] {
            let (hits, alive) = run(&options(log_bytes, 200, eviction), seed, 3000, 60_000);
            assert!(hits > 0 && hits < alive, "{eviction:?}: {hits} of {alive}");
        }
    }
}

#[test]
fn a_get_returns_the_last_value_or_nothing_where_the_index_is_much_too_small() {
    for eviction in EVICTIONS {
        let options = options(1 << 17, 3, eviction);
        let (hits, alive) = run(&options, 5, 3000, 40_000);
        assert!(hits > 0 && hits < alive, "{eviction:?}: {hits} of {alive}");
    }
}

#[test]
fn nothing_is_lost_while_everything_fits() {
    for eviction in EVICTIONS {
        let options = options(200_000, 200, eviction);
        let mut table = table(&options);
        let keys: Vec<[u8; 8]> = (0..1000_u64).map(u64::to_le_bytes).collect();
        for key in &keys {
            let key = HashedKey::new(options.seed, key);
            table.set(key, &key.bytes()[..4], NEVER, 0).unwrap();
        }
        for key in &keys {
            let key = HashedKey::new(options.seed, key);
            assert_eq!(table.get(key, 0), Some(&key.bytes()[..4]), "{eviction:?}");
        }
        assert_eq!(table.table().stats().displaced, 0);
    }
}

#[test]
fn a_value_is_updated_in_place_if_it_fits_where_the_first_was_allocated() {
    let options = options(1 << 14, 20, CacheEviction::Fifo);
    let mut table = table(&options);
    let key = HashedKey::new(options.seed, b"key");
    let in_place = |table: &ExclusiveTable<LossyTable<_>>| table.table().stats().updates_in_place;
    for (len, expires_at, expected) in [
        (100, NEVER, 0),
        (100, NEVER, 1),
        (3, NEVER, 2),
        // The value has grown again, within its allocation.
        (100, NEVER, 3),
        // An expiry time takes two more words.
        (92, 1000, 4),
        (93, 1000, 4),
        // A longer value was appended.
        (101, 1000, 4),
        (104, 1000, 5),
        (105, 1000, 5),
    ] {
        table.set(key, &vec![len as u8; len], expires_at, 1).unwrap();
        assert_eq!(table.get(key, 1).unwrap(), vec![len as u8; len]);
        assert_eq!(in_place(&table), expected, "{len} bytes");
    }
}

#[test]
fn an_item_is_there_until_it_expires() {
    for eviction in EVICTIONS {
        let options = options(1 << 14, 20, eviction);
        let mut table = table(&options);
        let key = HashedKey::new(options.seed, b"key");
        table.set(key, b"soon gone", 100, 1).unwrap();
        assert!(table.get(key, 99).is_some() && table.get(key, 100).is_none());
        assert!(!table.delete(key, 100), "it was no longer there");
        table.set(key, b"here", 7, 200).unwrap();
        assert!(table.get(key, 200).is_none(), "it had expired before it was set");
        table.set(key, b"for ever", NEVER, 200).unwrap();
        assert!(table.get(key, u64::MAX - 1).is_some());
        assert!(table.delete(key, 200) && table.get(key, 200).is_none());
    }
}

#[test]
fn approximate_lru_copies_an_item_only_from_the_older_half() {
    for (eviction, moved) in [
        (CacheEviction::Fifo, 0),
        (CacheEviction::ApproximateLru, 500),
        (CacheEviction::Lru, 1000),
    ] {
        let options = options(40_000, 200, eviction);
        let mut table = table(&options);
        // The items take 20 bytes each and half of the log in total, so all of them stay wherever
        // they are copied.
        let keys: Vec<[u8; 8]> = (0..1000_u64).map(u64::to_le_bytes).collect();
        for key in &keys {
            table
                .set(HashedKey::new(options.seed, key), &[1; 8], NEVER, 0)
                .unwrap();
        }
        // Go from newest to oldest, so that no copy makes another item older than half of the log.
        let before = table.table().stats().moved;
        for key in keys.iter().rev() {
            assert!(table.get(HashedKey::new(options.seed, key), 0).is_some());
        }
        let copied = table.table().stats().moved - before;
        assert!(
            copied.abs_diff(moved) <= 170 && (copied == 0) == (moved == 0),
            "{eviction:?}: {copied}"
        );
    }
}

#[test]
fn a_burst_answers_as_single_requests_do() {
    for eviction in EVICTIONS {
        let options = options(20_000, 60, eviction);
        let (mut single, mut burst) = (table(&options), table(&options));
        let mut random = fastrand::Rng::with_seed(6);
        for now in 0..2000 {
            let keys: Vec<[u8; 8]> = (0..random.usize(..60))
                .map(|_| random.u64(..900).to_le_bytes())
                .collect();
            let requests: Vec<BurstRequest<'_>> = keys
                .iter()
                .map(|key| {
                    let hashed = HashedKey::new(options.seed, key);
                    let expires_at = if random.u8(..3) == 0 { now + 4 } else { NEVER };
                    if random.bool() {
                        BurstRequest::Get(hashed)
                    } else {
                        BurstRequest::Set(hashed, &key[..4], expires_at)
                    }
                })
                .collect();
            let mut answered = 0;
            burst.burst(&requests, now, |number, response| {
                assert_eq!(number, answered);
                answered += 1;
                match requests[number] {
                    BurstRequest::Get(key) => {
                        assert_eq!(response, BurstResponse::Value(single.get(key, now)));
                    }
                    BurstRequest::Set(key, value, expires_at) => {
                        assert_eq!(
                            response,
                            BurstResponse::Set(single.set(key, value, expires_at, now))
                        );
                    }
                }
            });
            assert_eq!(answered, requests.len());
        }
        assert_eq!(single.table().stats(), burst.table().stats());
    }
}

#[test]
fn options_that_do_not_fit_each_other_and_items_that_are_too_long_are_refused() {
    let good = options(1 << 14, 20, CacheEviction::S3Fifo);
    for (bad, named) in [
        (LossyOptions { buckets: 0, ..good }, "buckets"),
        (
            LossyOptions {
                buckets: 1 << 20,
                ..good
            },
            "offset_bits",
        ),
        (
            LossyOptions {
                offset_bits: 48,
                ..good
            },
            "offset_bits",
        ),
        (
            LossyOptions {
                offset_bits: 15,
                ..good
            },
            "log_bytes",
        ),
        (
            LossyOptions {
                log_bytes: 1001,
                ..good
            },
            "log_bytes",
        ),
        (LossyOptions { log_bytes: 8, ..good }, "log_bytes"),
    ] {
        let error = LossyTable::<alluvium_hashes::mica::mode::Erew>::new(&bad).unwrap_err();
        assert!(
            matches!(error, Error::BadOption { option, .. } if option == named),
            "{error}"
        );
    }
    let mut table = table(&good);
    let key = HashedKey::new(good.seed, b"key");
    table.set(key, b"before", NEVER, 0).unwrap();
    assert!(matches!(
        table.set(key, &[0; 9000], NEVER, 0),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(
        table.set(HashedKey::new(7, &[0; 2000]), b"", NEVER, 0),
        Err(Error::TooLarge { .. })
    ));
    assert_eq!(
        table.get(key, 0),
        Some(&b"before"[..]),
        "a set that fails changes nothing"
    );
    table.set(key, &[3; 7000], NEVER, 0).unwrap();
    assert_eq!(table.get(key, 0).unwrap(), [3; 7000]);
}
