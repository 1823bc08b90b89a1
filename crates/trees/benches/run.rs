//! Cost of runs: `cargo bench -p alluvium-trees --bench run` prints medians of three, measured with
//! one thread on the memory device. Without `--bench` it runs with tiny inputs, as a test of the
//! bench.
//!
//! Unless stated otherwise, records have random keys of 24 bytes and values of 100 bytes, half of
//! them random; user bytes are these 124. Cursors compare keys and locate values, but do not read
//! the values.

use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, Purpose};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_dictionary::merge::{MergeDirection, MergingIter};
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{NodeCodec, PageSize};
use alluvium_trees::run::{
    BuiltRun, CursorAccess, IndexedRun, RunBuilder, RunOptions, RunRecordCursor, open_many,
};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

type Key = [u8; 24];

const SOURCES: usize = 8;

struct Sizes {
    records: usize,
    lookups: usize,
    cache_bytes: u64,
}

fn main() {
    let sizes = if std::env::args().any(|argument| argument == "--bench") {
        Sizes {
            records: 2_000_000,
            lookups: 1_000_000,
            cache_bytes: 512 << 20,
        }
    } else {
        Sizes {
            records: 4_000,
            lookups: 500,
            cache_bytes: 8 << 20,
        }
    };
    let keys = random_keys(sizes.records);
    println!("run of {} records, medians of three", sizes.records);
    let parts: [(&str, Part); 6] = [
        ("build", builds),
        ("footprint", footprints),
        ("scan", scanning),
        ("warm", lookups),
        ("cold", cold_lookups),
        ("merge", merging),
    ];
    // Words after `--` select parts: `cargo bench -p alluvium-trees --bench run -- warm`.
    let is_word = |argument: &String| !argument.starts_with('-');
    let chosen: Vec<String> = std::env::args().skip(1).filter(is_word).collect();
    for (name, part) in parts {
        if chosen.is_empty() || chosen.iter().any(|word| word == name) {
            part(&keys, &sizes);
        }
    }
}

/// A part of the bench.
type Part = fn(&[Key], &Sizes);

fn builds(keys: &[Key], sizes: &Sizes) {
    for page in [4096, 16384] {
        for codec in [NodeCodec::None, NodeCodec::Lz4] {
            building(keys, page, codec, sizes);
        }
    }
}

fn footprints(keys: &[Key], sizes: &Sizes) {
    for length in [20, 400, 1000, 4000] {
        footprint(&keys[..sizes.records / 10], length, sizes);
    }
}

fn random_keys(count: usize) -> Vec<Key> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut keys: Vec<Key> = (0..count)
        .map(|_| {
            let mut key = [0; 24];
            random.fill(&mut key);
            key
        })
        .collect();
    keys.sort_unstable();
    keys
}

fn store(page: u32, cache_bytes: u64) -> (Store, Arc<dyn Directory>) {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let options = StoreOptions {
        page_size: PageSize::new(page).expect("a page size"),
        cache_bytes,
        ..StoreOptions::default()
    };
    let store = Store::create(Arc::clone(&directory), &options, b"").expect("memory");
    (store, directory)
}

fn build<'k>(
    store: &Store,
    codec: NodeCodec,
    keys: impl Iterator<Item = &'k Key>,
    values: &Values,
) -> BuiltRun {
    let options = RunOptions {
        codec,
        ..RunOptions::new(Purpose::Incorporate)
    };
    let mut builder = RunBuilder::new(store, &options).expect("good options");
    for (number, key) in (1..).zip(keys) {
        // Sequence numbers are not in key order, as in a memtable filled in random order.
        let sequence = 1 + (number * 0x9e37_79b9) % 16_000_000;
        builder
            .push(key, Message::put(sequence, values.get(number)).into())
            .expect("there is room");
    }
    builder.finish().expect("memory").expect("there are records")
}

/// Values of one length, half of it random.
struct Values {
    bytes: Vec<u8>,
    length: usize,
}

impl Values {
    fn new(length: usize) -> Values {
        let mut random = fastrand::Rng::with_seed(2);
        let bytes = (0..1 << 20).map(|at| if at / 50 % 2 == 0 { 7 } else { random.u8(..) });
        Values {
            bytes: bytes.collect(),
            length,
        }
    }

    fn get(&self, number: u64) -> &[u8] {
        let at = (number as usize * 331) % (self.bytes.len() - self.length);
        &self.bytes[at..at + self.length]
    }
}

fn median(mut figures: [f64; 3]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[1]
}

/// Returns nanoseconds per item, a median of three rounds.
fn nanoseconds(items: usize, mut round: impl FnMut()) -> f64 {
    median([(); 3].map(|()| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / items as f64
    }))
}

fn report(what: &str, figure: &str) {
    println!("  {what:<46} {figure}");
}

fn building(keys: &[Key], page: u32, codec: NodeCodec, sizes: &Sizes) {
    let (store, _) = store(page, sizes.cache_bytes);
    let values = Values::new(100);
    let mut live = 0;
    let nanoseconds = nanoseconds(keys.len(), || {
        let built = build(&store, codec, keys.iter(), &values);
        live = built.extents.iter().map(|(_, live)| live).sum();
        built.abandon(&store);
    });
    let user = (124 * keys.len()) as f64;
    report(
        &format!("build, pages of {} KiB, {codec:?}", page >> 10),
        &format!(
            "{:6.0} MB/s  {:5.2} M records/s  {:.4} bytes on disk a byte",
            124e3 / nanoseconds,
            1e3 / nanoseconds,
            live as f64 / user
        ),
    );
}

