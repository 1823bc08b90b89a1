//! Adoption of leaves with separate values: neither the leaves nor the values are read. The extents
//! of the values are reference-counted by key range and freed once they are unreachable.

use super::World;
use super::rules::{ALL, run};
use crate::schema::schema_with;
use alluvium_base::Purpose;
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::Dictionary as _;
use alluvium_storage::NodeCodec;
use alluvium_storage::extents::ReclaimLimit;
use alluvium_trees::levels::StitchPolicy;

const SHORT: usize = 64;
const SHORT_PART: u64 = 3000;
/// Length of a value in bytes: more than the 200 that a leaf stores inline.
const VALUE: usize = 1000;
const PART: u64 = 400;

/// Returns the numbers of bytes that merges have read and written.
pub(super) fn merged(world: &World) -> (u64, u64) {
    let counts = world.directory.counters().snapshot();
    let merged = counts.of(Purpose::Compact);
    (merged.read_bytes, merged.written_bytes)
}

/// Returns the live bytes of all extents, after releasing unreachable data.
fn live(world: &mut World) -> u64 {
    // Extents released by one checkpoint become free at the next.
    for _ in 0..3 {
        world.checkpoint().unwrap();
        world.home.store.reclaim(ReclaimLimit::default()).unwrap();
    }
    world.home.store.extents().usage().total().live_bytes
}

fn compact(world: &mut World) {
    world.levels.compact_part(b"").unwrap();
    world.settle().unwrap();
    world.check(CheckLevel::Everything).unwrap();
    world.compare_scans().unwrap();
}

/// A structure that stores even short values separately, so that there are many leaves. Extents
/// with few live bytes are released after their leaves have been copied.
fn with_short_values(stitching: StitchPolicy, seed: u64) -> World {
    let schema = schema_with(0, NodeCodec::None, Some(SHORT - 1));
    World::of("never", stitching, seed, schema)
}

/// Writes several parts with ascending key ranges.
fn parts(world: &mut World, count: u64) {
    for part in 0..count {
        run(world, part * PART..(part + 1) * PART, Some(&[part as u8; VALUE]));
    }
}

#[test]
fn what_comes_in_order_is_merged_without_reading_leaves_or_values() {
    let merging = |stitching| {
        let mut world = World::stitching("never", stitching, 1);
        parts(&mut world, 8);
        let before = merged(&world);
        compact(&mut world);
        let after = merged(&world);
        assert_eq!(world.levels.runs().iter().sum::<usize>(), 1);
        (world.levels.stitched(), after.0 - before.0, after.1 - before.1)
    };
    let bytes = 8 * PART * VALUE as u64;
    let (leaves, read, written) = merging(ALL);
    println!("f = 0: {leaves} leaves, {read} bytes read, {written} written of {bytes}");
    assert!(leaves > 20, "{leaves} leaves");
    // The last leaf of each run, which is one in three here, is copied because its upper bound is
    // unknown.
    assert!(
        read < bytes / 8 && written < bytes / 10,
        "{read} and {written} bytes"
    );
    let moved = StitchPolicy {
        moves_values: true,
        ..StitchPolicy::default()
    };
    let (leaves, read, written) = merging(moved);
    println!("all copied, values too: {read} bytes read, {written} written");
    assert!(
        leaves == 0 && read > bytes * 9 / 10 && written > bytes,
        "{read} and {written} bytes"
    );
}

#[test]
fn what_holds_values_is_freed_as_soon_as_nothing_reaches_it() {
    for stitching in [
        ALL,
        StitchPolicy {
            moves_values: true,
            ..ALL
        },
    ] {
        let mut world = with_short_values(stitching, 2);
        for part in 0..8 {
            let numbers = part * SHORT_PART..(part + 1) * SHORT_PART;
            run(&mut world, numbers, Some(&[part as u8; SHORT]));
        }
        compact(&mut world);
        let all = live(&mut world);
        let taken_over = world.levels.stitched();
        assert!(taken_over > 20, "{taken_over} leaves");
        let bytes = 8 * SHORT_PART * SHORT as u64;
        assert!(
            all > bytes && all < bytes * 3,
            "{all} bytes live, {bytes} of values"
        );
        // Delete the middle six of the eight parts. The remaining leaves are adopted once more.
        run(&mut world, SHORT_PART..7 * SHORT_PART, None);
        compact(&mut world);
        assert!(world.levels.stitched() > taken_over + 10, "{stitching:?}");
        let left = live(&mut world);
        println!("{all} bytes live, then {left}");
        assert!(left < all / 4 + all / 16, "{left} bytes of {all} are live");
        // Delete the rest too.
        run(&mut world, 0..8 * SHORT_PART, None);
        compact(&mut world);
        let nothing = live(&mut world);
        assert!(nothing < 600 << 10, "{nothing} bytes are live of nothing");
    }
}

/// The new leaves refer to values of an older part, one in eight of which is live. The next merge
/// could adopt these leaves, but copies them so that the extents of the values can be released.
#[test]
fn leaves_whose_values_lie_among_dead_ones_are_copied_with_them() {
    let mut world = with_short_values(ALL, 5);
    run(&mut world, 0..12_000, Some(&[1; 200]));
    let others = (0..12_000).filter(|number| number % 8 != 0);
    run(&mut world, others, Some(&[2; 200]));
    compact(&mut world);
    let all = live(&mut world);
    run(&mut world, 20_000..20_500, Some(&[3; 200]));
    compact(&mut world);
    let left = live(&mut world);
    println!("{all} bytes live, then {left}");
    assert!(left < all * 3 / 4, "{left} bytes of {all} are live");
}

#[test]
fn a_leaf_with_values_apart_is_found_after_it_was_taken_over_often() {
    let mut world = with_short_values(ALL, 3);
    run(&mut world, 0..9000, Some(&[7; SHORT]));
    for generation in 0..6u8 {
        compact(&mut world);
        // A few keys between those of the first part, and new keys after all others.
        let from = u64::from(generation) * 7;
        run(&mut world, (from..900).step_by(97), Some(&[generation; SHORT]));
        let behind = 10_000 + u64::from(generation) * 100;
        run(&mut world, behind..behind + 50, Some(&[generation; SHORT / 2]));
    }
    compact(&mut world);
    assert!(world.levels.stitched() > 100, "{}", world.levels.stitched());
    world.checkpoint().unwrap();
    let mut world = world.reopen().unwrap();
    world.check(CheckLevel::Everything).unwrap();
    world.compare_scans().unwrap();
}

#[test]
fn values_that_move_lie_in_order_and_others_stay_where_they_were() {
    let jumps = |moves_values| {
        let stitching = StitchPolicy {
            moves_values,
            ..StitchPolicy::default()
        };
        let mut world = World::stitching("never", stitching, 4);
        for part in 0..4u64 {
            let numbers = (0..1600).filter(|number| number % 4 == part);
            run(&mut world, numbers, Some(&[part as u8; VALUE]));
        }
        compact(&mut world);
        world.levels.jumps()
    };
    let (stay, move_along) = (jumps(false), jumps(true));
    println!("{stay} jumps where values stay, {move_along} where they move");
    assert!(stay > 1000 && move_along < stay / 50, "{stay} and {move_along}");
}
