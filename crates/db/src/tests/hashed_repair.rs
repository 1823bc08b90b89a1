//! Tests repairing stores with hashed keyspaces, with damage at every position of their data files.

use super::{directories, hashed_of, memory, pairs, small, spread};
use crate::admin::repair::RepairReport;
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::admin::tiers::overlaid;
use crate::db::Db;
use crate::error::ErrorKind;
use crate::options::{HashedForm, HashedOptions, KeyspaceOptions, Structure};
use alluvium_base::Purpose;
use alluvium_device::{Directory, FileOptions};
use alluvium_sim::environment::effort;
use alluvium_storage::TierDirectories;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PAGE: u64 = 4096;
const NAMES: [&str; 3] = ["k", "other", "tree"];

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn trie() -> KeyspaceOptions {
    KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::trie()))
}

fn boa(refined: bool) -> KeyspaceOptions {
    let form = HashedForm::Boa { lambda: 4, refined };
    KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::default().form(form)))
}

fn bot() -> KeyspaceOptions {
    let form = HashedForm::Bot { lambda: 4 };
    KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::default().form(form)))
}

/// Creates a store with two hashed keyspaces and one in the tree. Some hashed records are in the
/// sorted store, others in a hash store. Some keys and values are stored separately from their
/// records. Returns the contents of the keyspaces.
fn filled(directories: &TierDirectories, options: &KeyspaceOptions) -> BTreeMap<&'static str, Pairs> {
    let db = spread().open_in(directories.clone()).unwrap();
    let k = db.keyspace_with("k", options).unwrap();
    let other = db.keyspace_with("other", options).unwrap();
    let tree = db.keyspace("tree").unwrap();
    for number in 0..600u32 {
        k.put(number.to_be_bytes(), [b'v'; 80]).unwrap();
        other.put(format!("other {number}"), "value").unwrap();
        tree.put(number.to_be_bytes(), "v").unwrap();
    }
    for number in 0..6u8 {
        k.put([number; 3000], [number; 9]).unwrap();
        k.put([b'l', number], [number; 9000]).unwrap();
    }
    db.compact().unwrap();
    let young = (0..300u32).map(|number| ((2 * number).to_be_bytes(), [b'w'; 80]));
    k.ingest(young).unwrap();
    // Two checkpoints give both generations the same runs, so that a repair cannot avoid the damage
    // by using the older generation.
    tree.put("later", "v").unwrap();
    db.checkpoint().unwrap();
    tree.put("last", "v").unwrap();
    db.checkpoint().unwrap();
    let all = NAMES.map(|name| (name, pairs(&db.existing_keyspace(name).unwrap())));
    db.close().unwrap();
    all.into_iter().collect()
}

/// Returns the number of pages of a file.
fn pages(directory: &Arc<dyn Directory>, name: &str) -> u64 {
    directory
        .open(name, FileOptions::BUFFERED)
        .unwrap()
        .len()
        .div_ceil(PAGE)
}

/// Changes a byte in a page of the data file. Returns whether the page contains data.
fn damage(directory: &Arc<dyn Directory>, page: u64) -> bool {
    damage_of(directory, "tier-0.data", page)
}

/// Changes a byte in a page of any file. Returns whether the page contains data.
fn damage_of(directory: &Arc<dyn Directory>, name: &str, page: u64) -> bool {
    let file = directory.open(name, FileOptions::BUFFERED).unwrap();
    let len = PAGE.min(file.len() - page * PAGE) as usize;
    let mut bytes = file.read_at(page * PAGE, len, Purpose::Check).unwrap();
    let Some(at) = bytes.iter().position(|&byte| byte != 0) else {
        return false;
    };
    bytes[at] ^= 0x40;
    file.write_at(page * PAGE, bytes, Purpose::Check).unwrap();
    true
}

/// Repairs a store and returns the report. Returns `None` if the damaged tree leaf is the one that
/// contains the catalog, because no keyspace is known without it.
fn repaired(directories: &TierDirectories) -> Option<RepairReport> {
    match small().repair_in(directories.clone()) {
        Ok(report) => Some(report),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            None
        }
    }
}

/// Returns the keys of a keyspace that are missing or have a different value after a repair.
fn differing(before: &Pairs, after: &Pairs) -> BTreeSet<Vec<u8>> {
    assert!(
        after.keys().all(|key| before.contains_key(key)),
        "a key from nowhere"
    );
    let differs = |(key, value): &(&Vec<u8>, &Vec<u8>)| after.get(*key) != Some(*value);
    let differing = before.iter().filter(differs);
    differing.map(|(key, _)| key.clone()).collect()
}

/// Returns the kinds of loss that a repair report mentions.
fn kinds(report: &RepairReport) -> impl Iterator<Item = &'static str> {
    const KINDS: [&str; 5] = [
        "all records of part",
        "all records of a hash store",
        "records of part",
        "records of a hash store",
        "a value in",
    ];
    let kind = |sentence: &String| KINDS.into_iter().find(|kind| sentence.contains(kind));
    report.lost.iter().filter_map(kind)
}