fn footprint(keys: &[Key], length: usize, sizes: &Sizes) {
    let (store, _) = store(4096, sizes.cache_bytes);
    let built = build(&store, NodeCodec::None, keys.iter(), &Values::new(length));
    let bytes: u64 = built.extents.iter().map(|(extent, _)| extent.bytes()).sum();
    let user = ((24 + length) * keys.len()) as f64;
    report(
        &format!("values of {length} bytes"),
        &format!("{:.4} bytes in extents a byte", bytes as f64 / user),
    );
}

fn installed<'k>(store: &Store, keys: impl Iterator<Item = &'k Key>) -> IndexedRun {
    let built = build(store, NodeCodec::None, keys, &Values::new(100));
    store.extents().install(&built.extents);
    built.run
}

fn scanning(keys: &[Key], sizes: &Sizes) {
    let (store, _) = store(4096, sizes.cache_bytes);
    let run = installed(&store, keys.iter());
    for access in [CursorAccess::Streaming, CursorAccess::Cached] {
        for direction in [MergeDirection::Forward, MergeDirection::Backward] {
            let nanoseconds = nanoseconds(keys.len(), || {
                let mut cursor = run.cursor(&store, KeyRange::everything(), direction, access);
                cursor.start().expect("sound");
                let mut seen = 0;
                while let Some(key) = cursor.key() {
                    black_box((key, cursor.record()));
                    seen += 1;
                    cursor.advance().expect("sound");
                }
                assert_eq!(seen, keys.len());
            });
            report(
                &format!("scan {access:?} {direction:?}"),
                &format!(
                    "{:6.0} MB/s  {:5.2} M records/s",
                    124e3 / nanoseconds,
                    1e3 / nanoseconds
                ),
            );
        }
    }
}

fn lookups(keys: &[Key], sizes: &Sizes) {
    let (store, _) = store(4096, sizes.cache_bytes);
    let run = installed(&store, keys.iter());
    let mut random = fastrand::Rng::with_seed(3);
    for (what, count) in [("of 10,000 keys", 10_000), ("of all keys", keys.len())] {
        let probes: Vec<&Key> = (0..sizes.lookups)
            .map(|_| &keys[random.usize(..count.min(keys.len()))])
            .collect();
        let round = || {
            let guard = store.epochs().pin();
            for key in &probes {
                let visit = |record: alluvium_dictionary::record::StoredRecord<'_>| {
                    black_box(record);
                    Ok(ControlFlow::Break(()))
                };
                run.find(
                    &key[..],
                    MAX_SEQUENCE,
                    store.cache(),
                    &guard,
                    Purpose::Lookup,
                    visit,
                )
                .expect("sound");
            }
        };
        round();
        let nanoseconds = nanoseconds(probes.len(), round);
        report(&format!("warm lookup {what}"), &format!("{nanoseconds:6.0} ns"));
    }
}

fn cold_lookups(keys: &[Key], sizes: &Sizes) {
    let (store, directory) = store(4096, (sizes.cache_bytes / 32).max(1 << 20));
    let run = installed(&store, keys.iter());
    let mut random = fastrand::Rng::with_seed(4);
    let reads = || directory.counters().snapshot().of(Purpose::Lookup).reads;
    let (before, lookups) = (reads(), sizes.lookups / 10);
    let start = Instant::now();
    for _ in 0..lookups {
        let guard = store.epochs().pin();
        let key = keys[random.usize(..keys.len())];
        run.find(
            &key,
            MAX_SEQUENCE,
            store.cache(),
            &guard,
            Purpose::Lookup,
            |record| {
                black_box(record);
                Ok(ControlFlow::Break(()))
            },
        )
        .expect("sound");
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / lookups as f64;
    report(
        "lookup with a sixteenth of the run in the cache",
        &format!(
            "{nanoseconds:6.0} ns  {:.3} reads",
            (reads() - before) as f64 / lookups as f64
        ),
    );
}

fn merging(keys: &[Key], sizes: &Sizes) {
    let (store, _) = store(4096, sizes.cache_bytes);
    let mut random = fastrand::Rng::with_seed(5);
    let owner: Vec<usize> = keys.iter().map(|_| random.usize(..SOURCES)).collect();
    let runs: Vec<IndexedRun> = (0..SOURCES)
        .map(|source| {
            let own = keys.iter().zip(&owner).filter(|(_, owner)| **owner == source);
            installed(&store, own.map(|(key, _)| key))
        })
        .collect();
    let nanoseconds = nanoseconds(keys.len(), || {
        let mut cursors: Vec<RunRecordCursor> = runs
            .iter()
            .map(|run| {
                run.cursor(
                    &store,
                    KeyRange::everything(),
                    MergeDirection::Forward,
                    CursorAccess::Streaming,
                )
            })
            .collect();
        open_many(&mut cursors, None).expect("sound");
        let mut merged = MergingIter::new(cursors, MergeDirection::Forward);
        let mut seen = 0;
        while let Some(winner) = merged.winner() {
            black_box(merged.source(winner).record());
            seen += 1;
            merged.advance().expect("sound");
        }
        assert_eq!(seen, keys.len());
    });
    report(
        &format!("merge of {SOURCES} streaming cursors"),
        &format!(
            "{:6.0} MB/s  {:5.2} M records/s",
            124e3 / nanoseconds,
            1e3 / nanoseconds
        ),
    );
}
