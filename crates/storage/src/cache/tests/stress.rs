use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

struct Run {
    seed: u64,
    threads: usize,
    operations: usize,
    budget: u64,
}

/// Performs one thread's random operations, and compares every node that the cache returns with its
/// pointer.
fn operate(cache: &NodeCache, pointers: &[NodePointer], random: &mut fastrand::Rng) {
    let mut choose = |n: usize| -> Vec<NodePointer> {
        // Choose two thirds of the nodes from the first quarter.
        let one = |random: &mut fastrand::Rng| {
            let below = if random.u8(..3) < 2 {
                pointers.len() / 4
            } else {
                pointers.len()
            };
            pointers[random.usize(..below)]
        };
        (0..n).map(|_| one(random)).collect()
    };
    let (some, one) = (choose(12), choose(1)[0]);
    let guard = cache.epochs().pin();
    match random.u8(..100) {
        0..50 => assert!(is_content_of(
            &one,
            &cache.get(&one, &guard, Purpose::Lookup).unwrap()
        )),
        50..65 => {
            let residence = if random.bool() {
                CacheRetention::Keep
            } else {
                CacheRetention::PassThrough
            };
            let nodes = cache.get_many(&some, &guard, Purpose::Scan, residence).unwrap();
            assert!(
                some.iter()
                    .zip(&nodes)
                    .all(|(pointer, node)| is_content_of(pointer, node))
            );
        }
        65..75 => {
            let mut pending = cache
                .request(&some, Purpose::Scan, CacheRetention::PassThrough)
                .unwrap();
            if random.bool() {
                pending.poll();
            }
            for pointer in &some {
                if let Some(node) = cache.peek(pointer, &guard) {
                    assert!(is_content_of(pointer, &node));
                }
            }
        }
        75..85 => {
            let node = cache.get(&one, &guard, Purpose::Lookup).unwrap().retain();
            drop(guard);
            for other in &some {
                let guard = cache.epochs().pin();
                assert!(is_content_of(
                    other,
                    &cache.get(other, &guard, Purpose::Lookup).unwrap()
                ));
            }
            assert!(is_content_of(&one, &node.clone()));
        }
        85..92 => cache.insert(&one, &content(one.offset, one.birth, one.pages)),
        92..98 => cache.discard(&one),
        _ => cache.maintain(),
    }
}

fn run(run: &Run) {
    let mut store = Store::new(2);
    let mut random = fastrand::Rng::with_seed(run.seed);
    let pointers: Vec<_> = (0..1500)
        .map(|_| {
            let pages = *random.choice([1, 1, 1, 1, 2, 4, 5, 16].iter()).unwrap();
            let codec = *random
                .choice([NodeCodec::None, NodeCodec::None, NodeCodec::Lz4].iter())
                .unwrap();
            store.write(random.u8(..2), random.u64(..9), pages, codec)
        })
        .collect();
    let cache = store.cache(run.budget);
    let (stop, exceeded) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..run.threads as u64)
            .map(|thread| {
                let mut random = fastrand::Rng::with_seed(run.seed ^ thread << 32);
                let (cache, pointers) = (&cache, &pointers);
                scope.spawn(move || {
                    for _ in 0..run.operations {
                        operate(cache, pointers, &mut random);
                    }
                })
            })
            .collect();
        let sampler = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let stats = cache.stats();
                // Guards and references may keep more private memory alive than is reserved for it.
                // That memory cannot be limited, so exclude it here.
                let own = stats.charged_bytes - stats.private_bytes - stats.working_bytes;
                if own > stats.budget_bytes - stats.budget_bytes / 32 {
                    exceeded.fetch_add(1, Ordering::Relaxed);
                }
                thread::yield_now();
            }
        });
        let results: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        sampler.join().unwrap();
        assert!(results.iter().all(|result| result.is_ok()), "seed {}", run.seed);
    });
    assert_eq!(
        exceeded.load(Ordering::Relaxed),
        0,
        "samples in which the budget was exceeded"
    );
    while cache.shared.flights.len() > 0 {
        cache.maintain();
    }
    assert_sound(&cache);
    let stats = cache.stats();
    assert_eq!(
        (stats.private_bytes, stats.pinned_bytes, stats.working_bytes),
        (0, 0, 0)
    );
    assert!(stats.evictions > 0 && stats.failures == 0, "{stats:?}");
}

#[test]
fn threads_with_random_operations_see_only_what_pointers_mean() {
    for seed in 1..=2 {
        run(&Run {
            seed,
            threads: 4,
            operations: 1500,
            budget: MIB,
        });
    }
    run(&Run {
        seed: 3,
        threads: 3,
        operations: 2000,
        budget: 4 * MIB,
    });
}

#[test]
fn the_budget_may_change_under_threads_at_work() {
    let mut store = Store::new(2);
    let pointers: Vec<_> = (0..1500)
        .map(|i| store.write(i as u8 % 2, 1, 1 + i as u8 % 3, NodeCodec::None))
        .collect();
    let cache = store.cache(2 * MIB);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..3 {
            let mut random = fastrand::Rng::with_seed(thread);
            let (cache, pointers, stop) = (&cache, &pointers, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    operate(cache, pointers, &mut random);
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(77);
        for _ in 0..40 {
            cache.set_budget(random.u64(1..16) * MIB).unwrap();
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    while cache.shared.flights.len() > 0 {
        cache.maintain();
    }
    cache.set_budget(MIB).unwrap();
    assert_sound(&cache);
    assert!(cache.stats().charged_bytes <= MIB);
}
