//! Writes, reads and space of the tiered tree, counted at the device: `cargo bench -p
//! alluvium-trees --bench tree [PART…]`.
//!
//! *random*, *ordered*, *local* (half of the keys in order) and *subtree* load records of 124 bytes
//! (24-byte keys, 100-byte values); bytes are counted, not timed, so one run suffices. *warm* times
//! lookups through a trunk of three levels. *deletes* and *scans* measure the cost of a seek in
//! front of deleted records, and after maintenance. *stream* compares a scan of everything with a
//! raw read, in the directory that `ALLUVIUM_TREE_DIRECTORY` names, or in memory. *lookups*
//! compares ways to perform many concurrent lookups on a slow device. *victims* compares the
//! choices of the child to which a node flushes. `ALLUVIUM_TREE_RECORDS` changes the number of
//! records. Without `--bench` everything is tiny.

#[path = "../../tests/it/alone.rs"]
#[allow(dead_code, reason = "what is measured is never opened again")]
mod alone;
mod lookups;
mod stream;
mod world;

use alluvium_base::Purpose;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::simulated::SimDirectory;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_model::PdamClock;
use alluvium_sim::environment::number;
use alluvium_trees::tiered::{CheckLevel, TieredTree, VictimPolicy};
use alone::Alone;
use std::sync::Arc;
use std::time::Instant;
use world::{Key, RECORD, Sizes, World, key, mix, value};

/// A part of the bench, named on the command line.
type Part = fn(Sizes);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let real = arguments.iter().any(|argument| argument == "--bench");
    let sizes = if real {
        Sizes {
            records: number("ALLUVIUM_TREE_RECORDS", 20_000_000),
            memtable: number("ALLUVIUM_TREE_MEMTABLE", 32 << 20),
            cache: 192 << 20,
            lookups: 200_000,
        }
    } else {
        Sizes {
            records: 6_000,
            memtable: 128 << 10,
            cache: 8 << 20,
            lookups: 200,
        }
    };
    let parts: [(&str, Part); 11] = [
        ("random", |sizes| load("random", sizes, scattered)),
        ("ordered", |sizes| load("ordered", sizes, ordered)),
        ("local", |sizes| load("local", sizes, half_ordered)),
        ("subtree", subtree),
        ("warm", warm),
        ("lookups", lookups::lookups),
        ("deletes", deletes),
        ("scans", scans),
        ("bandwidth", bandwidth),
        ("stream", stream::stream),
        ("victims", victims),
    ];
    for (name, part) in parts {
        let wanted: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
        if wanted.is_empty() || wanted.iter().any(|word| *word == name) {
            part(sizes);
        }
    }
}

pub(crate) fn scattered(index: u64, _: u64) -> Key {
    key(mix(index))
}

fn ordered(index: u64, records: u64) -> Key {
    key(u64::MAX / records * index)
}

fn half_ordered(index: u64, records: u64) -> Key {
    if index.is_multiple_of(2) {
        ordered(index, records)
    } else {
        scattered(index, records)
    }
}

fn load(name: &str, sizes: Sizes, keys: fn(u64, u64) -> Key) {
    let mut world = World::new(sizes, VictimPolicy::Fullest);
    let start = Instant::now();
    for index in 0..sizes.records {
        world.put(&keys(index, sizes.records), &value(index));
    }
    world.seal();
    let seconds = start.elapsed().as_secs_f64();
    let user = sizes.records * RECORD;
    let ratio = |bytes: u64| bytes as f64 / user as f64;
    println!(
        "{name}: {} records, m = {} MiB, F = 8, {seconds:.1} s",
        sizes.records,
        sizes.memtable >> 20
    );
    let mut all = 0;
    for purpose in Purpose::ALL
        .into_iter()
        .filter(|purpose| *purpose != Purpose::Log)
    {
        let bytes = world.written(purpose);
        all += bytes;
        if bytes > 0 {
            println!(
                "  written, {:<12} {:>8.4} of the user's bytes",
                purpose.name(),
                ratio(bytes)
            );
        }
    }
    println!("  written in all       {:>8.4}", ratio(all));
    let usage = world.tree.store().usage().0.total();
    println!(
        "  space in live extents{:>8.4}, live bytes {:.4}",
        ratio(usage.live_extent_bytes),
        ratio(usage.live_bytes)
    );
    let stats = world.tree.stats();
    let records = sizes.records as f64;
    println!(
        "  compactions per record {:.4} by writes, {:.4} by maintenance; height {}; {:?}",
        (stats.compacted.0 - stats.rewritten) as f64 / records,
        stats.rewritten as f64 / records,
        world.tree.height(),
        stats.shape
    );
    let counts = world.tree.count_records().expect("memory does not fail");
    let error = |(estimated, counted): &(u64, u64)| {
        100.0 * estimated.abs_diff(*counted) as f64 / (*counted).max(1) as f64
    };
    println!(
        "  records of a pivot are estimated within {:.3} % ({} pivots)",
        counts.iter().map(error).fold(0.0, f64::max),
        counts.len()
    );
    cold(&world, sizes, keys);
    let found = world
        .tree
        .check_with(CheckLevel::Trunk, &[])
        .expect("memory does not fail");
    assert_eq!(found, Vec::<String>::new());
}

