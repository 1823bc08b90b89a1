//! Sliced merges while space is scarce: reads are unaffected, and the next checkpoint frees the
//! inputs of a slice.

use super::{World, rules};
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::Dictionary as _;
use alluvium_storage::extents::{AllocationClass, ReclaimLimit};

/// Writes a checkpoint and frees all space that it releases.
fn free(world: &mut World) {
    world.checkpoint().unwrap();
    let store = &world.home.store;
    while store.reclaim(ReclaimLimit::default()).unwrap().freed_bytes > 0 {}
}

/// Merges at most `most` slices while space is scarce. Returns the number of merged slices.
fn sweep(world: &mut World, most: u64) -> u64 {
    let before = world.merges;
    world.levels.set_space_class(AllocationClass::Essential);
    while world.levels.pending_work().steps > 0 && world.merges - before < most {
        if world.steps.is_empty() {
            free(world);
        }
        world.poll_step().unwrap();
    }
    world.steps.clear();
    world.levels.set_space_class(AllocationClass::Normal);
    world.merges - before
}

fn compare(world: &mut World) {
    world.check(CheckLevel::Everything).unwrap();
    for _ in 0..20 {
        world.get().unwrap();
    }
    world.compare_scans().unwrap();
}

/// Creates runs with interleaved keys and some messages of every kind.
fn written(policy: &str, seed: u64) -> World {
    let mut world = World::new(policy, seed);
    for part in 0..3 {
        rules::run(
            &mut world,
            (0..18_000).filter(|number| number % 3 == part),
            Some(&[7; 150]),
        );
        for number in 0..1500 {
            world.write().unwrap();
            if number % 300 == 0 {
                world.toggle_snapshot();
            }
        }
    }
    rules::run(&mut world, (0..18_000).filter(|number| number % 2 == 0), None);
    world
}

#[test]
fn what_was_deleted_is_merged_slice_by_slice_and_reads_are_as_before() {
    for (seed, policy) in (1..).zip(["samt,k=64", "samt,k=4", "cola,r=3", "leveled,r=4"]) {
        let mut world = written(policy, seed);
        free(&mut world);
        let used = |world: &World| world.home.store.usage().0.total().live_extent_bytes;
        let before = used(&world);
        compare(&mut world);
        world.snapshots.clear();
        let first = sweep(&mut world, 2);
        compare(&mut world);
        // The checkpoint records runs that are only partly merged.
        free(&mut world);
        let mut world = world.reopen().unwrap();
        compare(&mut world);
        let slices = first + sweep(&mut world, u64::MAX);
        free(&mut world);
        println!(
            "{policy}: {slices} slices, {before} bytes before, {} after",
            used(&world)
        );
        assert!(slices > 1, "{policy}: {slices} slices");
        assert!(
            used(&world) < before * 3 / 4,
            "{policy}: {} of {before}",
            used(&world)
        );
        compare(&mut world);
        // Merges of whole runs must also accept what is left of partly merged ones.
        world.settle().unwrap();
        compare(&mut world);
        world.levels.compact_part(b"").unwrap();
        world.settle().unwrap();
        assert_eq!(world.levels.runs().iter().sum::<usize>(), 1, "{policy}");
        compare(&mut world);
    }
}

/// Slices in which only one run has records are left unchanged.
#[test]
fn a_compaction_goes_by_slices_while_space_is_scarce_and_comes_to_an_end() {
    let mut world = written("samt,k=64", 9);
    world.snapshots.clear();
    let before = world.levels.pending_work().memory_bytes;
    world.levels.compact_part(b"").unwrap();
    let slices = sweep(&mut world, u64::MAX);
    assert!(slices > 1, "{slices} slices");
    compare(&mut world);
    assert_eq!(sweep(&mut world, u64::MAX), 0, "it is over");
    // Once there is space, the pieces are merged into one run, as whole runs are.
    world.levels.compact_part(b"").unwrap();
    world.settle().unwrap();
    assert_eq!(world.levels.runs().iter().sum::<usize>(), 1);
    assert!(world.levels.pending_work().memory_bytes < before);
    compare(&mut world);
}

/// Versions that a snapshot sees are kept, and the slices still come to an end.
#[test]
fn what_a_snapshot_sees_stays_and_slices_come_to_an_end() {
    let mut world = World::new("samt,k=64", 5);
    rules::run(&mut world, 0..9000, Some(&[7; 150]));
    world.snapshots.push(world.levels.cut());
    rules::run(&mut world, 0..9000, None);
    let slices = sweep(&mut world, u64::MAX);
    assert_eq!(slices, 0, "they would free nothing");
    compare(&mut world);
    world.snapshots.clear();
    rules::run(&mut world, 9000..9001, Some(&[7; 150]));
    assert!(sweep(&mut world, u64::MAX) > 0);
    free(&mut world);
    compare(&mut world);
    assert_eq!(
        world
            .levels
            .approximate_len(&alluvium_dictionary::range::KeyRange::everything())
            .unwrap(),
        1
    );
}
