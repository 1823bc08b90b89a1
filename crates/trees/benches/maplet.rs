//! Speed of the maplet in a store on the memory device: building, merging, and lookups in one
//! maplet and in all maplets of a path.
//!
//! Prints medians of five. Without `--bench` (under `cargo test`) it runs on a small input.

use alluvium_base::Purpose;
use alluvium_device::memory::MemoryDirectory;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_trees::maplet::{
    Maplet, MapletMergeProgress, MapletMerger, MapletSource, MapletSpec, WrittenMaplet, lookup_path,
};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const SPEC: MapletSpec = MapletSpec {
    fingerprint_bits: 36,
    purpose: Purpose::Compact,
    class: AllocationClass::Normal,
    tier: 0,
};
const SOURCES: u16 = 8;
const PATH: usize = 16;

fn hashes(seed: u64, count: usize) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.u64(..)).collect()
}

/// Returns nanoseconds per operation of a round with `count` operations, the median of five rounds.
fn time(count: usize, mut round: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_nanos() as f64 / count as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[2]
}

fn keep(store: &Store, written: WrittenMaplet) -> Maplet {
    store.extents().install(&written.extents);
    written.maplet
}

fn merge(store: &Store, maplets: &[Maplet]) -> WrittenMaplet {
    let source = |(number, maplet): (usize, &Maplet)| MapletSource {
        maplet: maplet.clone(),
        rewrite: [Some(number as u16)].into(),
    };
    let sources = maplets.iter().enumerate().map(source).collect();
    let mut merger = MapletMerger::new(store, &SPEC, sources, None).expect("good options");
    loop {
        if let MapletMergeProgress::Done(written) = merger.step(50_000).expect("memory") {
            return written;
        }
    }
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let each = if full { 250_000 } else { 1000 };
    let options = StoreOptions {
        cache_bytes: 256 << 20,
        ..StoreOptions::default()
    };
    let store = Store::create(Arc::new(MemoryDirectory::new()), &options, b"").expect("memory");
    println!("maplets of {each} fingerprints of 36 bits, medians of five");
    let keys: Vec<Vec<u64>> = (0..PATH as u64).map(|seed| hashes(seed, each)).collect();
    let maplets: Vec<Maplet> = keys
        .iter()
        .map(|keys| {
            keep(
                &store,
                Maplet::build(&store, &SPEC, keys.clone(), 0).expect("memory"),
            )
        })
        .collect();
    let building = time(each, || {
        Maplet::build(&store, &SPEC, keys[0].clone(), 0)
            .expect("memory")
            .abandon(&store);
    });
    println!(
        "  build                             {:>7.1} M fingerprints/s",
        1e3 / building
    );
    let merged = &maplets[..usize::from(SOURCES)];
    let merging = time(each * merged.len(), || merge(&store, merged).abandon(&store));
    println!(
        "  merge of {SOURCES}                        {:>7.1} M fingerprints/s",
        1e3 / merging
    );
    let whole = keep(&store, merge(&store, merged));
    println!(
        "  {SOURCES} together                        {:>7.2} bits a fingerprint, all told",
        whole.bytes() as f64 * 8.0 / whole.entries() as f64
    );
    let guard = store.epochs().pin();
    let probes = hashes(99, 100_000.min(each));
    for (name, probes) in [("hits", &keys[0][..probes.len()]), ("misses", &probes[..])] {
        let one = time(probes.len(), || {
            for &hash in probes {
                black_box(whole.lookup(hash, store.cache(), &guard).expect("cached"));
            }
        });
        println!("  lookup in the cache, {name:<13} {one:>7.1} ns");
    }
    let path: Vec<&Maplet> = maplets.iter().collect();
    let mut out = alluvium_trees::maplet::MapletAnswers::new();
    let together = time(probes.len() * PATH, || {
        for &hash in &probes {
            lookup_path(&path, hash, store.cache(), &guard, &mut out).expect("cached");
            black_box(&out);
        }
    });
    println!("  path of {PATH}, each                 {together:>7.1} ns");
}
