//! Tests of the levels in a bundle of trees: which leaves a search reads, how much is written per
//! leaf, and what happens if lists are damaged.

use super::bundles::{check, get, merge, put};
use super::{
    DataFiles, Dictionary, HashedStructure, LookupKey, StepProgress, StructureContext, bundle, grove, home,
};
use crate::hashed::state::PartitionLevel;
use crate::hashed::trees::{HashLayout, RoutingChild, RoutingList, RoutingNode, TreeDescent};
use crate::hashed::{HashedOptions, survey};
use alluvium_base::Purpose;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Directory, FileOptions};
use alluvium_dictionary::fetch::{BlockingFetch, unwrap_ready};
use alluvium_dictionary::rules::OneKeyspace;
use alluvium_storage::store::{Store, StoreOptions};
use std::sync::Arc;

/// Options for a single part, without joins of hash stores.
fn one_part(lambda: u16) -> HashedOptions {
    HashedOptions {
        parts_log: 0,
        ..grove(lambda)
    }
}

/// Creates a structure with `leaves` leaves of `each` records, whose keys are in no other leaf.
fn planted(home: &StructureContext, lambda: u16, leaves: u64, each: u64) -> HashedStructure {
    let hashed = HashedStructure::create(home.clone(), one_part(lambda), 0).unwrap();
    let stores = u64::from(lambda).min(4);
    for store in 0..leaves * stores {
        let count = each / stores;
        put(&hashed, count * store..count * (store + 1)).unwrap();
        merge(&hashed).unwrap();
    }
    assert_eq!(hashed.hash_store_count(), 0, "all became leaves");
    hashed
}

fn roots(hashed: &HashedStructure) -> Vec<usize> {
    let version = hashed.version();
    let degree = |level: &PartitionLevel| level.tree.as_ref().map_or(0, |tree| tree.root.children.len());
    version.parts[0].levels.iter().map(degree).collect()
}

#[test]
fn degrees_of_roots_are_the_digits_of_a_counter_and_no_record_is_written_again() {
    for lambda in [2u16, 4] {
        let home = home();
        let hashed = HashedStructure::create(home.clone(), one_part(lambda), 0).unwrap();
        for round in 1..=40usize {
            for store in 0..u64::from(lambda) {
                put(
                    &hashed,
                    (0..40).map(|number| 100_000 * round as u64 + 1000 * store + number),
                )
                .unwrap();
            }
            merge(&hashed).unwrap();
            let mut left = round;
            for (level, degree) in roots(&hashed).into_iter().enumerate() {
                assert_eq!(degree, left % usize::from(lambda), "level {level} after {round}");
                left /= usize::from(lambda);
            }
            assert_eq!(left, 0, "no level is missing");
        }
        assert_eq!(check(&home, &hashed), Vec::<String>::new());
        let stats = hashed.stats();
        assert_eq!(stats.merged_records, 40 * 40 * u64::from(lambda), "once (T1)");
        assert_eq!(stats.runs, 40, "a leaf each");
    }
}

/// Searches a level for a hash. Returns the leaves found and the number of lists read.
fn searched(home: &StructureContext, level: &PartitionLevel, hash: u64) -> (Vec<usize>, u32) {
    let guard = home.store.epochs().pin();
    let fetch = BlockingFetch {
        cache: home.store.cache(),
        guard: &guard,
        purpose: Purpose::Lookup,
    };
    let tree = level.tree.as_ref().expect("a level has a tree");
    let (mut descent, mut leaves) = (TreeDescent::default(), Vec::new());
    while let Some(leaf) = unwrap_ready(descent.next(&tree.root, hash, &fetch)).unwrap() {
        assert!(
            leaves.last().is_none_or(|newer| *newer > leaf),
            "the newest first"
        );
        leaves.push(leaf);
    }
    (leaves, descent.nodes())
}

