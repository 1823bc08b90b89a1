//! Tests of the separate page files: copying them, damage to them, and their removal.

use super::{memory, pairs, small, tiny};
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::db::Db;
use crate::error::ErrorKind;
use crate::keyspace::Keyspace;
use crate::options::{KeyspaceOptions, Options, PagedOptions, Structure};
use alluvium_base::Purpose;
use alluvium_device::{Directory, FileOptions};
use alluvium_storage::TierDirectories;
use std::collections::BTreeMap;
use std::sync::Arc;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

const PAGE: u64 = 512;
const FIRST_PAGE: u64 = 8192;

fn trees() -> [PagedOptions; 2] {
    let small = |options: PagedOptions| options.node_bytes(PAGE as u32).key_bytes(16).value_bytes(40);
    [small(PagedOptions::beps()), small(PagedOptions::bplus()).merge()]
}

fn keyspace(db: &Db, name: &str, tree: PagedOptions) -> Keyspace {
    let options = KeyspaceOptions::new().structure(Structure::Paged(tree));
    db.keyspace_with(name, &options).unwrap()
}

fn fill(keyspace: &Keyspace, count: u32, word: &str) {
    for number in 0..count {
        let value = word.repeat(if number % 50 == 0 { 300 } else { 3 });
        keyspace
            .put((number * 7919 % count).to_be_bytes(), value)
            .unwrap();
    }
}

fn names(directory: &Arc<dyn Directory>) -> Vec<String> {
    let names = directory.list().unwrap();
    names
        .into_iter()
        .filter(|name| name.starts_with("paged."))
        .collect()
}

