//! Filters built from keys: adopted leaves are read only to build them, and everything else is
//! unchanged.

use super::World;
use super::apart::merged;
use super::cases::run_in;
use super::rules::{ALL, run};
use crate::schema::schema_with;
use alluvium_dictionary::check_report::CheckLevel;
use alluvium_dictionary::contract::Dictionary as _;
use alluvium_storage::NodeCodec;
use alluvium_trees::levels::{FilterSource, LevelsOptions};

const PARTS: u64 = 8;
const PART: u64 = 2000;
const VALUE: usize = 100;

fn world(policy: &str, filters: FilterSource, seed: u64) -> World {
    let options = LevelsOptions {
        filters,
        ..World::options(policy, ALL)
    };
    World::with(options, seed, schema_with(0, NodeCodec::None, Some(200)))
}

#[test]
fn filters_of_keys_have_merges_read_what_they_take_over() {
    let merging = |filters| {
        let mut world = world("never", filters, 1);
        for part in 0..PARTS {
            run(
                &mut world,
                part * PART..(part + 1) * PART,
                Some(&[part as u8; VALUE]),
            );
        }
        let before = merged(&world);
        world.levels.compact_part(b"").unwrap();
        world.settle().unwrap();
        world.check(CheckLevel::Everything).unwrap();
        world.compare_scans().unwrap();
        let after = merged(&world);
        (world.levels.stitched(), after.0 - before.0, after.1 - before.1)
    };
    let bytes = PARTS * PART * VALUE as u64;
    let (leaves, read, written) = merging(FilterSource::Merged);
    let rehashed = merging(FilterSource::Rehashed);
    println!("{leaves} leaves, {read} bytes read, {written} written; rehashed: {rehashed:?}");
    assert_eq!(rehashed.0, leaves, "the same leaves are taken over");
    // Merged filters are slightly larger, because they contain copied keys twice.
    assert!(
        rehashed.2 <= written && written - rehashed.2 < 16 << 10,
        "the same is written"
    );
    assert!(leaves > 100 && read < bytes / 4, "{leaves} leaves, {read} bytes");
    assert!(rehashed.1 > bytes, "{} bytes were read of {bytes}", rehashed.1);
}

#[test]
fn filters_of_keys_know_every_key() {
    for policy in ["samt,k=4", "cola,r=3"] {
        let world = world(policy, FilterSource::Rehashed, 11);
        let world = run_in(world, policy, 11, 8000);
        assert!(world.levels.stitched() > 0, "{policy}");
    }
}