/// A false positive starts in a root and survives each further height with probability at most 1/λ
/// (Lemma 9). In a tree of height h, fewer than 1/λ false positives get past the root, and λ^−h
/// reach a leaf.
#[test]
fn false_positives_of_a_level_are_one_in_lambda_for_each_of_its_heights() {
    for (lambda, leaves) in [(2u16, 15u64), (4, 63), (16, 17)] {
        let (home, each) = (home(), 256);
        let hashed = planted(&home, lambda, leaves, each);
        let version = hashed.version();
        let asked = 20_000u64;
        for level in version.parts[0]
            .levels
            .iter()
            .filter(|level| level.tree.is_some())
        {
            let root = &level.tree.as_ref().unwrap().root;
            let (mut read, mut lists) = (0, 0);
            for number in 1_000_000..1_000_000 + asked {
                let hash = hashed.hash_of(LookupKey::new(&number.to_be_bytes()));
                let (leaves, nodes) = searched(&home, level, hash);
                read += leaves.len();
                lists += nodes;
            }
            let (factor, height) = (f64::from(lambda), i32::from(root.height));
            let entries = level.runs.iter().map(|run| run.run.records()).sum::<u64>() as f64;
            let density = entries / 2f64.powi(root.cut.prefix_bits(root.height) as i32);
            let expected = density * factor.powi(-height);
            let measured = read as f64 / asked as f64;
            println!(
                "λ = {lambda}, height {height}: {measured:.5} leaves in vain, {expected:.5} expected, \
                 {:.3} lists",
                f64::from(lists) / asked as f64
            );
            let spread = 4.0 * (expected / asked as f64).sqrt();
            assert!(
                (measured - expected).abs() <= spread + 0.1 * expected,
                "{measured}, {expected}"
            );
            assert!(density <= 1.0, "a prefix for each entry");
        }
        for number in (0..hashed.sorted_records()).step_by(97) {
            assert!(get(&hashed, number).unwrap().is_some(), "{number}");
        }
    }
}

/// Tests the write amplification of a record. At each height, its hash is written (λ + 1) / 2 times
/// to node lists, and in addition to digests. A lookup reads one leaf.
#[test]
fn inserts_cost_what_the_theorem_says_and_lookups_a_leaf() {
    for (lambda, leaves) in [(2u16, 63u64), (4, 63), (16, 255)] {
        let (home, each) = (home(), 256u64);
        let hashed = planted(&home, lambda, leaves, each);
        let (stats, records) = (hashed.stats(), leaves * each);
        let factor = f64::from(lambda);
        let heights = (leaves as f64 + 1.0).log(factor).round();
        let written = stats.merged_entries as f64 / records as f64;
        let beta = HashLayout::of_leaf(0, lambda.ilog2() as u8, each).beta();
        // The hash is written (λ + 1) / 2 times at each height, once to the leaf's digest, and once
        // to a digest for every β heights.
        let theorem = heights * (factor + 1.0) / 2.0 + 1.0 + (heights / f64::from(beta)).floor();
        let bits = 3.0 * factor.log2() + 3.0;
        let (found, lists) = found_in(&home, &hashed, records);
        println!(
            "λ = {lambda}, β = {beta}, {leaves} leaves: {written:.2} entries written a record (theorem {theorem:.2}), \
             {:.4} blocks; a hit asks {lists:.2} lists and reads {found:.3} leaves",
            written * bits / 8.0 / 4096.0,
        );
        // The roots are not full, so the last λ − 1 children of each have been written less often.
        assert!(
            written <= theorem && written * 1.5 > theorem,
            "{written}, {theorem}"
        );
        assert_eq!(stats.merged_records, records, "each record once");
        let in_vain = 1.0 / (factor - 1.0);
        assert!(
            found < 1.0 + in_vain,
            "a hit reads a leaf, and few in vain: {found}"
        );
        assert!(lists < heights * (heights + 3.0) / 2.0, "{lists} lists");
    }
}

/// Returns how many leaves and how many lists a successful lookup reads on average.
fn found_in(home: &StructureContext, hashed: &HashedStructure, records: u64) -> (f64, f64) {
    let version = hashed.version();
    let (mut leaves, mut lists, mut asked) = (0, 0, 0);
    for number in (0..records).step_by(61) {
        let hash = hashed.hash_of(LookupKey::new(&number.to_be_bytes()));
        for level in version.parts[0]
            .levels
            .iter()
            .filter(|level| level.tree.is_some())
        {
            let (found, nodes) = searched(home, level, hash);
            leaves += found.len();
            lists += nodes;
        }
        asked += 1;
    }
    (
        leaves as f64 / f64::from(asked),
        f64::from(lists) / f64::from(asked),
    )
}

