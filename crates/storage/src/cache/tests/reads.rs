use super::device::Lie;
use super::*;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

/// Waits until `count` lookups have joined reads started by other calls.
fn wait_for_joins(cache: &NodeCache, count: u64) {
    while cache.stats().joined < count {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn many_threads_that_miss_one_node_read_it_once() {
    let mut store = Store::new(1);
    let pointer = store.write(0, 1, 2, NodeCodec::Lz4);
    let cache = store.cache(MIB);
    store.files[0].close();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let guard = cache.epochs().pin();
                assert_content(&pointer, &cache.get(&pointer, &guard, Purpose::Lookup).unwrap());
            });
        }
        wait_for_joins(&cache, 7);
        store.files[0].open();
    });
    assert_eq!(store.reads(), 1);
    assert_eq!((cache.stats().misses, cache.stats().joined), (1, 7));
    assert_sound(&cache);
}

#[test]
fn a_failed_read_wakes_everyone_with_an_error_and_caches_nothing() {
    let mut store = Store::new(1);
    let pointer = store.write(0, 1, 1, NodeCodec::None);
    let cache = store.cache(MIB);
    for lie in [Lie::Fail, Lie::Flip, Lie::Zero] {
        let joined = cache.stats().joined;
        store.files[0].close();
        store.files[0].lie(lie);
        let errors: Vec<Error> = thread::scope(|scope| {
            let threads: Vec<_> = (0..5)
                .map(|_| {
                    scope.spawn(|| {
                        let guard = cache.epochs().pin();
                        cache.get(&pointer, &guard, Purpose::Lookup).unwrap_err()
                    })
                })
                .collect();
            wait_for_joins(&cache, joined + 4);
            store.files[0].open();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for error in errors {
            match (lie, error) {
                (Lie::Fail, Error::Device(error)) => assert!(error.to_string().contains("os error 5")),
                (Lie::Flip | Lie::Zero, Error::Corrupt { place, .. }) => assert_eq!(place, pointer.place()),
                (_, error) => panic!("{lie:?} led to {error}"),
            }
        }
        let guard = cache.epochs().pin();
        assert!(cache.peek(&pointer, &guard).is_none());
    }
    assert_eq!((store.reads(), cache.stats().failures), (3, 3));
    store.files[0].lie(Lie::None);
    let guard = cache.epochs().pin();
    assert_content(&pointer, &cache.get(&pointer, &guard, Purpose::Lookup).unwrap());
    drop(guard);
    assert_sound(&cache);
}

#[test]
fn a_compressed_node_that_verifies_but_does_not_decode_is_corrupt() {
    let mut store = Store::new(1);
    let good = store.write(0, 1, 4, NodeCodec::Zstd);
    let cache = store.cache(MIB);
    let guard = cache.epochs().pin();
    for pointer in [
        NodePointer {
            codec: NodeCodec::Lz4,
            ..good
        },
        NodePointer { pages: 5, ..good },
        NodePointer { pages: 2, ..good },
    ] {
        match cache.get(&pointer, &guard, Purpose::Lookup) {
            Err(Error::Corrupt { place, .. }) => assert_eq!(place, pointer.place()),
            other => panic!("{pointer:?} gave {other:?}"),
        }
    }
    assert_content(&good, &cache.get(&good, &guard, Purpose::Lookup).unwrap());
}

#[test]
fn pointers_that_cannot_be_one_are_errors_and_never_panics() {
    let mut store = Store::new(1);
    let good = store.write(0, 1, 1, NodeCodec::None);
    let cache = store.cache(MIB);
    let guard = cache.epochs().pin();
    let bad = [
        NodePointer { tier: 9, ..good },
        NodePointer { pages: 0, ..good },
        NodePointer { pages: 17, ..good },
        NodePointer {
            encoded_len: 0,
            ..good
        },
        NodePointer {
            encoded_len: u32::MAX,
            ..good
        },
        NodePointer { offset: 17, ..good },
        NodePointer {
            offset: !4095,
            ..good
        },
    ];
    for pointer in bad {
        let one = cache.get(&pointer, &guard, Purpose::Lookup);
        assert!(
            matches!(one, Err(Error::Corrupt { .. })),
            "{pointer:?} gave {one:?}"
        );
        assert!(
            cache
                .get_many(&[good, pointer], &guard, Purpose::Scan, CacheRetention::Keep)
                .is_err()
        );
        assert!(
            cache
                .request(&[good, pointer], Purpose::Scan, CacheRetention::Keep)
                .is_err()
        );
    }
    let past_the_end = NodePointer {
        offset: 1 << 40,
        ..good
    };
    assert!(matches!(
        cache.get(&past_the_end, &guard, Purpose::Lookup),
        Err(Error::Device(_))
    ));
    drop(guard);
    assert_sound(&cache);
}

#[test]
fn all_misses_of_a_tier_go_to_the_device_together() {
    let mut store = Store::new(2);
    let pointers: Vec<_> = (0..100)
        .map(|i| store.write(i % 2, 1, 1, NodeCodec::None))
        .collect();
    let cache = store.cache(MIB);
    let guard = cache.epochs().pin();
    cache.get(&pointers[4], &guard, Purpose::Lookup).unwrap();
    let twice: Vec<_> = pointers.iter().chain(&pointers[..10]).copied().collect();
    let nodes = cache
        .get_many(&twice, &guard, Purpose::Lookup, CacheRetention::Keep)
        .unwrap();
    for (pointer, node) in twice.iter().zip(&nodes) {
        assert_content(pointer, node);
    }
    // Adjacent nodes are read with a single request. The cached node splits the nodes into those
    // before and those after it.
    assert_eq!(store.files[0].batches(), [1, 2]);
    assert_eq!(store.files[1].batches(), [1]);
}

#[test]
fn an_error_among_many_is_reported_after_all_reads_are_settled() {
    let mut store = Store::new(1);
    let mut pointers = store.write_many(30, 1);
    pointers[7].checksum ^= 1;
    let cache = store.cache(MIB);
    let guard = cache.epochs().pin();
    let error = cache
        .get_many(&pointers, &guard, Purpose::Lookup, CacheRetention::Keep)
        .unwrap_err();
    assert!(matches!(error, Error::Corrupt { place, .. } if place == pointers[7].place()));
    assert_eq!(cache.shared.flights.len(), 0);
    assert!(cache.peek(&pointers[29], &guard).is_some());
    drop(guard);
    assert_sound(&cache);
}

#[test]
fn a_node_that_cannot_be_read_does_not_fail_its_neighbours() {
    let mut store = Store::new(1);
    let mut pointers: Vec<_> = [NodeCodec::None, NodeCodec::Lz4]
        .into_iter()
        .flat_map(|codec| [codec; 5])
        .map(|codec| store.write(0, 1, 2, codec))
        .collect();
    let bad = pointers.swap_remove(3);
    let cache = store.cache(MIB);
    store.files[0].lie(Lie::FailAt(bad.offset));
    let all: Vec<_> = pointers.iter().copied().chain([bad]).collect();
    cache
        .request(&all, Purpose::Scan, CacheRetention::PassThrough)
        .unwrap()
        .wait();
    let guard = cache.epochs().pin();
    for pointer in &pointers {
        assert_content(pointer, &cache.peek_untracked(pointer, &guard).unwrap());
    }
    assert!(cache.peek_untracked(&bad, &guard).is_none());
    assert!(matches!(
        cache.get(&bad, &guard, Purpose::Lookup),
        Err(Error::Device(_))
    ));
    drop(guard);
    assert_sound(&cache);
}

#[test]
fn requested_nodes_are_hits_once_the_request_is_finished() {
    let mut store = Store::new(1);
    let pointers = store.write_many(10, 1);
    let cache = store.cache(MIB);
    store.files[0].close();
    let mut pending = cache
        .request(&pointers, Purpose::Scan, CacheRetention::PassThrough)
        .unwrap();
    assert!(!pending.poll());
    let held = cache.epochs().current();
    for _ in 0..4 {
        cache.epochs().try_advance();
    }
    assert!(cache.epochs().safe() <= held, "reads in flight hold the epoch");
    store.files[0].open();
    assert!(pending.poll());
    let guard = cache.epochs().pin();
    for pointer in &pointers {
        assert_content(pointer, &cache.peek(pointer, &guard).unwrap());
    }
    assert_eq!((pending.skipped(), store.files[0].batches()), (0, vec![1]));
    drop(guard);
    assert_sound(&cache);
}

#[test]
fn a_lookup_joins_a_request_and_an_abandoned_request_is_finished_by_the_cache() {
    let mut store = Store::new(1);
    let pointers = store.write_many(10, 1);
    let cache = store.cache(MIB);
    let mut first = cache
        .request(&pointers[..5], Purpose::Scan, CacheRetention::Keep)
        .unwrap();
    let guard = cache.epochs().pin();
    assert_content(
        &pointers[2],
        &cache.get(&pointers[2], &guard, Purpose::Lookup).unwrap(),
    );
    assert!(first.poll());
    drop(guard);
    store.files[0].close();
    drop(
        cache
            .request(&pointers[5..], Purpose::Scan, CacheRetention::Keep)
            .unwrap(),
    );
    cache.maintain();
    assert_eq!(cache.shared.flights.len(), 5);
    store.files[0].open();
    cache.maintain();
    assert_eq!(cache.shared.flights.len(), 0);
    assert_eq!(store.files[0].batches(), [1, 1]);
    assert_sound(&cache);
}

#[test]
fn requests_read_ahead_only_a_part_of_the_cache() {
    let mut store = Store::new(1);
    let pointers = store.write_many(1000, 1);
    let cache = store.cache(MIB);
    store.files[0].close();
    let mut all = Vec::new();
    for some in pointers.chunks(20) {
        all.push(cache.request(some, Purpose::Scan, CacheRetention::Keep).unwrap());
    }
    let skipped: usize = all.iter().map(PendingReads::skipped).sum();
    assert!((900..1000).contains(&skipped), "{skipped} of 1000 were skipped");
    store.files[0].open();
    all.iter_mut().for_each(PendingReads::wait);
    assert_sound(&cache);
}

#[test]
fn a_thread_that_panics_in_the_device_does_not_leave_others_waiting() {
    let mut store = Store::new(1);
    let pointer = store.write(0, 1, 1, NodeCodec::None);
    let cache = store.cache(MIB);
    store.files[0].lie(Lie::Panic);
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let panicking = scope.spawn(|| {
            start.wait();
            let guard = cache.epochs().pin();
            let _ = cache.get(&pointer, &guard, Purpose::Lookup);
        });
        start.wait();
        assert!(panicking.join().is_err());
    });
    store.files[0].lie(Lie::None);
    let guard = cache.epochs().pin();
    assert_content(&pointer, &cache.get(&pointer, &guard, Purpose::Lookup).unwrap());
    assert_eq!(cache.shared.flights.len(), 0);
}

#[test]
fn the_cache_may_be_dropped_while_reads_are_in_flight() {
    let mut store = Store::new(1);
    let pointers = store.write_many(10, 1);
    let cache = store.cache(MIB);
    store.files[0].close();
    drop(
        cache
            .request(&pointers, Purpose::Scan, CacheRetention::Keep)
            .unwrap(),
    );
    drop(cache);
    store.files[0].open();
}
