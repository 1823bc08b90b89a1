//! Tests of the levels in a bundle of arrays: how many runs each level has, how many reads filters
//! save, and what happens if filters are damaged.

use super::{
    AllocationClass, AppendOperator, DataFiles, Dictionary, HashedStructure, LookupKey, LookupState,
    Memtable, MemtableSlice, Message, PointLookup, StepProgress, Story, StructureContext, bundle, home,
    lookup,
};
use crate::hashed::routing::CandidateRuns;
use crate::hashed::state::PartitionLevel;
use crate::hashed::{HashedForm, HashedOptions, check_files, survey};
use alluvium_base::Purpose;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Directory, FileOptions};
use alluvium_dictionary::fetch::{BlockingFetch, unwrap_ready};
use alluvium_dictionary::rules::OneKeyspace;
use alluvium_storage::extents::{ExtentOptions, UNIT};
use alluvium_storage::store::{Store, StoreOptions};
use std::sync::Arc;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Writes the records with the given numbers as one hash store.
pub(super) fn put(
    hashed: &HashedStructure,
    numbers: impl Iterator<Item = u64>,
) -> alluvium_storage::Result<()> {
    let memtable = Memtable::new(1 << 20);
    let mut at = hashed.cut();
    for number in numbers {
        at += 1;
        memtable
            .insert(&key(number), Message::put(at, &number.to_le_bytes()))
            .unwrap();
    }
    let mut taking = hashed.incorporate(
        MemtableSlice::whole(Arc::new(memtable), at),
        AllocationClass::Normal,
    )?;
    while taking.poll(1000)? == StepProgress::More {}
    taking.publish()
}

pub(super) fn merge(hashed: &HashedStructure) -> alluvium_storage::Result<()> {
    while let Some(mut step) = hashed.next_step()? {
        while step.poll(300)? == StepProgress::More {}
    }
    Ok(())
}

pub(super) fn get(hashed: &HashedStructure, number: u64) -> alluvium_storage::Result<Option<Vec<u8>>> {
    let mut gather = LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator));
    lookup::gather(&hashed.reader(), LookupKey::new(&key(number)), &mut gather)?;
    Ok(gather.finish())
}

pub(super) fn check(home: &StructureContext, hashed: &HashedStructure) -> Vec<String> {
    let root = hashed.checkpoint_root().unwrap().root.clone();
    let findings = check_files(DataFiles::of(&home.store), &root, 0, &mut |_| Ok(())).unwrap();
    findings.into_sentences()
}

/// Returns the number of runs in each level of a part.
fn runs(hashed: &HashedStructure, part: usize) -> Vec<usize> {
    let version = hashed.version();
    let levels = version.parts[part].levels.iter();
    levels.map(|level| level.runs.len()).collect()
}

/// The run counts of the levels behave like the digits of a counter in base λ, which is the ruler
/// sequence of merges (Conway §2.2).
#[test]
fn runs_of_levels_are_the_digits_of_a_counter() {
    for (lambda, refined) in [(2, false), (2, true), (4, false), (4, true)] {
        let home = home();
        let options = HashedOptions {
            parts_log: 1,
            ..bundle(lambda, refined)
        };
        let hashed = HashedStructure::create(home.clone(), options, 0).unwrap();
        for round in 1..=20usize {
            for store in 0..u64::from(lambda) {
                put(
                    &hashed,
                    (0..40).map(|number| 100_000 * round as u64 + 1000 * store + number),
                )
                .unwrap();
            }
            merge(&hashed).unwrap();
            assert_eq!(hashed.hash_store_count(), 0, "λ hash stores are one round");
            for part in 0..2 {
                let mut left = round;
                for (level, runs) in runs(&hashed, part).into_iter().enumerate() {
                    assert_eq!(
                        runs,
                        left % usize::from(lambda),
                        "level {level} after {round} rounds"
                    );
                    left /= usize::from(lambda);
                }
                assert_eq!(left, 0);
            }
        }
        assert_eq!(check(&home, &hashed), Vec::<String>::new());
        let stats = hashed.stats();
        assert!(
            stats.filter_bytes > 0 && stats.levels >= 3 && stats.runs >= 2,
            "{stats:?}"
        );
        // Each record was written once for each level that it has passed through.
        let levels = 20f64.log(f64::from(lambda)).floor() + 1.0;
        let each = stats.merged_records as f64 / (20.0 * 40.0 * f64::from(lambda));
        assert!(each <= levels, "{each} times, {levels} levels");
    }
}

