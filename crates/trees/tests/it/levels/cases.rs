//! Correctness of levels under every policy, with stitching.

use super::{World, rules};
use alluvium_base::Message;
use alluvium_base::MessageKind;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::blob::BlobRoot;
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::Dictionary as _;
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::ReclaimLimit;
use alluvium_storage::extents::UNIT;
use alluvium_storage::{DiskLocation, OnDiskObject};
use alluvium_trees::levels::StitchPolicy;
use alluvium_trees::levels::format::{LevelsContents, StoredLevelRun};

/// Runs one seed. Returns the world, which counts the merges.
fn run(policy: &str, seed: u64, operations: u64) -> World {
    run_in(World::new(policy, seed), policy, seed, operations)
}

pub(super) fn run_in(mut world: World, policy: &str, seed: u64, operations: u64) -> World {
    for operation in 0..operations {
        let draw = world.random.u32(..1000);
        let done = match draw {
            0..780 => world.write(),
            780..850 => world.poll_incorporation(),
            850..930 => world.poll_step(),
            930..975 => world.get(),
            975..978 => world.ingest(),
            978..984 => world.compare_scans(),
            984..988 => {
                world.toggle_snapshot();
                Ok(())
            }
            988..991 => world.checkpoint(),
            991 => world.home.store.reclaim(ReclaimLimit::default()).map(drop),
            992 => world.levels.compact_part(b""),
            993 => {
                world.steps.pop();
                Ok(())
            }
            994 => {
                world = world.reopen().unwrap();
                Ok(())
            }
            995 => world.seal(),
            996 if operation % 5 == 0 => world.check(CheckLevel::Everything),
            _ => world.check(CheckLevel::Trunk),
        };
        done.unwrap_or_else(|error| panic!("{policy}, seed {seed}, operation {operation} ({draw}): {error}"));
    }
    world.seal().unwrap();
    world.settle().unwrap();
    world.compare_scans().unwrap();
    world.check(CheckLevel::Everything).unwrap();
    world
}

const POLICIES: [&str; 5] = ["samt,k=4", "samt,k=2", "cola,r=3", "leveled,r=4", "never"];

#[test]
fn levels_say_what_was_written_under_every_policy() {
    for (seed, policy) in (1..).zip(POLICIES) {
        let world = run(policy, seed, 6000);
        assert!(
            world.merges > 3 || policy == "never",
            "{policy}: {} merges",
            world.merges
        );
    }
}

#[test]
fn all_of_it_becomes_one_run_when_a_user_wants_it_and_nothing_is_left_of_deletes() {
    for policy in ["samt,k=4", "cola,r=3", "leveled,r=4", "never"] {
        let mut world = World::new(policy, 7);
        for _ in 0..2500 {
            world.write().unwrap();
        }
        world.seal().unwrap();
        world.settle().unwrap();
        world.levels.compact_part(b"").unwrap();
        assert!(world.levels.pending_work().steps > 0);
        world.settle().unwrap();
        assert_eq!(world.levels.runs().iter().sum::<usize>(), 1, "{policy}");
        world.compare_scans().unwrap();
        world.check(CheckLevel::Everything).unwrap();
        let live = world.history.scan(MAX_SEQUENCE, world.now_ms).len() as u64;
        let len = world.levels.approximate_len(&KeyRange::everything()).unwrap();
        assert_eq!(len, live, "{policy}: one record for each key that has a value");
        let all = KeyRange::everything();
        assert!(world.levels.size_on_disk(&all).unwrap() > live * 5);
        // Once everything is deleted, no records remain.
        world.sequence += 1;
        world.memtable.delete_range(b"", b"9", world.sequence).unwrap();
        world.history.delete_range(b"", b"9", world.sequence);
        world.seal().unwrap();
        world.settle().unwrap();
        world.levels.compact_part(b"").unwrap();
        world.settle().unwrap();
        assert_eq!(world.levels.runs().iter().sum::<usize>(), 0, "{policy}");
        world.check(CheckLevel::Everything).unwrap();
        world.compare_scans().unwrap();
    }
}

fn stitching(threshold: u32) -> StitchPolicy {
    StitchPolicy {
        threshold,
        ..StitchPolicy::default()
    }
}

#[test]
fn what_is_stitched_reads_like_what_is_copied() {
    for (seed, threshold) in (11..).zip([0, 1, 3]) {
        for policy in ["samt,k=4", "cola,r=3", "leveled,r=4"] {
            let world = World::stitching(policy, stitching(threshold), seed);
            let world = run_in(world, policy, seed, 8000);
            assert!(world.merges > 3, "{policy}: {} merges", world.merges);
            let stitched = world.levels.stitched();
            assert!(
                threshold > 0 || stitched > 0,
                "{policy} at {threshold}: none of {} merges",
                world.merges
            );
        }
    }
}

/// Writes the same data regardless of `stitching`. Returns the world after all due work is done.
fn written(stitching: StitchPolicy) -> World {
    let mut world = World::stitching("samt,k=4", stitching, 5);
    world.is_plain = true;
    for _ in 0..9000 {
        world.write().unwrap();
        if world.random.u8(..50) == 0 {
            world.poll_incorporation().unwrap();
            world.poll_step().unwrap();
        }
    }
    world.seal().unwrap();
    world.settle().unwrap();
    world
}