#[test]
fn a_third_of_dead_records_makes_a_part_settle_and_it_goes_on_from_there() {
    let home = home();
    let hashed = HashedStructure::create(home.clone(), one_part(4), 0).unwrap();
    let mut settled = 0;
    for round in 0..120u64 {
        // The same keys are written again and again, and the lists show this without any reads of
        // records.
        put(&hashed, 500 * (round % 6)..500 * (round % 6) + 500).unwrap();
        home.horizon.raise(hashed.cut());
        merge(&hashed).unwrap();
        let version = hashed.version();
        let levels = &version.parts[0].levels;
        settled += u64::from(
            levels
                .iter()
                .any(|level| level.tree.as_ref().is_some_and(|tree| tree.is_settled)),
        );
        let records = hashed.stats().sorted_records;
        assert!(records <= 4 * 3000, "{records} records of 3000 keys");
    }
    assert!(settled > 20, "rebuilt");
    assert_eq!(check(&home, &hashed), Vec::<String>::new());
    for number in 0..3000 {
        assert!(get(&hashed, number).unwrap().is_some(), "{number}");
    }
    let stats = hashed.stats();
    assert!(
        stats.merged_records < 3 * 120 * 500,
        "a record is written twice or so: {stats:?}"
    );
}

#[test]
fn keys_that_come_once_are_not_taken_for_dead() {
    for lambda in [2, 4, 16] {
        let home = home();
        let hashed = planted(&home, lambda, 40, 512);
        let version = hashed.version();
        let trees = version.parts[0]
            .levels
            .iter()
            .filter_map(|level| level.tree.as_ref());
        let hidden: u64 = trees.map(|tree| tree.root.hidden()).sum();
        let records = hashed.stats().sorted_records;
        assert!(hidden * 20 < records, "λ = {lambda}: {hidden} of {records}");
        assert_eq!(hashed.stats().runs, 40, "no part was rebuilt");
    }
}

#[test]
fn a_leaf_far_larger_than_the_first_makes_a_part_settle() {
    let home = home();
    let hashed = HashedStructure::create(home.clone(), one_part(2), 0).unwrap();
    for store in 0..8u64 {
        put(&hashed, 10 * store..10 * store + 10).unwrap();
        merge(&hashed).unwrap();
    }
    for store in 0..2u64 {
        put(&hashed, 10_000 * store + 1000..10_000 * store + 1500).unwrap();
        merge(&hashed).unwrap();
    }
    let version = hashed.version();
    let tree = version.parts[0].levels[0].tree.as_ref().unwrap();
    assert!(tree.is_settled, "1000 records, where 2^8 were a leaf");
    assert_eq!(check(&home, &hashed), Vec::<String>::new());
}

fn lists(tree: &RoutingNode) -> Vec<RoutingList> {
    let mut all = Vec::new();
    tree.each_list(&mut |list| all.push(list.clone()));
    all
}

/// Creates a structure in a directory with 21 leaves, each made of 4 hash stores, and with levels
/// of heights 1 to 3.
fn grown(directory: &Arc<dyn Directory>) -> (StructureContext, HashedStructure) {
    let store = Store::create(Arc::clone(directory), &StoreOptions::default(), b"").unwrap();
    let home = StructureContext {
        store: Arc::new(store),
        schema: Arc::new(OneKeyspace::default()),
        horizon: Arc::default(),
    };
    let hashed = planted(&home, 4, 21, 256);
    assert_eq!(roots(&hashed), [1, 1, 1]);
    (home, hashed)
}

fn flip(directory: &Arc<dyn Directory>, offset: u64) {
    let file = directory.open("tier-0.data", FileOptions::BUFFERED).unwrap();
    let mut bytes = file.read_at(offset, 4096, Purpose::Check).unwrap();
    bytes[7] ^= 4;
    file.write_at(offset, bytes, Purpose::Check).unwrap();
}

fn opened(hashed: &HashedStructure) -> (Vec<u8>, u64) {
    let cut = hashed.checkpoint_root().unwrap();
    (cut.root.clone(), cut.at)
}

fn all_lists(hashed: &HashedStructure) -> Vec<RoutingList> {
    let version = hashed.version();
    let trees = version.parts[0].levels.iter();
    let trees = trees.filter_map(|level| level.tree.as_ref());
    trees.flat_map(|tree| lists(&tree.root)).collect()
}