fn all(db: &Db) -> BTreeMap<&'static str, Pairs> {
    let of = |name| (name, pairs(&db.existing_keyspace(name).unwrap()));
    NAMES.map(of).into_iter().collect()
}

/// Panics unless a report mentions all losses of a keyspace and the losses are small.
fn is_told(name: &str, [before, after]: [&Pairs; 2], report: &RepairReport) {
    let differing = differing(before, after);
    let begin = format!("keyspace {name}, ");
    let told = report.lost.iter().filter(|told| told.starts_with(&begin));
    let told: Vec<&String> = told.collect();
    assert!(
        differing.is_empty() || !told.is_empty(),
        "{} keys of {name} differ, but {report}",
        differing.len()
    );
    if told.iter().all(|told| told.contains("a value in")) {
        // The report must name each key that differs.
        let names = |key: &Vec<u8>| {
            let from = format!("keys from \"{}\" ", key.escape_ascii());
            told.iter().any(|told| told.contains(&from))
        };
        assert!(differing.iter().all(names), "{report}");
    }
    // No more may be lost than a part of the sorted store, or a hash store with half of the keys.
    assert!(
        differing.len() < before.len() * 2 / 3,
        "{} of {name} differ",
        differing.len()
    );
}

#[test]
fn damage_to_any_page_loses_what_the_report_says_and_nothing_else() {
    damage_any_page(&trie(), 1);
}

#[test]
fn damage_to_any_page_on_two_tiers_loses_what_the_report_says_and_nothing_else() {
    for options in [trie(), boa(true)] {
        damage_any_page(&options, 2);
    }
}

#[test]
fn damage_to_any_page_of_a_bundle_of_arrays_loses_what_the_report_says_and_nothing_else() {
    for refined in [false, true] {
        damage_any_page(&boa(refined), 1);
    }
}

#[test]
fn damage_to_any_page_of_a_bundle_of_trees_loses_what_the_report_says_and_nothing_else() {
    damage_any_page(&bot(), 1);
}

fn damage_any_page(options: &KeyspaceOptions, tiers: usize) {
    let own = directories(tiers);
    let before = filled(&own, options);
    // To save time, damage only some of the pages unless the tests run with full effort.
    let every = effort(5, 1);
    let all_pages = (0..tiers as u8).flat_map(|tier| {
        let name = format!("tier-{tier}.data");
        let pages = pages(own.get(tier).unwrap(), &name);
        let pages = (0..pages).step_by(every);
        pages.map(move |page| (tier, page))
    });
    let (mut met, mut damaged, mut refused) = (BTreeSet::new(), 0, 0);
    for (tier, page) in all_pages {
        let directories = overlaid(&own).unwrap();
        if !damage_of(directories.get(tier).unwrap(), &format!("tier-{tier}.data"), page) {
            continue;
        }
        let page = format!("{page} of tier {tier}");
        damaged += 1;
        let Some(report) = repaired(&directories) else {
            refused += 1;
            continue;
        };
        if !report.left.is_empty() {
            // A repair leaves a damaged tree leaf unchanged.
            let is_of_tree = |left: &String| left.contains("each behind the number of its keyspace");
            assert!(report.left.iter().all(is_of_tree), "page {page}: {report}");
            continue;
        }
        met.extend(kinds(&report));
        let db = small().open_existing_in(directories).unwrap();
        if NAMES.iter().any(|name| db.existing_keyspace(name).is_err()) {
            // The tree has lost the run that contains the catalog.
            assert!(!report.lost.is_empty(), "page {page}");
            refused += 1;
            continue;
        }
        let after = all(&db);
        assert!(
            after["tree"] == before["tree"] || !report.lost.is_empty(),
            "page {page}: {report}"
        );
        let lost = [&before, &after].map(|of| of["k"].len() + of["other"].len());
        for name in ["k", "other"] {
            is_told(name, [&before[name], &after[name]], &report);
        }
        assert!(lost[1] * 10 > lost[0] * 8, "page {page}: {lost:?}, {report}");
        assert_eq!(db.check().unwrap(), Vec::<String>::new(), "page {page}");
        // Check that merges and iterators still work after the repair.
        db.compact().unwrap();
        assert_eq!(all(&db), after, "page {page}");
        db.close().unwrap();
    }
    assert!(
        damaged > 40 / every && refused < 6,
        "{damaged} pages, {refused} refused"
    );
    let all = [
        "a value in",
        "all records of a hash store",
        "all records of part",
        "records of a hash store",
        "records of part",
    ];
    assert!(every > 1 || met.iter().copied().eq(all), "{met:?}");
}

