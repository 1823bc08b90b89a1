//! Tests with several tiers: where data is placed, and when it moves.

use super::{
    AllocationClass, Dictionary, HashedForm, HashedOptions, HashedStructure, IndexKind, MemoryDirectory,
    Memtable, MemtableSlice, Message, StepProgress, StoreOptions, Story, StructureContext, bundle, forms,
    home_in, says_what_its_model_does, small,
};
use alluvium_storage::TierDirectories;
use alluvium_storage::extents::{ExtentOptions, TierLimits, UNIT};
use std::sync::Arc;

fn directories() -> TierDirectories {
    TierDirectories::from(Arc::new(MemoryDirectory::new())).and(Arc::new(MemoryDirectory::new()))
}

/// Creates a store with two tiers, the first of which has the given planned capacity in bytes.
fn two_tiers(planned_bytes: u64) -> StructureContext {
    let options = StoreOptions {
        extents: ExtentOptions {
            planned_bytes: Some(planned_bytes),
            ..ExtentOptions::default()
        },
        ..StoreOptions::default()
    };
    home_in(directories(), &options)
}

/// Writes the records with the given numbers as hash stores of a thousand records each, and runs
/// the merges that are due.
fn put(hashed: &HashedStructure, numbers: std::ops::Range<u64>, value: Option<&[u8]>) {
    let numbers: Vec<u64> = numbers.collect();
    for some in numbers.chunks(1000) {
        let memtable = Memtable::new(8 << 20);
        let mut at = hashed.cut();
        for number in some {
            at += 1;
            let message = match value {
                Some(value) => Message::put(at, value),
                None => Message::delete(at),
            };
            memtable.insert(&number.to_be_bytes(), message).unwrap();
        }
        hashed.shared.home.horizon.raise(at);
        let mut taking = hashed
            .incorporate(
                MemtableSlice::whole(Arc::new(memtable), at),
                AllocationClass::Normal,
            )
            .unwrap();
        while taking.poll(1000).unwrap() == StepProgress::More {}
        taking.publish().unwrap();
        merge(hashed);
    }
}

fn merge(hashed: &HashedStructure) {
    while let Some(mut step) = hashed.next_step().unwrap() {
        while step.poll(500).unwrap() == StepProgress::More {}
    }
}

/// Returns, for each part, the tiers that contain its leaves.
fn tiers_of_parts(hashed: &HashedStructure) -> Vec<Vec<u8>> {
    let version = hashed.version();
    let of_part = |part: &Arc<super::super::state::HashPartition>| {
        let leaves = part
            .runs()
            .flat_map(|run| (0..run.run.leaves()).map(move |leaf| run.run.leaf(leaf).unwrap().tier));
        let mut tiers: Vec<u8> = leaves.collect();
        tiers.sort_unstable();
        tiers.dedup();
        tiers
    };
    version.parts.iter().map(of_part).collect()
}

#[test]
fn what_merges_write_lies_on_the_second_tier_and_what_lookups_ask_first_on_the_first() {
    for options in forms() {
        let home = two_tiers(0);
        let hashed = HashedStructure::create(home.clone(), options, 0).unwrap();
        put(&hashed, 0..20_000, Some(&[7; 300]));
        hashed.compact_part(b"").unwrap();
        merge(&hashed);
        put(&hashed, 20_000..22_000, Some(&[7; 10]));
        let version = hashed.version();
        for run in version.parts.iter().flat_map(|part| part.runs()) {
            let tiers: Vec<u8> = run.run.extents().map(|(extent, _)| extent.tier).collect();
            let leaf = run.run.leaf(0).unwrap().tier;
            assert_eq!((leaf, run.run.pointer().node.tier), (1, 0), "{tiers:?}");
        }
        for young in &version.young {
            assert!(young.run.extents().all(|(extent, _)| extent.tier == 0));
        }
        for filter in version.filters() {
            assert!(filter.extents().all(|(extent, _)| extent.tier == 0));
        }
        // The values are stored separately.
        let live = |tier: usize| home.store.extents().usage().tiers[tier].live_bytes;
        assert!(live(1) > 20_000 * 300, "{} bytes", live(1));
        assert!(live(0) < live(1) / 4, "{} and {}", live(0), live(1));
    }
}

