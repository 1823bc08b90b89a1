//! Tests of the library's cache with several threads.

use alluvium_hashes::mica::{CacheEviction, Error};
use alluvium_hashes::{Cache, CacheOptions};

const EVICTIONS: [CacheEviction; 4] = [
    CacheEviction::Fifo,
    CacheEviction::Lru,
    CacheEviction::ApproximateLru,
    CacheEviction::S3Fifo,
];

/// Returns a value that identifies its key and version, and shows whether it is complete.
fn value(key: u64, version: u64) -> Vec<u8> {
    let len = 8 + (version % 90) as usize;
    let mut value = (key << 32 | version).to_le_bytes().to_vec();
    value.resize(len, version as u8);
    value
}

/// Returns the version of a complete value of a key.
fn version(key: u64, bytes: &[u8]) -> u64 {
    let first = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(first >> 32, key, "another key's value");
    let version = first & 0xffff_ffff;
    assert!(value(key, version) == bytes, "torn: {bytes:?}");
    version
}

/// Each thread reads all keys but writes only its own. It therefore knows the values of its own
/// keys, and that the versions of other keys never decrease.
#[test]
fn threads_read_whole_values_and_the_last_of_what_they_wrote() {
    const KEYS: u64 = 500;
    for eviction in EVICTIONS {
        let options = CacheOptions {
            partitions: 2,
            item_bytes: 60,
            eviction,
            ..CacheOptions::new(48 << 10)
        };
        let cache = Cache::new(&options).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let cache = cache.clone();
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    let mut seen = vec![0; KEYS as usize];
                    for round in 1..4000_u64 {
                        let key = random.u64(..KEYS / 4) * 4 + thread;
                        cache.set(&key.to_le_bytes(), &value(key, round)).unwrap();
                        seen[key as usize] = round;
                        if round % 50 == 0 {
                            cache.delete(&key.to_le_bytes());
                            seen[key as usize] = u64::MAX;
                        }
                        for _ in 0..3 {
                            let key = random.u64(..KEYS);
                            let Some(value) = cache.get(&key.to_le_bytes()) else {
                                continue;
                            };
                            let (version, last) = (version(key, &value), &mut seen[key as usize]);
                            if key % 4 == thread {
                                assert_eq!(version, *last, "not the last value of key {key}");
                            } else {
                                assert!(version >= *last, "key {key} went back");
                                *last = version;
                            }
                        }
                    }
                });
            }
        });
        let stats = cache.stats();
        assert!(
            stats.hits > 0 && stats.hits < stats.gets && stats.dropped > 0,
            "{stats:?}"
        );
        assert_eq!((stats.sets, stats.gets), (4 * 3999, 4 * 3999 * 3));
        assert!(cache.memory_bytes() <= 48 << 10);
    }
}

#[test]
fn many_at_once_are_answered_as_one_by_one() {
    let cache = Cache::new(&CacheOptions::new(1 << 20)).unwrap();
    let keys: Vec<Vec<u8>> = (0..500_u32)
        .map(|key| format!("key {key}").into_bytes())
        .collect();
    let items: Vec<(&[u8], &[u8])> = keys.iter().step_by(2).map(|key| (&key[..], &key[4..])).collect();
    let mut set = 0;
    cache.set_many(&items, |number, result| {
        assert_eq!((number, result), (set, Ok(())));
        set += 1;
    });
    assert_eq!(set, 250);
    let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut answered = 0;
    cache.get_many(&asked, |number, value| {
        assert_eq!((number, value), (answered, cache.get(asked[number]).as_deref()));
        assert_eq!(value.is_some(), number % 2 == 0);
        answered += 1;
    });
    assert_eq!((answered, cache.stats().hits), (500, 500));
}

#[test]
fn items_expire_with_time_which_goes_back_only_if_it_is_far_ahead() {
    let cache = Cache::new(&CacheOptions::new(1 << 20)).unwrap();
    cache.set_until(b"short", b"1", 10).unwrap();
    cache.set_until(b"long", b"2", 20).unwrap();
    cache.tick(10);
    cache.tick(5);
    assert_eq!(
        (cache.get(b"short"), cache.get(b"long")),
        (None, Some(b"2".to_vec()))
    );
    assert!(!cache.delete(b"short") && cache.delete(b"long") && !cache.delete(b"long"));
    cache.set_until(b"next", b"3", 9).unwrap();
    cache.correct_time(5, 5);
    assert_eq!(cache.get(b"next"), None);
    cache.correct_time(5, 4);
    cache.set_until(b"next", b"3", 9).unwrap();
    assert_eq!(cache.get(b"next"), Some(b"3".to_vec()));
    cache.tick(9);
    assert_eq!(cache.get(b"next"), None);
}

#[test]
fn a_cache_keeps_to_its_bytes_and_refuses_options_that_make_no_sense() {
    for bytes in [128 << 10, 1 << 20, 64 << 20, 1_000_003 * 7] {
        for item_bytes in [1, 16, 256, 100_000] {
            let cache = Cache::new(&CacheOptions {
                item_bytes,
                ..CacheOptions::new(bytes)
            })
            .unwrap();
            let used = cache.memory_bytes();
            assert!(used <= bytes && used >= bytes / 10 * 8, "{used} of {bytes}");
        }
    }
    let good = CacheOptions::new(1 << 20);
    for (bad, named) in [
        (CacheOptions { bytes: 1000, ..good }, "bytes"),
        (
            CacheOptions {
                partitions: 0,
                ..good
            },
            "partitions",
        ),
        (
            CacheOptions {
                item_bytes: 0,
                ..good
            },
            "item_bytes",
        ),
    ] {
        let error = Cache::new(&bad).unwrap_err();
        assert!(
            matches!(error, Error::BadOption { option, .. } if option == named),
            "{error}"
        );
    }
    let cache = Cache::new(&good).unwrap();
    assert!(matches!(
        cache.set(b"key", &[0; 20_000]),
        Err(Error::TooLarge { .. })
    ));
    assert!(cache.set(b"key", &[0; 8000]).is_ok());
}