#[test]
fn a_threshold_beyond_all_runs_gives_the_bytes_of_copying_everything() {
    let runs = |stitching| {
        let world = written(stitching);
        world.check(CheckLevel::Everything).unwrap();
        let root = world.levels.checkpoint_root().unwrap().root.clone();
        let place = DiskLocation::new(OnDiskObject::Node, "levels", 0);
        let page_size = world.home.store.page_size();
        let BlobRoot::Here(contents) = BlobRoot::decode(&root, &place, page_size).unwrap() else {
            panic!("a few runs fit into a root");
        };
        let contents = LevelsContents::decode(contents, &place, page_size).unwrap();
        (contents.levels, world.levels.stitched())
    };
    // A run's name includes the checksum of its footer, and a footer includes the checksums of
    // everything below it. Where leaves may be adopted, indexes list keys; the runs are otherwise
    // identical.
    let plain = runs(StitchPolicy::default());
    let copied = runs(stitching(1 << 20));
    assert_eq!((plain.1, copied.1), (0, 0));
    assert_eq!(runs(stitching(u32::MAX - 1)), copied);
    let ages = |levels: &[Vec<StoredLevelRun>]| -> Vec<Vec<(u64, u64)>> {
        let of = |level: &Vec<StoredLevelRun>| level.iter().map(|name| name.ages).collect();
        levels.iter().map(of).collect()
    };
    assert_eq!(ages(&plain.0), ages(&copied.0));
    let stitched = runs(stitching(0));
    assert!(stitched.1 > 0, "otherwise the test says nothing");
    assert_ne!(stitched.0, copied.0);
}

/// If the keys of runs alternate, no leaf can be adopted. The index shows this, so nearly
/// everything is read in large requests. The same holds if sequences of adoptable leaves are too
/// short to be worth a seek.
#[test]
fn what_cannot_be_taken_over_is_read_in_long_stretches() {
    for (threshold, apart) in [(0, 1), (1 << 20, 1), (1 << 20, 100)] {
        let mut world = World::stitching("never", stitching(threshold), 1);
        for part in 0..4 {
            // Each run in turn gets the next number, or the next numbers that fill three leaves.
            let numbers = (0..8000u64).filter(|number| number / apart % 4 == part);
            rules::run(&mut world, numbers, Some(&[7; 100]));
        }
        let counted = |world: &World| {
            let counts = world.directory.counters().snapshot();
            let merged = counts.of(alluvium_base::Purpose::Compact);
            (merged.reads, merged.read_bytes)
        };
        let before = counted(&world);
        world.levels.compact_part(b"").unwrap();
        world.settle().unwrap();
        let after = counted(&world);
        let (reads, bytes) = (after.0 - before.0, after.1 - before.1);
        assert_eq!(world.levels.stitched(), 0, "f = {threshold}");
        assert!(bytes > 8000 * 100, "{bytes} bytes: all is read");
        assert!(
            bytes / reads >= 32 << 10,
            "f = {threshold}: {bytes} bytes in {reads} reads"
        );
        world.check(CheckLevel::Everything).unwrap();
        world.compare_scans().unwrap();
    }
}

#[test]
fn leaves_that_are_taken_over_are_never_read_and_their_space_is_free_once_nothing_needs_it() {
    let mut read = Vec::new();
    for threshold in [0, u32::MAX] {
        let mut world = World::stitching("samt,k=4", stitching(threshold), 3);
        let mut written = 0;
        for run in 0..5u64 {
            for number in 0..2000u64 {
                world.sequence += 1;
                let key = format!("{:08}", run * 2000 + number);
                let message = Message::put(world.sequence, &[7; 100]);
                world.memtable.insert(key.as_bytes(), message).unwrap();
                world
                    .history
                    .add(key.as_bytes(), world.sequence, MessageKind::Put, 0, &[7; 100]);
                written += 100;
                if world.memtable.bytes() > 240 << 10 {
                    world.seal().unwrap();
                }
            }
            world.seal().unwrap();
        }
        while world.sealed.is_some() {
            world.poll_incorporation().unwrap();
        }
        world.checkpoint().unwrap();
        let mut world = world.reopen().unwrap();
        let counters = || {
            let counters = world.directory.counters().snapshot();
            counters.of(alluvium_base::Purpose::Compact).read_bytes
        };
        let before = counters();
        while let Some(mut step) = world.levels.next_step().unwrap() {
            while step.poll(1000).unwrap() == StepProgress::More {}
        }
        read.push(counters() - before);
        world.check(CheckLevel::Everything).unwrap();
        if threshold == 0 {
            assert!(world.levels.stitched() > 200, "{}", world.levels.stitched());
            assert!(read[0] < written / 8, "{} bytes read of {written}", read[0]);
        }
        world.compare_scans().unwrap();
        for _ in 0..50 {
            world.get().unwrap();
        }
        // Once everything is deleted, no extent of any run remains.
        world.sequence += 1;
        world.memtable.delete_range(b"", b"a", world.sequence).unwrap();
        world.history.delete_range(b"", b"a", world.sequence);
        world.seal().unwrap();
        world.settle().unwrap();
        world.levels.compact_part(b"").unwrap();
        world.settle().unwrap();
        world.checkpoint().unwrap();
        world.checkpoint().unwrap();
        while world
            .home
            .store
            .reclaim(ReclaimLimit::default())
            .unwrap()
            .freed_bytes
            > 0
        {}
        world.check(CheckLevel::Everything).unwrap();
        let usage = world.home.store.usage().0.total();
        assert!(usage.live_extent_bytes <= 4 * UNIT, "{usage:?}");
    }
    assert!(read[1] > 4 * read[0], "copying reads everything: {read:?}");
}
