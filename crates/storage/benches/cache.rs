//! Cost of cache operations: hits, hits by two threads, misses and insertions.
//! `cargo bench -p alluvium-storage --bench cache` prints medians of three. Without `--bench`, it
//! runs with tiny inputs, as a test of the bench.

use alluvium_base::{Purpose, checksum};
use alluvium_device::{AlignedBuffer, memory::MemoryDirectory};
use alluvium_storage::{CacheRetention, Epochs, NodeCache, NodeCodec, NodePointer, PageSize, TierFiles};
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::Instant;

const PAGE: usize = 4096;

struct Sizes {
    operations: usize,
    hot: usize,
    large: usize,
    missed: usize,
}

impl Sizes {
    fn new() -> Sizes {
        if std::env::args().any(|argument| argument == "--bench") {
            Sizes {
                operations: 4_000_000,
                hot: 1_000,
                large: 50_000,
                missed: 40_000,
            }
        } else {
            Sizes {
                operations: 2_000,
                hot: 100,
                large: 1_000,
                missed: 600,
            }
        }
    }
}

/// Returns an in-memory device with one-page nodes, and pointers to them.
fn store(nodes: usize) -> (Arc<TierFiles>, Vec<NodePointer>) {
    let directory = MemoryDirectory::new();
    let tiers = Arc::new(TierFiles::create(&[&directory]).expect("memory is there"));
    let file = tiers.get(0).expect("there is one tier");
    file.grow((nodes * PAGE) as u64).expect("memory is there");
    let pointers = (0..nodes).map(|i| {
        let mut node = AlignedBuffer::zeroed(PAGE);
        node[..8].copy_from_slice(&(i as u64).to_le_bytes());
        let pointer = NodePointer {
            offset: (i * PAGE) as u64,
            birth: 1,
            checksum: checksum(&node),
            encoded_len: PAGE as u32,
            tier: 0,
            pages: 1,
            codec: NodeCodec::None,
        };
        file.write_at(pointer.offset, node, Purpose::Other)
            .expect("memory is there");
        pointer
    });
    let pointers = pointers.collect();
    (tiers, pointers)
}

/// Returns a cache that holds all of the nodes.
fn warm(tiers: &Arc<TierFiles>, pointers: &[NodePointer]) -> NodeCache {
    let budget = (pointers.len() * PAGE * 5 / 4).max(1 << 20) as u64;
    let cache =
        NodeCache::new(Arc::clone(tiers), Epochs::new(), PageSize::MIN, budget).expect("memory is there");
    for pointer in pointers {
        let guard = cache.epochs().pin();
        cache
            .get(pointer, &guard, Purpose::Lookup)
            .expect("the node is there");
    }
    cache
}

fn shuffled(count: usize, below: usize, seed: u64) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.u32(..below as u32)).collect()
}

/// Operations per measured slice, for hits and for misses.
const HITS: usize = 10_000;
const MISSES: usize = 512;

/// Returns the median of three runs in nanoseconds per operation. Each run is the median of its
/// slices, so that a slice interrupted by another process carries no extra weight.
fn median_of_slices<T>(items: &[T], slice: usize, mut run: impl FnMut(&[T])) -> f64 {
    median((0..3).map(|_| slices(items, slice, &mut run)))
}

fn slices<T>(items: &[T], slice: usize, mut run: impl FnMut(&[T])) -> f64 {
    let time = |items: &[T]| {
        let start = Instant::now();
        run(items);
        start.elapsed().as_nanos() as f64 / items.len() as f64
    };
    median(items.chunks(slice).map(time))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn first_word(node: &[u8]) -> u64 {
    u64::from_le_bytes(node[..8].try_into().expect("a node has eight bytes"))
}

fn hits_under_one_guard(cache: &NodeCache, pointers: &[NodePointer], order: &[u32]) -> u64 {
    let guard = cache.epochs().pin();
    let node = |&i: &u32| {
        cache
            .get(&pointers[i as usize], &guard, Purpose::Lookup)
            .expect("it is cached")
    };
    order
        .iter()
        .map(|i| first_word(&node(i)))
        .fold(0, u64::wrapping_add)
}

fn hits_under_a_guard_each(cache: &NodeCache, pointers: &[NodePointer], order: &[u32]) -> u64 {
    let word = |&i: &u32| {
        let guard = cache.epochs().pin();
        first_word(
            &cache
                .get(&pointers[i as usize], &guard, Purpose::Lookup)
                .expect("it is cached"),
        )
    };
    order.iter().map(word).fold(0, u64::wrapping_add)
}

type Hits = fn(&NodeCache, &[NodePointer], &[u32]) -> u64;

/// Returns the throughput of two threads relative to that of one.
fn two_over_one(cache: &NodeCache, pointers: &[NodePointer], order: &[u32], hits: Hits) -> f64 {
    let run = |threads: usize| {
        let start = Barrier::new(threads);
        let one = || {
            start.wait();
            slices(order, HITS, |slice| _ = black_box(hits(cache, pointers, slice)))
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
            let times = workers.into_iter().map(|worker| worker.join().expect("it ends"));
            times.sum::<f64>() / threads as f64
        })
    };
    median((0..5).map(|_| 2.0 * run(1) / run(2)))
}

