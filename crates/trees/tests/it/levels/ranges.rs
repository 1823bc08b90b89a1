//! Leaves beside and below range deletes: merges adopt leaves that no range delete touches, drop
//! those that range deletes cover completely, and copy all others. Leaves are adopted wherever this
//! is permitted (f = 0).
//!
//! In `cargo test`, the comparison is small. A larger one from another seed:
//!
//! ```text
//! ALLUVIUM_LEVELS_OPERATIONS=20000 ALLUVIUM_LEVELS_SEED=7 \
//!     cargo test --release -p alluvium-trees --test it -- levels::ranges --nocapture
//! ```

use super::World;
use super::apart::merged;
use super::differential::pairs;
use super::rules::{ALL, run};
use alluvium_base::{Message, MessageKind};
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::Dictionary as _;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_sim::environment::number;
use alluvium_storage::extents::ReclaimLimit;

/// Number of keys. A leaf has about 40 of them, so there are about a hundred leaves.
const KEYS: u64 = 4000;

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

/// Puts only those of the `count` keys from `first` on that have no value, so that runs have one
/// version of each key.
fn put_missing(world: &mut World, first: u64, count: u64) {
    for number in first..(first + count).min(KEYS) {
        let value = world.history.read(&key(number), world.sequence, world.now_ms);
        if value.is_none() {
            put(world, number, 1);
        }
    }
}

/// Puts consecutive keys, so that the run has full leaves. Every value is different.
fn put(world: &mut World, first: u64, count: u64) {
    for number in first..(first + count).min(KEYS) {
        if world.memtable.bytes() > 120 << 10 {
            world.seal().unwrap();
        }
        world.sequence += 1;
        let at = world.sequence;
        // A few values are longer than 200 bytes and are stored outside of their leaves.
        let len = if number % 50 == 7 { 300 } else { 90 };
        let mut value = vec![0; len];
        value[..8].copy_from_slice(&at.to_be_bytes());
        let key = key(number);
        world.memtable.insert(&key, Message::put(at, &value)).unwrap();
        world.history.add(&key, at, MessageKind::Put, 0, &value);
    }
}

fn delete_range(world: &mut World, first: u64, end: u64) {
    world.sequence += 1;
    let (start, end, at) = (key(first), key(end), world.sequence);
    world.memtable.delete_range(&start, &end, at).unwrap();
    world.history.delete_range(&start, &end, at);
}

/// Flushes the memtable to a run.
fn flush(world: &mut World) {
    world.seal().unwrap();
    while world.sealed.is_some() {
        world.poll_incorporation().unwrap();
    }
}

/// Compares all keys with the reference, for every snapshot and for a new reader.
fn compare(world: &World, context: &str) {
    for at in world.snapshots.iter().copied().chain([world.sequence]) {
        let found = pairs(world, MergeDirection::Forward, at);
        let expected = world.history.scan(at, world.now_ms);
        let differs = found.iter().zip(&expected).find(|(one, other)| one != other);
        assert!(
            found == expected,
            "{context}, at {at}: {} keys, not {}; {:?}",
            found.len(),
            expected.len(),
            differs.map(|((key, _), _)| key.escape_ascii().to_string())
        );
    }
}

/// Performs one operation. If `overwrites` is not set, puts write only keys that have no value.
fn operate(world: &mut World, overwrites: bool) {
    let put = if overwrites { put } else { put_missing };
    let first = world.random.u64(..KEYS);
    match world.random.u32(..100) {
        0..40 => {
            let count = world.random.u64(10..500);
            put(world, first, count);
            if world.random.u8(..3) > 0 {
                flush(world);
            }
        }
        40..60 => {
            let longest = [3, 60, 900, KEYS][world.random.usize(..4)];
            let end = first + world.random.u64(1..=longest);
            delete_range(world, first, end);
            // Deleted keys are often written again, in the same run or in a newer one.
            match world.random.u8(..4) {
                0 => put(world, first, end - first),
                1 => {
                    flush(world);
                    put(world, first, (end - first) / 2 + 1);
                }
                2 => flush(world),
                _ => {}
            }
        }
        60..64 => {
            world.sequence += 1;
            let (key, at) = (key(first), world.sequence);
            world.memtable.insert(&key, Message::delete(at)).unwrap();
            world.history.add(&key, at, MessageKind::Delete, 0, &[]);
        }
        64..84 => (0..20).for_each(|_| world.poll_step().unwrap()),
        84..88 => {
            flush(world);
            world.levels.compact_part(b"").unwrap();
            if world.random.bool() {
                world.settle().unwrap();
            }
        }
        88..94 => {
            flush(world);
            world.toggle_snapshot();
            let oldest = world.snapshots.iter().copied().min();
            let kept = oldest.unwrap_or(world.sequence).min(world.durable);
            world.history.forget(kept);
        }
        94..97 => {
            world.checkpoint().unwrap();
            world.home.store.reclaim(ReclaimLimit::default()).unwrap();
        }
        _ => world.settle().unwrap(),
    }
    if world.memtable.bytes() > 120 << 10 {
        world.seal().unwrap();
    }
}

