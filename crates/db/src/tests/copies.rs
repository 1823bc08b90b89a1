//! Copies, restored stores, damaged maps and read-only openings of a store with both kinds of
//! structures.

use super::{memory, one_of_each, pairs, small};
use crate::simulation::{OpenIn as _, Simulated as _};
use crate::{Db, KeyspaceOptions};
use alluvium_device::{Directory, FileOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// What a store holds, which must be sound.
fn contents(db: &Db) -> Contents {
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    let of = |name: String| {
        let found = pairs(&db.existing_keyspace(&name).unwrap());
        (name, found)
    };
    db.keyspaces().into_iter().map(of).collect()
}

/// Fills a keyspace of each kind: with so little that a root holds all of it, or with so much that
/// it is in nodes of its own.
fn fill(db: &Db, from: u32, to: u32) {
    for keyspace in one_of_each(db, &KeyspaceOptions::new()) {
        for number in from..to {
            keyspace
                .put(number.to_be_bytes(), vec![number as u8; 90])
                .unwrap();
            if number % 3 == 0 {
                keyspace.delete((number / 2).to_be_bytes()).unwrap();
            }
        }
    }
}

#[test]
fn a_copy_holds_both_kinds_and_is_restored() {
    for count in [10, 60, 3000] {
        let directory = memory();
        let db = small().open_in(Arc::clone(&directory)).unwrap();
        fill(&db, 0, count);
        db.checkpoint().unwrap();
        // Written out before, and only in the log.
        fill(&db, count, count + count / 2);
        let wanted = contents(&db);
        let copy = memory();
        db.checkpoint_to_in(&copy, |_| ()).unwrap();
        fill(&db, 0, 2 * count);
        let restored = memory();
        small().restore_in(&copy, &restored, |_| ()).unwrap();
        for directory in [copy, restored] {
            let reading = small().open_read_only_in(Arc::clone(&directory)).unwrap();
            assert_eq!(contents(&reading), wanted, "{count}");
            drop(reading);
            let db = small().open_existing_in(directory).unwrap();
            assert_eq!(contents(&db), wanted, "{count}");
            fill(&db, 0, 2 * count);
            db.compact().unwrap();
            contents(&db);
        }
        db.close().unwrap();
        let db = small().open_existing_in(directory).unwrap();
        contents(&db);
    }
}

/// Cuts the extent map off in its middle.
fn damage_the_map(directory: &Arc<dyn Directory>) {
    let names = directory.list().unwrap();
    let map = names.iter().find(|name| name.starts_with("extents-")).unwrap();
    let file = directory.open(map, FileOptions::BUFFERED).unwrap();
    file.truncate(16).unwrap();
}

#[test]
fn an_extent_map_is_rebuilt_from_both_kinds() {
    for count in [10, 3000] {
        let directory = memory();
        let db = small().open_in(Arc::clone(&directory)).unwrap();
        fill(&db, 0, count);
        let wanted = contents(&db);
        db.close().unwrap();
        damage_the_map(&directory);
        let reading = small().open_read_only_in(Arc::clone(&directory)).unwrap();
        for (name, pairs_wanted) in &wanted {
            assert_eq!(&pairs(&reading.existing_keyspace(name).unwrap()), pairs_wanted);
        }
        drop(reading);
        let report = small().repair_in(Arc::clone(&directory)).unwrap();
        assert!(report.is_whole(), "{report}");
        assert!(!report.done.is_empty(), "{report}");
        let db = small().open_existing_in(directory).unwrap();
        assert_eq!(contents(&db), wanted);
        // What is written now takes no space that is in use.
        fill(&db, count, 2 * count);
        db.checkpoint().unwrap();
        contents(&db);
    }
}

#[test]
fn where_a_keyspace_was_is_forgotten_once_nothing_is_left_of_it() {
    let directory = memory();
    let open = || small().open_in(Arc::clone(&directory)).unwrap();
    let db = open();
    fill(&db, 0, 100);
    db.drop_keyspace("Map").unwrap();
    db.close().unwrap();
    let db = open();
    assert_eq!(db.keyspaces(), ["Tiered"]);
    // The number is not used again; the map is, which is empty.
    let again = one_of_each(&db, &KeyspaceOptions::new());
    assert_eq!(again[1].number(), 3);
    assert_eq!(pairs(&again[1]), BTreeMap::new());
    again[1].put("key", "value").unwrap();
    db.close().unwrap();
    let db = open();
    assert_eq!(pairs(&db.existing_keyspace("Map").unwrap()).len(), 1);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}