fn report(name: &str, value: f64, unit: &str) {
    println!("{name:<58} {value:>9.1} {unit}");
}

fn hits(sizes: &Sizes) {
    let (tiers, pointers) = store(sizes.large);
    let epochs = Epochs::new();
    let operations = shuffled(sizes.operations, 1, 1);
    let pins = median_of_slices(&operations, HITS, |slice| {
        slice.iter().for_each(|_| drop(black_box(epochs.pin())));
    });
    report("pin and unpin", pins, "ns");
    for (name, nodes) in [("hot", sizes.hot), ("large", sizes.large)] {
        let pointers = &pointers[..nodes];
        let cache = warm(&tiers, pointers);
        let order = shuffled(sizes.operations, nodes, 7);
        for (guards, hits) in [
            ("one guard", hits_under_one_guard as Hits),
            ("a guard each", hits_under_a_guard_each),
        ] {
            let time = median_of_slices(&order, HITS, |slice| _ = black_box(hits(&cache, pointers, slice)));
            report(
                &format!("hit and its first word, {name} ({nodes} nodes), {guards}"),
                time,
                "ns",
            );
        }
        if name == "hot" {
            for (guards, hits) in [
                ("one guard", hits_under_one_guard as Hits),
                ("a guard each", hits_under_a_guard_each),
            ] {
                let ratio = two_over_one(&cache, pointers, &order, hits);
                report(&format!("two threads over one, {name}, {guards}"), ratio, "x");
            }
        }
    }
}

fn misses(sizes: &Sizes) {
    let (tiers, pointers) = store(sizes.missed);
    let budget = (sizes.missed * PAGE / 10).max(1 << 20) as u64;
    let cache =
        || NodeCache::new(Arc::clone(&tiers), Epochs::new(), PageSize::MIN, budget).expect("memory is there");
    let file = tiers.get(0).expect("there is one tier");
    let device = median_of_slices(&pointers, MISSES, |pointers| {
        for pointer in pointers {
            let node = file.read_at(pointer.offset, PAGE, Purpose::Lookup);
            pointer
                .verify(&node.expect("the node is there"))
                .expect("it is intact");
        }
    });
    report("read and verify without a cache (memory device)", device, "ns");
    let cached = cache();
    let single = median_of_slices(&pointers, MISSES, |pointers| {
        for pointer in pointers {
            let guard = cached.epochs().pin();
            let node = cached.get(pointer, &guard, Purpose::Lookup);
            black_box(node.expect("the node is there"));
        }
    });
    report("miss, one at a time", single, "ns");
    report("miss, one at a time, without the device", single - device, "ns");
    for residence in [CacheRetention::Keep, CacheRetention::PassThrough] {
        let cached = cache();
        let batched = median_of_slices(&pointers, MISSES, |pointers| {
            for some in pointers.chunks(32) {
                let guard = cached.epochs().pin();
                let nodes = cached.get_many(some, &guard, Purpose::Scan, residence);
                black_box(nodes.expect("the nodes are there"));
            }
        });
        report(&format!("miss, 32 at a time, {residence:?}"), batched, "ns");
        let stats = cached.stats();
        let private = 100.0 * stats.private_reads as f64 / stats.misses as f64;
        report("  of these served from private memory", private, "%");
    }
    let cached = cache();
    let node = vec![0; PAGE];
    let insert = median_of_slices(&pointers, MISSES, |pointers| {
        pointers.iter().for_each(|pointer| cached.insert(pointer, &node));
    });
    report("insert, evicting another", insert, "ns");
}

fn main() {
    let sizes = Sizes::new();
    hits(&sizes);
    misses(&sizes);
}