/// Runs one seed. Returns the number of leaves that were adopted, and the number that were dropped
/// unread.
fn compared(policy: &str, seed: u64, operations: u64) -> (u64, u64) {
    let mut world = World::stitching(policy, ALL, seed);
    let mut counts = (0, 0);
    let mut count = |world: &World| {
        let stats = world.levels.stats();
        counts = (counts.0 + stats.taken_over, counts.1 + stats.dropped_leaves);
    };
    for operation in 0..operations {
        operate(&mut world, seed.is_multiple_of(2));
        let context = format!("{policy}, seed {seed}, operation {operation}");
        if operation % 7 == 0 {
            compare(&world, &context);
        }
        if operation % 40 == 0 {
            world.check(CheckLevel::Everything).unwrap();
        }
        if operation % 90 == 89 {
            count(&world);
            world = world.reopen().unwrap();
            compare(&world, &context);
        }
    }
    flush(&mut world);
    world.settle().unwrap();
    // Release the snapshots one by one, merging everything in between.
    loop {
        world.levels.compact_part(b"").unwrap();
        world.settle().unwrap();
        compare(&world, &format!("{policy}, seed {seed}, at the end"));
        world.check(CheckLevel::Everything).unwrap();
        if world.snapshots.pop().is_none() {
            break;
        }
        flush(&mut world);
        put(&mut world, 0, 1);
        flush(&mut world);
    }
    count(&world);
    counts
}

#[test]
fn levels_with_range_deletes_read_what_the_reference_reads() {
    let operations = number("ALLUVIUM_LEVELS_OPERATIONS", 1600);
    let first = number("ALLUVIUM_LEVELS_SEED", 1);
    let policies = ["samt,k=2", "samt,k=4", "cola,r=3", "leveled,r=4"];
    let (each, mut adopted, mut dropped) = (400, 0, 0);
    let seeds = first..first + operations.div_ceil(each);
    for (seed, policy) in seeds.zip(policies.into_iter().cycle()) {
        let counts = compared(policy, seed, each);
        println!("{policy}, seed {seed}: {counts:?} leaves taken over and dropped");
        (adopted, dropped) = (adopted + counts.0, dropped + counts.1);
    }
    assert!(adopted > 500 && dropped > 100, "{adopted} and {dropped} leaves");
}

#[test]
fn a_range_delete_in_one_corner_stops_no_adoption_elsewhere() {
    let mut world = World::stitching("never", ALL, 4);
    run(&mut world, 0..10_000, Some(&[1; 100]));
    delete_range(&mut world, 2000, 3000);
    flush(&mut world);
    run(&mut world, 20_000..22_000, Some(&[2; 100]));
    let before = merged(&world).0;
    world.levels.compact_part(b"").unwrap();
    world.settle().unwrap();
    let (stats, read) = (world.levels.stats(), merged(&world).0 - before);
    println!("{stats:?}, {read} bytes read");
    // 12,000 records of about 110 bytes are about 330 leaves, of which 27 are deleted.
    assert!(stats.taken_over > 250, "{stats:?}");
    assert!((20..=28).contains(&stats.dropped_leaves), "{stats:?}");
    // Merges read the leaves at both ends of the range, those at the ends of runs, and index nodes.
    assert!(read < 200 << 10, "{read} bytes");
    compare(&world, "one corner");
    world.check(CheckLevel::Everything).unwrap();
    let left = world.levels.approximate_len(&KeyRange::everything()).unwrap();
    assert_eq!(left, 11_000, "nothing is left of the range");
}

#[test]
fn leaves_that_a_snapshot_sees_are_not_dropped() {
    let mut world = World::stitching("never", ALL, 6);
    let merge = |world: &mut World| {
        world.levels.compact_part(b"").unwrap();
        world.settle().unwrap();
        compare(world, "merged");
        world.levels.stats()
    };
    // Leaves in the extents of small runs are copied when they are merged a second time. After
    // that, all leaves are in full extents.
    run(&mut world, 0..12_000, Some(&[1; 100]));
    merge(&mut world);
    run(&mut world, 20_000..20_001, Some(&[2; 100]));
    let before = merge(&mut world);
    world.snapshots.push(world.sequence);
    delete_range(&mut world, 5000, 5400);
    flush(&mut world);
    // These newer records give the run its highest sequence numbers.
    run(&mut world, 15_000..15_100, Some(&[2; 100]));
    let seen = merge(&mut world);
    assert!(
        seen.dropped_leaves == 0 && seen.taken_over > before.taken_over + 200,
        "{before:?}, {seen:?}"
    );
    // The range delete now belongs to the run itself, so the leaves that it touches are read, and
    // then dropped.
    world.snapshots.clear();
    run(&mut world, 20_001..20_002, Some(&[2; 100]));
    let after = merge(&mut world);
    assert!(
        after.dropped_leaves == 0 && after.taken_over > seen.taken_over + 200,
        "{seen:?}, {after:?}"
    );
    let left = world.levels.approximate_len(&KeyRange::everything()).unwrap();
    assert_eq!(left, 11_702);
    world.check(CheckLevel::Everything).unwrap();
}

#[test]
fn the_values_of_dropped_leaves_need_no_space() {
    let mut world = World::stitching("never", ALL, 8);
    run(&mut world, 0..2000, Some(&[1; 1000]));
    world.levels.compact_part(b"").unwrap();
    world.settle().unwrap();
    delete_range(&mut world, 0, 1900);
    flush(&mut world);
    world.levels.compact_part(b"").unwrap();
    world.settle().unwrap();
    let stats = world.levels.stats();
    assert!(stats.dropped_leaves > 5, "{stats:?}");
    for _ in 0..3 {
        world.checkpoint().unwrap();
        world.home.store.reclaim(ReclaimLimit::default()).unwrap();
    }
    let live = world.home.store.extents().usage().total().live_bytes;
    assert!(live < 400_000, "{live} live bytes of 100 values of 1,000");
    compare(&world, "values apart");
    world.check(CheckLevel::Everything).unwrap();
}