/// A load into one 64th of the keys of a tree of four levels, compared with a uniform load.
fn subtree(sizes: Sizes) {
    let sizes = Sizes {
        memtable: (sizes.memtable / 64).max(64 << 10),
        records: sizes.records / 8,
        ..sizes
    };
    let mut world = World::new(sizes, VictimPolicy::Fullest);
    let mut phase = |what: &str, records: u64, keys: &dyn Fn(u64) -> Key| {
        let before = world.tree.stats();
        for index in 0..records {
            world.put(&keys(index), &value(index));
        }
        world.seal();
        let after = world.tree.stats();
        let of = |count: u64| count as f64 / records as f64;
        let rewritten = after.rewritten - before.rewritten;
        println!(
            "{what}: {records} records, m = {} KiB, height {}: {:.3} compactions for each, and {:.3} by maintenance",
            sizes.memtable >> 10,
            world.tree.height(),
            of(after.compacted.0 - before.compacted.0 - rewritten),
            of(rewritten)
        );
    };
    // Few records, so that the affected part does not become a large tree.
    let (all, few) = (sizes.records, sizes.records / 16);
    phase("to begin with", all, &|index| scattered(index, 0));
    phase("everywhere", few, &|index| scattered(all + index, 0));
    phase("in one 64th", few, &|index| {
        key(u64::MAX / 2 + mix(3 * all + index) / 64)
    });
}

/// Device reads per lookup of a key whose leaf is not cached, while index nodes and maplets are.
fn cold(world: &World, sizes: Sizes, keys: fn(u64, u64) -> Key) {
    // The first lookups load index nodes and maplets; later ones are measured.
    let mut ask = |turn: u64| {
        let index = mix(turn) % sizes.records;
        let found = world
            .tree
            .get(&keys(index, sizes.records), MAX_SEQUENCE, 0)
            .expect("memory does not fail");
        assert_eq!(found.as_deref(), Some(&value(index)[..]));
    };
    (0..sizes.lookups).for_each(&mut ask);
    let before = world.reads(Purpose::Lookup);
    (sizes.lookups..2 * sizes.lookups).for_each(&mut ask);
    let hits = world.reads(Purpose::Lookup) - before;
    let before = world.reads(Purpose::Lookup);
    for index in 0..sizes.lookups {
        let missing = key(mix(sizes.records + index) | 1);
        assert_eq!(
            world
                .tree
                .get(&missing, MAX_SEQUENCE, 0)
                .expect("memory does not fail"),
            None
        );
    }
    let misses = world.reads(Purpose::Lookup) - before;
    println!(
        "  reads for each lookup: found {:.4}, not found {:.4} (cache of {} MiB)",
        hits as f64 / sizes.lookups as f64,
        misses as f64 / sizes.lookups as f64,
        sizes.cache >> 20
    );
}

/// Lookups of cached keys through a trunk of three levels.
fn warm(sizes: Sizes) {
    let sizes = Sizes {
        memtable: (sizes.memtable / 64).max(128 << 10),
        records: sizes.records / 40,
        ..sizes
    };
    let mut world = World::new(sizes, VictimPolicy::Fullest);
    for index in 0..sizes.records {
        world.put(&scattered(index, 0), &value(index));
    }
    world.seal();
    let round = |ask: &dyn Fn(u64)| {
        let start = Instant::now();
        for turn in 0..sizes.lookups {
            ask(mix(turn) % sizes.records);
        }
        start.elapsed().as_nanos() as f64 / sizes.lookups as f64
    };
    let median = |ask: &dyn Fn(u64)| {
        round(ask);
        let mut rounds: Vec<f64> = (0..3).map(|_| round(ask)).collect();
        rounds.sort_by(f64::total_cmp);
        rounds[1]
    };
    let hit = median(&|index| {
        assert!(
            world
                .tree
                .get(&scattered(index, 0), MAX_SEQUENCE, 0)
                .expect("memory does not fail")
                .is_some()
        );
    });
    let miss = median(&|index| {
        let missing = scattered(sizes.records + index, 0);
        assert!(
            world
                .tree
                .get(&missing, MAX_SEQUENCE, 0)
                .expect("memory does not fail")
                .is_none()
        );
    });
    println!(
        "warm: {} records, height {}: found {hit:.0} ns, not found {miss:.0} ns",
        sizes.records,
        world.tree.height()
    );
}

