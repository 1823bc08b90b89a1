//! Leaves that a merge must not adopt, one rule per test. Leaves are adopted wherever this is
//! permitted (f = 0), so each of these leaves would be adopted unread without its rule.

use super::World;
use crate::schema::appending;
use alluvium_base::{Message, MessageKind, Purpose};
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::Dictionary as _;
use alluvium_dictionary::merge::{CompactionFilter, FilterCandidate, FilterVerdict};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceRules, OneKeyspace};
use alluvium_storage::NodeCodec;
use alluvium_trees::levels::StitchPolicy;
use std::sync::Arc;

pub(super) const ALL: StitchPolicy = StitchPolicy {
    threshold: 0,
    same_scan: None,
    always: u32::MAX,
    moves_values: false,
    defragment_percent: 0,
};

/// Writes numbers with a value, or deletes them if `value` is `None`. The result is one or a few
/// runs.
pub(super) fn run(world: &mut World, numbers: impl IntoIterator<Item = u64>, value: Option<&[u8]>) {
    for number in numbers {
        world.sequence += 1;
        let (key, at) = (format!("{number:08}"), world.sequence);
        let (kind, message) = match value {
            Some(value) => (MessageKind::Put, Message::put(at, value)),
            None => (MessageKind::Delete, Message::delete(at)),
        };
        world.memtable.insert(key.as_bytes(), message).unwrap();
        world
            .history
            .add(key.as_bytes(), at, kind, 0, value.unwrap_or_default());
        if world.memtable.bytes() > 200 << 10 {
            world.seal().unwrap();
        }
    }
    world.seal().unwrap();
    while world.sealed.is_some() {
        world.poll_incorporation().unwrap();
    }
}

fn records(world: &World) -> u64 {
    world.levels.approximate_len(&KeyRange::everything()).unwrap()
}

#[test]
fn deletes_are_not_taken_over_where_nothing_lies_below() {
    let sizes = [true, false].map(|has_deletes| {
        let mut world = World::stitching("never", ALL, 1);
        let bytes = |world: &World| world.levels.size_on_disk(&KeyRange::everything()).unwrap();
        run(&mut world, (0..500).chain(8000..8500), Some(&[1; 100]));
        let before = bytes(&world);
        if has_deletes {
            // Deletes between the puts must be kept until all runs are merged, because older
            // records may lie below them.
            run(&mut world, 2000..7000, None);
            assert!(
                bytes(&world) > before + 50_000,
                "they are kept as long as they may be needed"
            );
        }
        run(&mut world, 9000..9001, Some(&[2; 100]));
        world.levels.compact_part(b"").unwrap();
        world.settle().unwrap();
        assert!(world.levels.stitched() > 5, "{}", world.levels.stitched());
        world.check(CheckLevel::Everything).unwrap();
        world.compare_scans().unwrap();
        bytes(&world)
    });
    assert!(
        sizes[0] < sizes[1] + 20_000,
        "nothing is left of deletes: {sizes:?}"
    );
}

#[test]
fn leaves_that_are_not_full_are_copied_so_that_runs_do_not_crumble() {
    const NUMBERS: u64 = 4000;
    const APART: u64 = 1000;
    const GENERATIONS: u64 = 50;
    let sizes = [ALL, StitchPolicy::default()].map(|stitching| {
        let mut world = World::stitching("leveled,r=2", stitching, 2);
        run(
            &mut world,
            (0..NUMBERS).map(|number| number * APART),
            Some(&[0; 100]),
        );
        for generation in 0..GENERATIONS {
            // Each time, add fewer neighbours than a leaf has, at different positions. A leaf that
            // gets some is split into two, one of them small.
            let first = |cluster: u64| (generation * 7919 + cluster * 211) % NUMBERS * APART;
            let cluster = |cluster| (0..6).map(move |number| first(cluster) + 7 * generation + number + 1);
            let mut numbers: Vec<u64> = (0..10).flat_map(cluster).collect();
            numbers.sort_unstable();
            run(&mut world, numbers, Some(&[generation as u8; 100]));
            world.levels.compact_part(b"").unwrap();
            world.settle().unwrap();
        }
        world.check(CheckLevel::Everything).unwrap();
        world.compare_scans().unwrap();
        assert_eq!(world.levels.stitched() > 1000, stitching == ALL);
        assert_eq!(records(&world), NUMBERS + 60 * GENERATIONS);
        world.levels.size_on_disk(&KeyRange::everything()).unwrap()
    });
    // F - 1 <= 2 N / B: there are at most as many leaves as if each were half full.
    println!("{sizes:?}");
    assert!(sizes[0] <= 2 * sizes[1], "{sizes:?}");
}

/// Removes values that begin with 9.
#[derive(Debug)]
struct Sieve;

impl CompactionFilter for Sieve {
    fn decide(&self, candidate: &FilterCandidate<'_>) -> FilterVerdict {
        match candidate.value.first() {
            Some(9) => FilterVerdict::Remove,
            _ => FilterVerdict::Keep,
        }
    }
}

#[test]
fn a_filter_is_asked_about_every_record() {
    let schema = OneKeyspace::new(KeyspaceRules {
        filter: Some(Arc::new(Sieve)),
        ..appending(NodeCodec::None)
    });
    let mut world = World::of("never", ALL, 3, Arc::new(schema));
    for part in 0..6 {
        let value = [if part % 2 == 0 { 9 } else { 8 }; 100];
        run(&mut world, part * 1000..(part + 1) * 1000, Some(&value));
    }
    world.home.horizon.raise(world.sequence);
    world.levels.compact_part(b"").unwrap();
    world.settle().unwrap();
    assert_eq!(records(&world), 3000, "half of all was removed");
    assert_eq!(world.levels.stitched(), 0, "no leaf was taken over unread");
    world.check(CheckLevel::Everything).unwrap();
}

/// Returns the number of bytes that merges have written.
fn merged_bytes(world: &World) -> u64 {
    let counts = world.directory.counters().snapshot();
    counts.of(Purpose::Compact).written_bytes
}

#[test]
fn what_shrank_moves_back_up_and_not_a_byte_is_written_for_that() {
    for policy in ["samt,k=2", "leveled,r=4", "cola,r=4"] {
        let mut world = World::new(policy, 3);
        run(&mut world, 0..12_000, Some(&[1; 100]));
        world.settle().unwrap();
        world.levels.compact_part(b"").unwrap();
        world.settle().unwrap();
        let deep = world.levels.runs().len();
        assert!(deep >= 3, "{policy}: {:?}", world.levels.runs());
        // Delete nearly everything. The merge output then has the size of a level near the top.
        run(&mut world, 20..12_000, None);
        world.levels.compact_part(b"").unwrap();
        let before = merged_bytes(&world);
        world.settle().unwrap();
        let written = merged_bytes(&world) - before;
        let runs = world.levels.runs();
        assert_eq!(runs.iter().sum::<usize>(), 1, "{policy}: {runs:?}");
        assert!(runs.len() <= 2, "{policy}: it stands on level {}", runs.len() - 1);
        assert!(written < 64 << 10, "{policy}: {written} bytes for 20 records");
        world.check(CheckLevel::Everything).unwrap();
        world.compare_scans().unwrap();
    }
}