/// Returns the number of runs that a level's filter returns for a key.
fn reads(home: &StructureContext, hashed: &HashedStructure, level: &PartitionLevel, number: u64) -> u32 {
    let guard = home.store.epochs().pin();
    let fetch = BlockingFetch {
        cache: home.store.cache(),
        guard: &guard,
        purpose: Purpose::Lookup,
    };
    let hash = hashed.hash_of(LookupKey::new(&key(number)));
    let filter = level.filter.as_ref().expect("a level has a filter");
    match unwrap_ready(filter.find_candidates(hash, &fetch)).unwrap() {
        CandidateRuns::All => panic!("a level has a filter"),
        some => some.count(),
    }
}

#[test]
fn an_absent_key_costs_a_run_in_few_levels_and_a_check_character_makes_them_fewer() {
    let mut read = [0.0f64; 2];
    for refined in [false, true] {
        let home = home();
        let options = HashedOptions {
            parts_log: 0,
            ..bundle(4, refined)
        };
        let hashed = HashedStructure::create(home.clone(), options, 0).unwrap();
        for store in 0..4 * 11u64 {
            put(&hashed, 500 * store..500 * (store + 1)).unwrap();
            merge(&hashed).unwrap();
        }
        assert_eq!(runs(&hashed, 0), [3, 2]);
        let version = hashed.version();
        let levels = &version.parts[0].levels;
        for level in levels {
            let absent = (1_000_000..1_004_000u64).map(|number| reads(&home, &hashed, level, number));
            read[usize::from(refined)] += f64::from(absent.sum::<u32>()) / 4000.0;
        }
        // A lookup of a present key reads at least the run that contains it.
        for number in (0..22_000).step_by(331) {
            assert_eq!(get(&hashed, number).unwrap(), Some(number.to_le_bytes().to_vec()));
            let reads: u32 = levels
                .iter()
                .map(|level| reads(&home, &hashed, level, number))
                .sum();
            assert!(reads >= 1, "{number}");
        }
    }
    let levels = 2.0;
    assert!(read[0] <= levels, "λ/β = 1 for each level (Lemma 5): {read:?}");
    assert!(
        read[1] <= levels / 4.0 && read[1] > 0.0,
        "1/λ for each level: {read:?}"
    );
}

/// The level's first run is small, so later runs have several records with the same prefix, some of
/// them in different leaves. Each of these records must name the previous run (U6).
#[test]
fn a_chain_goes_on_where_a_prefix_has_records_in_two_leaves() {
    let home = home();
    let options = HashedOptions {
        parts_log: 0,
        ..bundle(4, false)
    };
    let hashed = HashedStructure::create(home, options, 0).unwrap();
    for (store, records) in [(0..4u64, 125), (4..12, 2000)] {
        for store in store {
            put(&hashed, 10_000 * store..10_000 * store + records).unwrap();
        }
        merge(&hashed).unwrap();
    }
    assert!(runs(&hashed, 0)[0] > 1, "runs of one level");
    for number in (0..125).chain(30_000..30_125).chain((40_000..41_000).step_by(7)) {
        assert_eq!(get(&hashed, number).unwrap(), Some(number.to_le_bytes().to_vec()));
    }
    for number in 1_000_000..1_030_000 {
        assert_eq!(get(&hashed, number).unwrap(), None);
    }
}