/// Damages each list in turn, either in a page or in its description. A check must report the
/// damage, and all keys must be found after a repair.
#[test]
fn a_damaged_list_costs_reads_and_no_key() {
    let count = {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        all_lists(&grown(&directory).1).len()
    };
    assert!(count >= 12, "{count} lists");
    for number in 0..count {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let (home, hashed) = grown(&directory);
        let (root, at) = opened(&hashed);
        let list = all_lists(&hashed)[number].clone();
        let without = if number % 2 == 0 {
            let page = list.page(0).unwrap();
            flip(&directory, page.offset);
            home.store.cache().discard(&page);
            let found = check(&home, &hashed);
            assert!(
                found.iter().any(|what| what.contains("list of a tree")),
                "{found:?}"
            );
            let report = hashed.repair().unwrap();
            assert_eq!(
                (report.filters, report.runs, &report.gone[..]),
                (1, 0, &[][..]),
                "{number}"
            );
            hashed
        } else {
            flip(&directory, list.pointer().node.offset);
            assert!(HashedStructure::open(home.clone(), &one_part(4), &root, at).is_err());
            let survey = survey(DataFiles::of(&home.store), &root).unwrap();
            assert_eq!(
                (&survey.lost[..], survey.filters),
                (&[][..], 1),
                "nothing is lost"
            );
            HashedStructure::open_salvaged(home.clone(), &one_part(4), &root, at).unwrap()
        };
        assert_eq!(all_lists(&without).len(), count - 1);
        assert!(check(&home, &without).is_empty(), "it goes without the list");
        for key in (0..21 * 256).step_by(17) {
            assert!(
                get(&without, key).unwrap().is_some(),
                "{key} without list {number}"
            );
        }
        assert_eq!(get(&without, 1 << 40).unwrap(), None);
    }
}

/// If all lists are lost, lookups read every leaf, and the levels have no nodes until the part is
/// rebuilt.
#[test]
fn a_forest_without_lists_grows_on_and_is_whole_again_once_it_is_rebuilt() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let (home, hashed) = grown(&directory);
    for list in all_lists(&hashed) {
        let page = list.page(0).unwrap();
        flip(&directory, page.offset);
        home.store.cache().discard(&page);
    }
    assert!(hashed.repair().unwrap().filters >= 12);
    for store in 84..84 + 200u64 {
        put(&hashed, 64 * store..64 * (store + 1)).unwrap();
        merge(&hashed).unwrap();
        if store % 16 == 0 {
            assert_eq!(check(&home, &hashed), Vec::<String>::new());
            for number in (0..64 * (store + 1)).step_by(59) {
                assert!(get(&hashed, number).unwrap().is_some(), "{number}");
            }
        }
    }
    hashed.compact_part(b"").unwrap();
    merge(&hashed).unwrap();
    let version = hashed.version();
    let tree = version.parts[0].levels[0].tree.as_ref().unwrap();
    assert!(tree.root.node.is_some() && tree.is_settled);
    assert_eq!(check(&home, &hashed), Vec::<String>::new());
}

/// If a leaf is lost, the list of its parent is dropped and all other lists are kept.
#[test]
fn a_run_that_is_lost_leaves_the_rest_of_its_tree() {
    for (level, number) in [(0, 0), (1, 2), (2, 0), (2, 9)] {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let (home, hashed) = grown(&directory);
        let (root, at) = opened(&hashed);
        let version = hashed.version();
        let run = &version.parts[0].levels[level].runs[number].run;
        flip(&directory, run.pointer().node.offset);
        let survey = survey(DataFiles::of(&home.store), &root).unwrap();
        assert_eq!((survey.lost.len(), survey.filters), (1, 0), "{:?}", survey.lost);
        let salvaged = HashedStructure::open_salvaged(home.clone(), &one_part(4), &root, at).unwrap();
        assert_eq!(salvaged.stats().runs, 20);
        assert_eq!(check(&home, &salvaged), Vec::<String>::new());
        let left = (0..21 * 256).filter(|&key| get(&salvaged, key).unwrap().is_some());
        assert_eq!(left.count(), 20 * 256, "the keys of the others");
        for store in 84..84 + 48u64 {
            put(&salvaged, 64 * store..64 * (store + 1)).unwrap();
            merge(&salvaged).unwrap();
        }
        assert_eq!(check(&home, &salvaged), Vec::<String>::new());
        assert!(get(&salvaged, 64 * 100).unwrap().is_some());
    }
}