#[test]
fn a_first_tier_has_as_many_parts_as_it_is_planned_to_have() {
    for form in [
        HashedForm::Silt,
        HashedForm::Boa {
            lambda: 4,
            refined: true,
        },
    ] {
        let options = HashedOptions {
            form,
            parts_log: 4,
            ..small(IndexKind::PaCHash)
        };
        let home = two_tiers(4 << 20);
        let hashed = HashedStructure::create(home.clone(), options, 0).unwrap();
        // The records take up about eight mebibytes.
        put(&hashed, 0..40_000, Some(&[7; 190]));
        for _ in 0..2 {
            hashed.compact_part(b"").unwrap();
            merge(&hashed);
        }
        let tiers = tiers_of_parts(&hashed);
        let on_first = tiers.iter().filter(|tiers| **tiers == [0]).count();
        assert!((4..=9).contains(&on_first), "{tiers:?}");
        assert!(
            tiers.is_sorted(),
            "the first parts are on the first tier: {tiers:?}"
        );
        assert_eq!(on_first + tiers.iter().filter(|tiers| **tiers == [1]).count(), 16);
    }
}

#[test]
fn what_has_shrunk_comes_back_to_the_first_tier() {
    for options in [small(IndexKind::PaCHash), bundle(4, true), bundle(2, false)] {
        // Each extent of a run takes up half a mebibyte, however few records the run has.
        let home = two_tiers(6 << 20);
        let hashed = HashedStructure::create(home.clone(), options, 0).unwrap();
        put(&hashed, 0..20_000, Some(&[7; 600]));
        hashed.compact_part(b"").unwrap();
        merge(&hashed);
        assert!(tiers_of_parts(&hashed).contains(&vec![1]));
        put(&hashed, 0..19_900, None);
        hashed.compact_part(b"").unwrap();
        merge(&hashed);
        let tiers = tiers_of_parts(&hashed);
        assert!(tiers.iter().all(|tiers| *tiers == [0]), "{tiers:?}");
        assert_eq!(hashed.sorted_records(), 100);
    }
}

#[test]
fn a_structure_on_two_tiers_says_what_its_model_does() {
    let joining = [IndexKind::PaCHash, IndexKind::Trie].map(super::joining);
    for options in forms().into_iter().chain(joining) {
        let story = Story::on(two_tiers(0), options, 23);
        says_what_its_model_does(story, 24);
    }
}

#[test]
fn a_first_tier_without_space_is_passed_over() {
    let limited = |units| TierLimits {
        max_bytes: Some(units * UNIT),
        min_reserve: 4 * UNIT,
        max_reserve: 4 * UNIT,
        planned_bytes: None,
        starts_small: false,
    };
    let first = limited(100);
    let options = StoreOptions {
        extents: ExtentOptions {
            max_bytes: first.max_bytes,
            min_reserve: first.min_reserve,
            max_reserve: first.max_reserve,
            ..ExtentOptions::default()
        }
        .with_tier(1, limited(10_000)),
        ..StoreOptions::default()
    };
    for options_of in [small(IndexKind::PaCHash), bundle(4, true)] {
        let home = home_in(directories(), &options);
        let hashed = HashedStructure::create(home.clone(), options_of, 0).unwrap();
        put(&hashed, 0..40_000, Some(&[7; 290]));
        let used = |tier: usize| home.store.extents().usage().tiers[tier].live_extent_bytes;
        assert!(
            used(0) <= 100 * UNIT && used(1) > 100 * UNIT,
            "{} and {}",
            used(0),
            used(1)
        );
        hashed.compact_part(b"").unwrap();
        merge(&hashed);
        assert_eq!(hashed.sorted_records(), 40_000);
    }
}