#[test]
fn a_filter_is_told_from_one_of_other_runs() {
    for refined in [false, true] {
        let mut story = Story::of(bundle(4, refined), 31);
        for _ in 0..12 {
            let memtable = story.memtable(150);
            story.take(memtable);
            story.merge(100_000);
        }
        let version = story.hashed.version();
        let files = DataFiles::of(&story.home.store);
        let levels: Vec<&PartitionLevel> = version.parts.iter().map(|part| &part.levels[0]).collect();
        let of = |level: &PartitionLevel| level.runs.iter().map(|run| run.run.clone()).collect::<Vec<_>>();
        for (at, level) in levels.iter().enumerate() {
            let filter = level.filter.as_ref().unwrap();
            assert_eq!(filter.check(files, &of(level)), Vec::<String>::new());
            let other = levels[(at + 1) % levels.len()];
            assert!(!filter.check(files, &of(other)).is_empty(), "of another part");
            let mut turned = of(level);
            turned.reverse();
            assert!(!filter.check(files, &turned).is_empty(), "in another order");
            let one_less = &of(level)[1..];
            assert!(!filter.check(files, one_less).is_empty(), "without the first run");
        }
    }
}

#[test]
fn damaged_filters_are_told_and_a_salvaged_structure_does_without_them() {
    for refined in [false, true] {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let store = Store::create(Arc::clone(&directory), &StoreOptions::default(), b"").unwrap();
        let home = StructureContext {
            store: Arc::new(store),
            schema: Arc::new(OneKeyspace::default()),
            horizon: Arc::default(),
        };
        let options = bundle(4, refined);
        let hashed = HashedStructure::create(home.clone(), options.clone(), 0).unwrap();
        for store in 0..24u64 {
            put(&hashed, 200 * store..200 * store + 300).unwrap();
            merge(&hashed).unwrap();
        }
        let (root, at) = {
            let cut = hashed.checkpoint_root().unwrap();
            (cut.root.clone(), cut.at)
        };
        let flip = |offset: u64| {
            let file = directory.open("tier-0.data", FileOptions::BUFFERED).unwrap();
            let mut bytes = file.read_at(offset, 4096, Purpose::Check).unwrap();
            bytes[7] ^= 4;
            file.write_at(offset, bytes, Purpose::Check).unwrap();
        };
        let version = hashed.version();
        let filter = version.parts[1].levels[0].filter.clone().unwrap();
        // If a page of the filter is damaged, lookups fail and a check reports the location.
        let page = filter.page(0).unwrap();
        flip(page.offset);
        let found = check(&home, &hashed);
        assert!(found.iter().any(|what| what.contains("filter of")), "{found:?}");
        let fresh = || HashedStructure::open(home.clone(), &options, &root, at);
        home.store.cache().discard(&page);
        let failed = (0..5000).filter(|&number| get(&fresh().unwrap(), number).is_err());
        assert!(failed.count() > 0, "damage is an error");
        flip(page.offset);
        // If the filter's description is damaged, the structure can be opened only without the
        // filter.
        flip(filter.pointer().node.offset);
        assert!(fresh().is_err());
        let survey = survey(DataFiles::of(&home.store), &root).unwrap();
        assert_eq!(
            (&survey.lost[..], survey.filters),
            (&[][..], 1),
            "nothing is lost"
        );
        let salvaged = HashedStructure::open_salvaged(home.clone(), &options, &root, at).unwrap();
        assert!(salvaged.version().parts[1].levels[0].filter.is_none());
        for number in 0..4900 {
            assert_eq!(
                get(&salvaged, number).unwrap(),
                Some(number.to_le_bytes().to_vec())
            );
        }
        // The level has no filter until its runs are merged.
        for store in 0..40u64 {
            put(&salvaged, 200 * store..200 * store + 300).unwrap();
            merge(&salvaged).unwrap();
        }
        let version = salvaged.version();
        assert!(
            version
                .parts
                .iter()
                .flat_map(|part| &part.levels)
                .all(|level| level.filter.is_some() != level.runs.is_empty())
        );
        assert_eq!(check(&home, &salvaged), Vec::<String>::new());
    }
}