/// The check of a node's list must fail if it is given other runs, another order, or other
/// children.
#[test]
fn a_list_is_told_from_one_of_other_runs() {
    let home = home();
    let hashed = planted(&home, 4, 21, 256);
    let version = hashed.version();
    let files = DataFiles::of(&home.store);
    let level = &version.parts[0].levels[1];
    let tree = level.tree.as_ref().unwrap();
    let RoutingChild::Node(below) = &tree.root.children[0] else {
        panic!("a tree of height 2")
    };
    let runs: Vec<_> = level.runs.iter().map(|run| (run.run.clone(), 0)).collect();
    let of = |children: [usize; 4]| -> Vec<_> {
        runs.iter()
            .zip(children)
            .map(|((run, _), child)| (run.clone(), child))
            .collect()
    };
    let [upper, lower] = [&tree.root, &**below].map(|tree| tree.node.as_ref().unwrap());
    assert_eq!(upper.check(files, &of([0; 4])), Vec::<String>::new());
    assert_eq!(lower.check(files, &of([0, 1, 2, 3])), Vec::<String>::new());
    assert!(!lower.check(files, &of([0, 1, 3, 2])).is_empty(), "another child");
    let mut turned = of([0; 4]);
    turned.reverse();
    assert!(!upper.check(files, &turned).is_empty(), "in another order");
    let other: Vec<_> = version.parts[0].levels[0]
        .runs
        .iter()
        .map(|run| (run.run.clone(), 0))
        .collect();
    assert!(!upper.check(files, &other).is_empty(), "of another level");
}

/// In each slice, a merge processes only a limited number of records and entries.
#[test]
fn a_cascade_is_done_in_slices() {
    let home = home();
    let hashed = planted(&home, 4, 63, 256);
    for store in 0..4u64 {
        put(&hashed, 1_000_000 + 64 * store..1_000_000 + 64 * (store + 1)).unwrap();
    }
    let mut step = hashed.next_step().unwrap().expect("a leaf is due");
    let mut slices = 1u64;
    while step.poll(50).unwrap() == StepProgress::More {
        slices += 1;
    }
    // 256 hashes are added to a root that has three times as many, and likewise at each further
    // height. A slice processes 400 entries.
    let entries = [1, 4, 16].map(|leaves| 4 * 256 * leaves).iter().sum::<u64>() + 64 * 256;
    assert!(slices > entries / 400, "{slices} slices");
    assert_eq!(roots(&hashed), [0, 0, 0, 1]);
}

/// In a bundle of arrays, a repair that rewrites a run must drop the level's filter, because the
/// lost records may have named earlier runs.
#[test]
fn a_routing_filter_does_not_outlive_a_run_that_was_mended() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let store = Store::create(Arc::clone(&directory), &StoreOptions::default(), b"").unwrap();
    let home = StructureContext {
        store: Arc::new(store),
        schema: Arc::new(OneKeyspace::default()),
        horizon: Arc::default(),
    };
    for refined in [false, true] {
        let options = HashedOptions {
            parts_log: 0,
            ..bundle(4, refined)
        };
        let hashed = HashedStructure::create(home.clone(), options, 0).unwrap();
        for store in 0..8u64 {
            put(&hashed, 300 * store..300 * (store + 1)).unwrap();
            merge(&hashed).unwrap();
        }
        let version = hashed.version();
        let level = &version.parts[0].levels[0];
        assert!(level.runs.len() == 2 && level.filter.is_some());
        // The newer run loses a leaf. Lookups reach older records of the keys in this leaf only
        // through records of the newer run.
        let leaf = level.runs[1].run.leaf(1).unwrap();
        flip(&directory, leaf.offset);
        home.store.cache().discard(&leaf);
        let report = hashed.repair().unwrap();
        assert_eq!((report.runs, report.gone.len()), (1, 1), "{report:?}");
        let version = hashed.version();
        assert!(version.parts[0].levels[0].filter.is_none(), "refined: {refined}");
        assert_eq!(check(&home, &hashed), Vec::<String>::new());
        for number in 0..1200 {
            assert!(
                get(&hashed, number).unwrap().is_some(),
                "{number} of the older run"
            );
        }
    }
}