#[test]
fn a_part_that_is_lost_has_again_what_hash_stores_still_have_of_it() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let k = db.keyspace_with("k", &trie()).unwrap();
    for number in 0..800u32 {
        k.put(number.to_be_bytes(), "old").unwrap();
    }
    db.compact().unwrap();
    for round in 0..4u32 {
        k.ingest((0..200u32).map(|number| ((4 * number + round).to_be_bytes(), "new")))
            .unwrap();
    }
    // Stop when one part has absorbed the hash stores but the others have not yet.
    let structure = hashed_of(&db);
    let mut step = alluvium_dictionary::contract::Dictionary::next_step(structure)
        .unwrap()
        .unwrap();
    while step.poll(10_000).unwrap() == alluvium_dictionary::contract::StepProgress::More {}
    drop(step);
    assert_eq!(structure.hash_store_count(), 4);
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    db.abandon();
    drop((k, db));
    let pages = directory
        .open("tier-0.data", FileOptions::BUFFERED)
        .unwrap()
        .len()
        / PAGE;
    let (mut met, mut refused) = (0, 0);
    for page in 0..pages {
        let directories = overlaid(&TierDirectories::from(Arc::clone(&directory))).unwrap();
        if !damage(directories.first(), page) {
            continue;
        }
        let Some(report) = repaired(&directories) else {
            refused += 1;
            continue;
        };
        let db = small().open_existing_in(directories).unwrap();
        if report
            .lost
            .iter()
            .any(|told| told.contains("all records of part 1 of 16"))
        {
            met += 1;
            let found = pairs(&db.existing_keyspace("k").unwrap());
            assert_eq!(found.len(), 800, "every key of the part is in a hash store");
            assert!(found.values().all(|value| value == b"new"), "{report}");
        }
        db.close().unwrap();
    }
    assert!(
        met > 0 && refused < 6,
        "the description of the first part was damaged"
    );
}

#[test]
fn a_structure_whose_list_of_runs_cannot_be_read_is_given_up_and_the_rest_is_kept() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let k = db.keyspace_with("k", &trie()).unwrap();
    let tree = db.keyspace("tree").unwrap();
    tree.put("a", "v").unwrap();
    // Create 100 runs, so that their list is stored separately from the root.
    for load in 0..100u32 {
        k.ingest([(load.to_be_bytes(), "loaded")]).unwrap();
    }
    db.checkpoint().unwrap();
    tree.put("later", "v").unwrap();
    db.checkpoint().unwrap();
    k.put("new", "1").unwrap();
    db.abandon();
    drop((k, tree, db));
    let pages = directory
        .open("tier-0.data", FileOptions::BUFFERED)
        .unwrap()
        .len()
        / PAGE;
    let (mut met, mut refused) = (0, 0);
    for page in 0..pages {
        let directories = overlaid(&TierDirectories::from(Arc::clone(&directory))).unwrap();
        if !damage(directories.first(), page) {
            continue;
        }
        let opened = small().open_existing_in(overlaid(&directories).unwrap());
        let is_refused = opened.is_err_and(|error| error.kind() == ErrorKind::Corrupt);
        let Some(report) = repaired(&directories) else {
            refused += 1;
            continue;
        };
        if !report
            .lost
            .iter()
            .any(|told| told.contains("all but the newest writes"))
        {
            continue;
        }
        met += 1;
        assert!(is_refused, "page {page}");
        assert_eq!(report.lost.len(), 1, "{report}");
        assert!(report.lost[0].starts_with("keyspace k, keys from"), "{report}");
        let db = small().open_existing_in(directories.clone()).unwrap();
        let k = db.keyspace_with("k", &trie()).unwrap();
        assert_eq!(pairs(&k).into_keys().collect::<Vec<_>>(), [b"new"]);
        assert_eq!(pairs(&db.existing_keyspace("tree").unwrap()).len(), 2);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        k.put("again", "2").unwrap();
        db.close().unwrap();
        let db = small().open_existing_in(directories).unwrap();
        assert_eq!(pairs(&db.existing_keyspace("k").unwrap()).len(), 2);
    }
    assert!(met > 0 && refused < 6, "the list was damaged");
}

#[test]
fn damage_to_any_other_file_loses_nothing_that_the_report_does_not_say() {
    let directory = memory();
    let before = filled(&TierDirectories::from(Arc::clone(&directory)), &trie());
    let mut met = BTreeSet::new();
    for name in directory.list().unwrap() {
        if name == "tier-0.data" {
            continue;
        }
        for page in 0..pages(&directory, &name).min(12) {
            let directories = overlaid(&TierDirectories::from(Arc::clone(&directory))).unwrap();
            if !damage_of(directories.first(), &name, page) {
                continue;
            }
            met.insert(name.split(['-', '.']).next().unwrap().to_owned());
            let report = match small().repair_in(directories.clone()) {
                Ok(report) => report,
                // The damaged page contained the identity of the store, which cannot be repaired
                // without it.
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}, page {page}: {error}");
                    continue;
                }
            };
            let db = small().open_existing_in(directories).unwrap();
            let after = all(&db);
            assert!(
                after == before || !report.lost.is_empty(),
                "{name}, page {page}: {report}"
            );
            assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{name}, page {page}");
            db.close().unwrap();
        }
    }
    for kind in ["superblock", "extents"] {
        assert!(met.contains(kind), "{met:?}");
    }
}