#[test]
fn a_full_disk_in_a_cascade_changes_nothing() {
    for refined in [false, true] {
        let store = StoreOptions {
            extents: ExtentOptions {
                max_bytes: Some(220 * UNIT),
                min_reserve: UNIT,
                max_reserve: 2 * UNIT,
                ..ExtentOptions::default()
            },
            ..StoreOptions::default()
        };
        let store = Store::create(Arc::new(MemoryDirectory::new()), &store, b"").unwrap();
        let home = StructureContext {
            store: Arc::new(store),
            schema: Arc::new(OneKeyspace::default()),
            horizon: Arc::default(),
        };
        let options = HashedOptions {
            form: HashedForm::Boa { lambda: 2, refined },
            parts_log: 1,
            ..bundle(2, refined)
        };
        let hashed = HashedStructure::create(home.clone(), options, 0).unwrap();
        let (mut next, mut full) = (0u64, 0);
        for _ in 0..400 {
            match put(&hashed, next..next + 400) {
                Ok(()) => next += 400,
                Err(error) => assert!(error.is_full(), "{error}"),
            }
            let before = hashed.version();
            if let Some(mut step) = hashed.next_step().unwrap() {
                let result = loop {
                    match step.poll(50) {
                        Ok(StepProgress::More) => {}
                        Ok(StepProgress::Done) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                };
                if let Err(error) = result {
                    assert!(error.is_full(), "{error}");
                    full += 1;
                    let after = hashed.version();
                    assert_eq!(
                        after.stamp.contents, before.stamp.contents,
                        "nothing is installed"
                    );
                    assert!(!hashed.may_merge(), "it is known to need more space");
                }
            }
            if full > 3 {
                break;
            }
        }
        assert!(full > 3, "merges met a full disk {full} times, {next} records");
        home.store.health().unwrap();
        for number in 0..next {
            assert_eq!(get(&hashed, number).unwrap(), Some(number.to_le_bytes().to_vec()));
        }
        assert_eq!(get(&hashed, next).unwrap(), None);
    }
}

#[test]
fn half_as_many_deletes_make_one_run() {
    let home = home();
    let options = HashedOptions {
        parts_log: 0,
        ..bundle(4, false)
    };
    let hashed = HashedStructure::create(home.clone(), options, 0).unwrap();
    for store in 0..16u64 {
        put(&hashed, 100 * store..100 * (store + 1)).unwrap();
        merge(&hashed).unwrap();
    }
    assert_eq!(runs(&hashed, 0), [0, 1]);
    for store in 0..8u64 {
        let memtable = Memtable::new(1 << 20);
        let cut = hashed.cut();
        for number in 0..100 {
            let at = cut + 1 + number;
            memtable
                .insert(&key(100 * store + number), Message::delete(at))
                .unwrap();
        }
        let share = MemtableSlice::whole(Arc::new(memtable), cut + 100);
        let mut taking = hashed.incorporate(share, AllocationClass::Normal).unwrap();
        while taking.poll(1000).unwrap() == StepProgress::More {}
        taking.publish().unwrap();
        merge(&hashed).unwrap();
    }
    home.horizon.raise(hashed.cut());
    for store in 16..20u64 {
        put(&hashed, 100 * store..100 * (store + 1)).unwrap();
        merge(&hashed).unwrap();
    }
    // Half of the keys are deleted, and the next merges drop them.
    assert_eq!(runs(&hashed, 0), [0, 1], "one run");
    let stats = hashed.stats();
    assert_eq!((stats.tombstones, stats.sorted_records), (0, 1200));
    assert_eq!(get(&hashed, 5).unwrap(), None);
    assert!(get(&hashed, 805).unwrap().is_some());
}