/// Returns the seconds for a seek and its first record, a median of many.
fn seek_seconds(tree: &TieredTree, from: &dyn Fn(u64) -> Key) -> f64 {
    let mut times: Vec<f64> = (0..9)
        .map(|turn| {
            let start = Instant::now();
            let mut iter = tree.iter(
                KeyRange::new(&from(turn), None),
                MergeDirection::Forward,
                MAX_SEQUENCE,
                0,
            );
            iter.next().expect("memory does not fail");
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn deletes(sizes: Sizes) {
    let records = sizes.records / 2;
    let mut world = World::new(sizes, VictimPolicy::Fullest);
    for index in 0..records {
        world.put(&ordered(index, records), &value(index));
    }
    world.seal();
    let clean = seek_seconds(&world.tree, &|turn| ordered(records / 20 * (turn + 1), records));
    // Deletes nine tenths of everything at once.
    let (from, to) = (
        ordered(records / 20, records),
        ordered(records / 20 * 19, records),
    );
    world.sequence += 1;
    world
        .memtable
        .delete_range(&from, &to, world.sequence)
        .expect("there is room");
    world.seal();
    let ranged = seek_seconds(&world.tree, &|turn| ordered(records / 20 + turn, records));
    println!(
        "deletes: a clean seek {:.1} µs; past one range delete of {} records {:.1} µs: {:.2} x",
        clean * 1e6,
        records / 10 * 9,
        ranged * 1e6,
        ranged / clean
    );
    let points = (sizes.records / 200).min(records / 40);
    for index in 0..points {
        world.delete(&ordered(index, records));
    }
    world.seal();
    let waded = seek_seconds(&world.tree, &|turn| ordered(turn, records));
    let written = world.maintain(u64::MAX);
    let after = seek_seconds(&world.tree, &|turn| ordered(turn, records));
    println!(
        "  in front of {points} point deletes {:.1} µs: {:.1} x; after maintenance that might write {} MiB {:.1} µs: {:.2} x",
        waded * 1e6,
        waded / clean,
        written >> 20,
        after * 1e6,
        after / clean
    );
    for index in 0..records {
        world.delete(&ordered(index, records));
    }
    world.seal();
    while world.maintain(u64::MAX) > 0 {}
    world.work();
    world.seal();
    world.seal();
    let usage = world.tree.store().usage().0.total();
    println!(
        "  after deleting every key: {} live extents, {} KiB; height {}",
        usage.live_extents,
        usage.live_extent_bytes >> 10,
        world.tree.height()
    );
}

/// Short scans of read-only data: the number of runs that they merge before and after maintenance.
fn scans(sizes: Sizes) {
    let records = sizes.records / 10;
    let sizes = Sizes {
        memtable: sizes.memtable / 8,
        ..sizes
    };
    let mut world = World::new(sizes, VictimPolicy::Fullest);
    for index in 0..records {
        world.put(&scattered(index, 0), &value(index));
    }
    world.seal();
    let turns = sizes.lookups / 100;
    // Returns microseconds per scan of `length` records, and millions of records per second.
    let speed = |tree: &TieredTree, length: u64, turns: u64| {
        let start = Instant::now();
        for turn in 0..turns {
            let mut iter = tree.iter(
                KeyRange::new(&key(mix(turn)), None),
                MergeDirection::Forward,
                MAX_SEQUENCE,
                0,
            );
            for _ in 0..length {
                iter.next().expect("memory does not fail");
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        (
            seconds * 1e6 / turns as f64,
            (length * turns) as f64 / seconds / 1e6,
        )
    };
    let whole = |tree: &TieredTree, direction: MergeDirection| {
        let start = Instant::now();
        let mut iter = tree.iter(KeyRange::everything(), direction, MAX_SEQUENCE, 0);
        let mut found = 0;
        while iter.next().expect("memory does not fail").is_some() {
            found += 1;
        }
        assert_eq!(found, records);
        records as f64 / start.elapsed().as_secs_f64() / 1e6
    };
    for state in ["as it was loaded", "after maintenance"] {
        println!(
            "scans, {state}, over at most {} runs: of 10 records {:.1} µs, of 1,000 {:.2} M records/s, of all {:.2} forward and {:.2} backward",
            world.tree.longest_path(),
            speed(&world.tree, 10, turns).0,
            speed(&world.tree, 1000, turns.div_ceil(10)).1,
            whole(&world.tree, MergeDirection::Forward),
            whole(&world.tree, MergeDirection::Backward),
        );
        world.maintain(u64::MAX);
    }
}

/// Measures the share of a simulated SSD's bandwidth that a scan of 1,000 cold records achieves
/// (PDAM: a fixed number of blocks per step).
fn bandwidth(sizes: Sizes) {
    const SCANS: u64 = 100;
    const LENGTH: u64 = 1000;
    let sizes = Sizes {
        records: sizes.records / 20,
        memtable: (sizes.memtable / 16).max(128 << 10),
        cache: (sizes.cache / 24).max(4 << 20),
        ..sizes
    };
    let machine = SimDirectory::new(1);
    let mut world = World::on(Arc::new(machine.clone()), sizes, VictimPolicy::Fullest);
    for index in 0..sizes.records {
        world.put(&scattered(index, 0), &value(index));
    }
    world.seal();
    let scans = SCANS.min(sizes.records / LENGTH);
    let percent = |world: &World, slots: u64, block: u64| {
        let step_ns = 100_000;
        machine.set_clock(Box::new(PdamClock::new(slots, block, step_ns)));
        let start = machine.now_ns();
        for turn in 0..scans {
            let range = KeyRange::new(&key(mix(turn)), None);
            let mut iter = world.tree.iter(range, MergeDirection::Forward, MAX_SEQUENCE, 0);
            iter.expect(LENGTH as usize);
            for _ in 0..LENGTH {
                iter.next().expect("memory does not fail");
            }
        }
        let possible = (slots * block) as f64 / step_ns as f64 * (machine.now_ns() - start) as f64;
        (scans * LENGTH * RECORD) as f64 / possible * 100.0
    };
    for state in ["as it was loaded", "after maintenance"] {
        for (slots, block) in [(4, 4 << 10), (16, 4 << 10)] {
            let (percent, runs) = (percent(&world, slots, block), world.tree.longest_path());
            let kib = block >> 10;
            println!(
                "bandwidth, {state}: {percent:.0} % of {slots} slots of {kib} KiB, over at most {runs} runs"
            );
        }
        world.maintain(u64::MAX);
    }
}

/// Updates mostly of a few keys, by the choice of the child to which a node flushes.
fn victims(sizes: Sizes) {
    let records = sizes.records / 20;
    let sizes = Sizes {
        memtable: sizes.memtable / 32,
        ..sizes
    };
    for victim in [
        VictimPolicy::Fullest,
        VictimPolicy::RandomMessage,
        VictimPolicy::RoundRobin,
    ] {
        let mut world = World::new(sizes, victim);
        for index in 0..records {
            world.put(&ordered(index, records), &value(index));
        }
        world.seal();
        let (before, flushes) = (world.written(Purpose::Compact), world.tree.stats().shape.flushes);
        let updates = 2 * records;
        for index in 0..updates {
            // Zipf-like: half of the updates go to a 64th of the keys, half of those to a 64th of
            // that, and so on.
            let (mut low, mut len) = (0, records);
            let mut draw = mix(index);
            while draw & 1 == 1 && len > 64 {
                len /= 64;
                low += (draw >> 8) % 3 * len;
                draw >>= 1;
            }
            let at = low + mix(index ^ 0x5555) % len;
            world.put(&ordered(at % records, records), &value(index));
        }
        world.seal();
        let compacted = world.written(Purpose::Compact) - before;
        let flushes = world.tree.stats().shape.flushes - flushes;
        println!(
            "victims, {victim:?}: {:.3} bytes compacted for each byte of skewed updates, {:.0} records for each flush",
            compacted as f64 / (updates * RECORD) as f64,
            updates as f64 / flushes as f64
        );
    }
}
