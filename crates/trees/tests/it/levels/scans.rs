//! The cost of scanning scattered leaves, and the rewriting that reduces it.

use super::World;
use super::differential::pairs;
use super::rules::run;
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::{Dictionary as _, DictionaryScan as _, OrderedDictionary as _};
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_stories::MemtableStack;
use alluvium_trees::levels::StitchPolicy;
use std::sync::Arc;

/// Number of units, which are appended to in turn, like files.
const UNITS: u64 = 150;
const PASSES: u64 = 24;

/// Scans all keys. Returns the number of jumps.
fn scan(world: &World) -> u64 {
    let before = world.levels.jumps();
    let stack: Arc<dyn MemtableOwner> = Arc::<MemtableStack>::clone(&world.stack);
    let all = KeyRange::everything();
    let mut scan = world
        .levels
        .scan(stack, all, MergeDirection::Forward, world.sequence, world.now_ms);
    let mut count = 0;
    while scan.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, UNITS * PASSES);
    world.levels.jumps() - before
}

/// Appends one record to every unit in each pass, so at most a few records of a unit are adjacent
/// on the device.
fn appended(stitching: StitchPolicy, value: usize) -> World {
    let mut world = World::stitching("samt,k=4", stitching, 5);
    for pass in 0..PASSES {
        let numbers = (0..UNITS).map(|unit| unit * 1000 + pass);
        run(&mut world, numbers, Some(&vec![pass as u8; value]));
        world.settle().unwrap();
    }
    world
}

#[test]
fn a_run_in_which_scans_jump_is_written_again_once_they_have_paid() {
    // Separate values stay where they were first written, so a scan jumps to each of them.
    for value in [1000, 600] {
        let stitching = StitchPolicy {
            threshold: 3,
            defragment_percent: 100,
            ..StitchPolicy::default()
        };
        let mut world = appended(stitching, value);
        assert_eq!(world.levels.defragmented(), (0, 0), "nothing was scanned");
        let before = scan(&world);
        assert!(before > UNITS * PASSES / 2, "{before} jumps");
        let mut scans = 1;
        while world.levels.defragmented().0 == 0 {
            scan(&world);
            scans += 1;
            world.settle().unwrap();
            assert!(scans < 50, "scans have paid enough: {}", world.levels.jumps());
        }
        for _ in 0..20 {
            scan(&world);
            world.settle().unwrap();
        }
        let after = scan(&world);
        let (runs, bytes) = world.levels.defragmented();
        println!("{before} jumps a scan, {after} after {runs} runs, {bytes} bytes, were written again");
        assert!(after < before / 4, "{after} jumps of {before}");
        world.check(CheckLevel::Everything).unwrap();
        world.compare_scans().unwrap();
        // Defragmentation must come to an end.
        let settled = world.levels.defragmented();
        for _ in 0..5 {
            scan(&world);
            world.settle().unwrap();
        }
        let more = world.levels.defragmented().0 - settled.0;
        assert!(more <= 1, "{more} runs were written again, which lay in order");
    }
}

#[test]
fn scans_have_nothing_written_that_their_budget_has_not() {
    let written = |percent| {
        let stitching = StitchPolicy {
            threshold: 3,
            defragment_percent: percent,
            ..StitchPolicy::default()
        };
        let mut world = appended(stitching, 1000);
        for _ in 0..30 {
            scan(&world);
            world.settle().unwrap();
        }
        world.levels.defragmented()
    };
    assert_eq!(written(0), (0, 0), "it is not asked for");
    let bytes = UNITS * PASSES * 1000;
    let (some, all) = (written(10).1, written(100).1);
    println!("{some} and {all} bytes of {bytes}");
    // Each value has been written once, and its key a few more times.
    assert!(some <= bytes * 2 / 10, "{some} bytes");
    assert!(all > some && all <= bytes * 2, "{all} bytes");
}

/// A run with deletes of an older run's keys, and with two values of some keys, one of them visible
/// only to a snapshot. The older run has its values inline, so scans jump only in the newer one.
#[test]
fn what_is_written_again_keeps_deletes_and_what_snapshots_read() {
    const KEYS: u64 = 3600;
    let stitching = StitchPolicy {
        threshold: 3,
        defragment_percent: 100,
        ..StitchPolicy::default()
    };
    let mut world = World::stitching("samt,k=4", stitching, 7);
    run(&mut world, 0..KEYS, Some(&[9; 190]));
    world.settle().unwrap();
    assert_eq!(world.levels.runs(), [1, 1], "four of five parts are one run");
    for pass in 0..2u64 {
        let is_written = |number: &u64| number % 8 == pass || (pass == 1 && number.is_multiple_of(64));
        run(&mut world, (0..KEYS).filter(is_written), Some(&[pass as u8; 300]));
        run(
            &mut world,
            (0..KEYS).filter(|number| number % 8 == 4 + pass),
            None,
        );
        world.snapshots.push(world.levels.cut());
        world.settle().unwrap();
    }
    assert_eq!(
        world.levels.runs(),
        [1, 2],
        "four others are one run above the older one"
    );
    let mut scans = 0;
    while world.levels.defragmented().0 == 0 {
        pairs(&world, MergeDirection::Forward, world.sequence);
        world.settle().unwrap();
        scans += 1;
        assert!(scans < 100, "scans have paid enough: {}", world.levels.jumps());
    }
    assert_eq!(world.levels.runs(), [1, 2]);
    world.check(CheckLevel::Everything).unwrap();
    for at in world.snapshots.clone().into_iter().chain([world.sequence]) {
        let expected = world.history.scan(at, world.now_ms);
        let is_same = pairs(&world, MergeDirection::Forward, at) == expected;
        assert!(is_same, "as of {at}");
    }
}

#[test]
fn what_lies_in_one_piece_is_not_written_again() {
    // Everything is copied, and therefore stored in order.
    let stitching = StitchPolicy {
        defragment_percent: 100,
        ..StitchPolicy::default()
    };
    let mut world = World::stitching("samt,k=4", stitching, 6);
    for part in 0..12 {
        run(&mut world, part * 1000..(part + 1) * 1000, Some(&[1; 100]));
        world.settle().unwrap();
    }
    for _ in 0..50 {
        let stack: Arc<dyn MemtableOwner> = Arc::<MemtableStack>::clone(&world.stack);
        let (all, at) = (KeyRange::everything(), world.sequence);
        let mut scan = world
            .levels
            .scan(stack, all, MergeDirection::Forward, at, world.now_ms);
        while scan.next().unwrap().is_some() {}
        drop(scan);
        world.settle().unwrap();
    }
    println!(
        "{} jumps, {:?}",
        world.levels.jumps(),
        world.levels.defragmented()
    );
    assert_eq!(world.levels.defragmented(), (0, 0), "it was written in order");
}