fn sound(db: &Db) {
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

/// Flips a bit in each of these pages.
fn damage(directory: &Arc<dyn Directory>, pages: impl Iterator<Item = u64>) {
    let file = directory.open("paged.pages", FileOptions::BUFFERED).unwrap();
    for page in pages {
        let offset = FIRST_PAGE + page * PAGE;
        let mut bytes = file.read_at(offset, PAGE as usize, Purpose::Check).unwrap();
        bytes[300] ^= 4;
        file.write_at(offset, bytes, Purpose::Check).unwrap();
    }
}

fn copy_of(db: &Db) -> Arc<dyn Directory> {
    let copy = memory();
    db.checkpoint_to_in(TierDirectories::from(Arc::clone(&copy)), |_| ())
        .unwrap();
    copy
}

#[test]
fn a_copy_is_of_one_moment_though_pages_are_written_over_meanwhile() {
    for tree in trees() {
        let db = tiny().open_in(memory()).unwrap();
        let k = keyspace(&db, "k", tree);
        fill(&k, 3000, "old");
        db.checkpoint().unwrap();
        fill(&k, 500, "mid");
        db.checkpoint().unwrap();
        let wanted = pairs(&k);
        let (copy, mut round) = (memory(), 0);
        db.checkpoint_to_in(TierDirectories::from(Arc::clone(&copy)), |_| {
            round += 1;
            if round <= 6 {
                fill(&k, 3000, ["new", "newer"][round % 2]);
                k.delete((round as u32).to_be_bytes()).unwrap();
                db.checkpoint().unwrap();
            }
        })
        .unwrap();
        assert!(round > 3, "{round} reports");
        let again = tiny().open_existing_in(Arc::clone(&copy)).unwrap();
        assert_eq!(pairs(&again.existing_keyspace("k").unwrap()), wanted);
        sound(&again);
        // No old version is retained, so the journal contains only the space reserved for a slice.
        let journals = || db.engine().dictionaries.paged().journal_bytes();
        for _ in 0..4 {
            k.put("key", "value").unwrap();
            db.checkpoint().unwrap();
        }
        assert!(journals() <= 2 * 1400 * (512 + PAGE), "{} bytes", journals());
        // A copy is an independent store that can itself be copied.
        let k = again.existing_keyspace("k").unwrap();
        fill(&k, 3000, "third");
        let wanted = pairs(&k);
        let third = copy_of(&again);
        again.close().unwrap();
        let third = tiny().open_existing_in(third).unwrap();
        assert_eq!(pairs(&third.existing_keyspace("k").unwrap()), wanted);
    }
}

#[test]
fn what_can_be_read_of_damaged_pages_is_saved() {
    for tree in trees() {
        let db = tiny().open_in(memory()).unwrap();
        let k = keyspace(&db, "k", tree);
        db.keyspace("tiered").unwrap().put("key", "value").unwrap();
        fill(&k, 3000, "old");
        let wanted = pairs(&k);
        let pages = {
            db.checkpoint().unwrap();
            db.engine().dictionaries.paged().statistics().pages
        };
        let mut saved = Vec::new();
        for every in [pages / 2 + 1, 40, 7] {
            let directory = copy_of(&db);
            damage(&directory, (1..pages).filter(|page| page % every == every / 2));
            // A check finds the damage, and copying the store fails.
            let reading = tiny()
                .open_read_only_in(TierDirectories::from(Arc::clone(&directory)))
                .unwrap();
            assert!(!reading.check().unwrap().is_empty());
            assert!(
                reading
                    .checkpoint_to_in(TierDirectories::from(memory()), |_| ())
                    .is_err()
            );
            drop(reading);
            let report = tiny().repair_in(Arc::clone(&directory)).unwrap();
            assert!(!report.lost.is_empty() && report.left.is_empty(), "{report}");
            assert!(
                report
                    .lost
                    .iter()
                    .all(|lost| lost.contains("keyspace k, keys from")),
                "{report}"
            );
            let db = tiny().open_existing_in(directory).unwrap();
            sound(&db);
            let k = db.existing_keyspace("k").unwrap();
            let found = pairs(&k);
            saved.push(found.len());
            assert!(
                found.iter().all(|(key, value)| wanted.get(key) == Some(value)),
                "{report}"
            );
            assert_eq!(
                db.keyspace("tiered").unwrap().get("key").unwrap().unwrap(),
                b"value"
            );
            fill(&k, 3000, "new");
            db.compact().unwrap();
            assert_eq!(pairs(&k).len(), 3000);
            sound(&db);
            db.close().unwrap();
        }
        assert!(
            saved[0] > 2000 && saved.is_sorted_by(|more, less| more >= less),
            "{saved:?}"
        );
    }
}

/// Checks that a damaged store does not open, then repairs it and checks that the report mentions
/// the loss of keyspace `k`.
fn given_up(options: &Options, directory: &Arc<dyn Directory>, why: &str) {
    let refused = options
        .clone()
        .open_existing_in(Arc::clone(directory))
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    assert!(refused.to_string().contains(why), "{refused}");
    let report = options.repair_in(Arc::clone(directory)).unwrap();
    assert_eq!(report.lost.len(), 1, "{report}");
    assert!(
        report.lost[0].contains("keyspace k, keys from") && report.left.is_empty(),
        "{report}"
    );
    let db = options.clone().open_existing_in(Arc::clone(directory)).unwrap();
    sound(&db);
    let k = db.existing_keyspace("k").unwrap();
    assert_eq!(pairs(&k), Pairs::new());
    assert_eq!(
        db.keyspace("tiered").unwrap().get("key").unwrap().unwrap(),
        b"value"
    );
    fill(&k, 100, "new");
    assert_eq!(pairs(&k).len(), 100);
    db.close().unwrap();
}

#[test]
fn pages_that_are_not_there_or_of_another_store_are_refused_and_given_up() {
    let store = || {
        let directory = memory();
        let db = tiny().open_in(Arc::clone(&directory)).unwrap();
        db.keyspace("tiered").unwrap().put("key", "value").unwrap();
        fill(&keyspace(&db, "k", trees()[0]), 500, "old");
        db.close().unwrap();
        directory
    };
    for missing in ["paged.pages", "paged.pages.0", "paged.pages.1"] {
        let directory = store();
        directory.remove(missing).unwrap();
        given_up(&tiny(), &directory, missing);
    }
    let (directory, other) = (store(), memory());
    let others = small().open_in(Arc::clone(&other)).unwrap();
    fill(&keyspace(&others, "k", trees()[0]), 500, "other");
    others.close().unwrap();
    for name in names(&other) {
        directory.remove(&name).unwrap();
        let file = other.open(&name, FileOptions::BUFFERED).unwrap();
        let copy = directory.create(&name, FileOptions::BUFFERED).unwrap();
        copy.grow(file.len()).unwrap();
        copy.copy_from(&*file, 0..file.len(), Purpose::Check).unwrap();
    }
    given_up(&tiny(), &directory, "of store");
    // Replace the file by an older one, which does not have some pages that the store refers to.
    let (directory, copy) = (memory(), memory());
    let db = tiny().open_in(Arc::clone(&directory)).unwrap();
    let k = keyspace(&db, "k", trees()[0]);
    db.keyspace("tiered").unwrap().put("key", "value").unwrap();
    fill(&k, 300, "old");
    db.checkpoint().unwrap();
    let old = directory.open("paged.pages", FileOptions::BUFFERED).unwrap();
    let kept = copy.create("kept", FileOptions::BUFFERED).unwrap();
    kept.grow(old.len()).unwrap();
    kept.copy_from(&*old, 0..old.len(), Purpose::Check).unwrap();
    for round in ["new", "newer", "newest"] {
        fill(&k, 300, round);
        db.checkpoint().unwrap();
    }
    drop(k);
    db.close().unwrap();
    old.truncate(kept.len().min(old.len())).unwrap();
    old.copy_from(&*kept, 0..kept.len().min(old.len()), Purpose::Check)
        .unwrap();
    given_up(&tiny(), &directory, "checkpoint");
}

#[test]
fn the_files_go_when_no_keyspace_is_in_them_and_come_again() {
    let directory = memory();
    let open = || tiny().open_in(Arc::clone(&directory)).unwrap();
    let db = open();
    assert_eq!(names(&directory), Vec::<String>::new());
    fill(&keyspace(&db, "k", trees()[0]), 1000, "old");
    fill(&keyspace(&db, "other", trees()[0]), 10, "old");
    db.drop_keyspace("k").unwrap();
    db.close().unwrap();
    let db = open();
    assert_eq!(names(&directory).len(), 3, "another keyspace is in them");
    db.drop_keyspace("other").unwrap();
    db.close().unwrap();
    // The durable generation lists the files, so a new keyspace uses them.
    let db = open();
    assert_eq!(names(&directory).len(), 3);
    let copied = tiny().open_existing_in(copy_of(&db)).unwrap();
    sound(&copied);
    db.abandon();
    drop(db);
    let db = open();
    let k = keyspace(&db, "again", trees()[0]);
    fill(&k, 300, "new");
    let wanted = pairs(&k);
    sound(&db);
    db.abandon();
    drop((k, db));
    let db = open();
    assert_eq!(pairs(&db.existing_keyspace("again").unwrap()), wanted);
    sound(&db);
    db.drop_keyspace("again").unwrap();
    db.close().unwrap();
    let db = open();
    db.keyspace("tiered").unwrap().put("key", "value").unwrap();
    db.checkpoint().unwrap();
    assert_eq!(names(&directory), Vec::<String>::new());
    sound(&db);
    // No keyspace uses the files any more, so new keyspaces may have other options.
    let k = keyspace(&db, "k", trees()[1]);
    fill(&k, 300, "new");
    let wanted = pairs(&k);
    db.abandon();
    drop((k, db));
    let db = open();
    assert_eq!(pairs(&db.existing_keyspace("k").unwrap()), wanted);
    db.close().unwrap();
}

#[test]
fn files_that_no_generation_lists_are_in_the_way_of_nothing() {
    let directory = memory();
    let db = tiny().open_in(Arc::clone(&directory)).unwrap();
    db.keyspace("tiered").unwrap().put("key", "value").unwrap();
    db.close().unwrap();
    for name in ["paged.pages", "paged.pages.0"] {
        directory
            .create(name, FileOptions::BUFFERED)
            .unwrap()
            .grow(4096)
            .unwrap();
    }
    let db = tiny().open_in(Arc::clone(&directory)).unwrap();
    let k = keyspace(&db, "k", trees()[0]);
    k.put("key", "value").unwrap();
    sound(&db);
    db.close().unwrap();
    directory.remove("paged.pages").unwrap();
    // An interrupted creation leaves no files behind.
    let cut = memory();
    cut.create("paged.pages", FileOptions::BUFFERED).unwrap();
    let error = tiny().open_in(Arc::clone(&cut)).unwrap_err().to_string();
    assert!(error.contains("paged.pages"), "{error}");
}

#[test]
fn pages_count_within_the_memory_of_the_store() {
    let db = small().open_in(memory()).unwrap();
    let before = db.stats().memory;
    let k = keyspace(&db, "k", trees()[0]);
    fill(&k, 1000, "old");
    db.compact().unwrap();
    let few = db.stats().memory;
    assert!(few.tree > before.tree, "{before:?}, {few:?}");
    fill(&k, 60_000, "new");
    db.compact().unwrap();
    let many = db.stats().memory;
    assert!(many.tree >= few.tree + (2 << 20), "{few:?}, {many:?}");
    assert!(many.tree <= many.budget / 2, "{many:?}");
    assert!(many.total() <= many.budget, "{many:?}");
}
