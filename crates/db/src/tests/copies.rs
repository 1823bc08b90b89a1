//! Tests copying, restoring, damaged extent maps and read-only opening on a store that contains
//! every persistent structure.

use super::{directories, memory, one_of_each, pairs, small, spread};
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::db::Db;
use crate::error::ErrorKind;
use crate::options::KeyspaceOptions;
use crate::options::kind::StructureKind;
use crate::schema::manifest::format::SuperblockPayload;
use alluvium_base::Purpose;
use alluvium_device::{Directory, FileAccessMode, FileOptions};
use alluvium_dictionary::blob::BlobRoot;
use alluvium_storage::superblock::SuperblockFile;
use alluvium_storage::{DiskLocation, PageSize};
use std::collections::BTreeMap;
use std::sync::Arc;

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Checks that a store is intact and returns its contents.
fn contents(db: &Db) -> Contents {
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    let of = |name: String| {
        let found = pairs(&db.existing_keyspace(&name).unwrap());
        (name, found)
    };
    db.keyspaces().into_iter().map(of).collect()
}

/// Writes records to a keyspace of each kind. With few records, the map fits into its root; with
/// many, it needs separate nodes.
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
    for (count, tiers) in [(10, 1), (60, 2), (3000, 1), (3000, 3)] {
        let directory = directories(tiers);
        let db = spread().open_in(&directory).unwrap();
        fill(&db, 0, count);
        db.compact().unwrap();
        // Earlier records were flushed. These are only in the log.
        fill(&db, count, count + count / 2);
        let wanted = contents(&db);
        let copy = directories(tiers);
        db.checkpoint_to_in(&copy, |_| ()).unwrap();
        fill(&db, 0, 2 * count);
        let restored = directories(tiers);
        small().restore_in(&copy, &restored, |_| ()).unwrap();
        for directory in [copy, restored] {
            let reading = small().open_read_only_in(&directory).unwrap();
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

/// Truncates the extent map's file in the middle.
fn damage_the_map(directory: &Arc<dyn Directory>) {
    let names = directory.list().unwrap();
    let map = names.iter().find(|name| name.starts_with("extents-")).unwrap();
    let file = directory.open(map, FileOptions::BUFFERED).unwrap();
    file.truncate(16).unwrap();
}

#[test]
fn an_extent_map_is_rebuilt_from_both_kinds() {
    for (count, tiers) in [(10, 1), (3000, 1), (3000, 2)] {
        let directory = directories(tiers);
        let db = spread().open_in(&directory).unwrap();
        fill(&db, 0, count);
        db.compact().unwrap();
        let wanted = contents(&db);
        db.close().unwrap();
        damage_the_map(directory.first());
        let reading = small().open_read_only_in(&directory).unwrap();
        for (name, pairs_wanted) in &wanted {
            assert_eq!(&pairs(&reading.existing_keyspace(name).unwrap()), pairs_wanted);
        }
        drop(reading);
        let report = small().repair_in(&directory).unwrap();
        assert!(report.is_whole(), "{report}");
        assert!(!report.done.is_empty(), "{report}");
        let db = small().open_existing_in(directory).unwrap();
        assert_eq!(contents(&db), wanted);
        // Check that new writes do not overwrite extents in use.
        fill(&db, count, 2 * count);
        db.checkpoint().unwrap();
        contents(&db);
    }
}

/// Flips a bit in the first page that a map's root refers to.
fn damage_the_contents(directory: &Arc<dyn Directory>) {
    let pointer = {
        let file = SuperblockFile::open(&**directory, FileAccessMode::ReadOnly).unwrap();
        let place = DiskLocation::new(alluvium_storage::OnDiskObject::Superblock, "superblock", 0);
        let payload = SuperblockPayload::decode(&file.durable().payload, &place, PageSize::MIN).unwrap();
        let SuperblockPayload::Inline(manifest) = payload else {
            panic!("two roots fit the superblock");
        };
        let root = &manifest.entry(StructureKind::Map.dictionary()).unwrap().root;
        match BlobRoot::decode(root, &place, PageSize::MIN).unwrap() {
            BlobRoot::Apart(pointer) => pointer,
            BlobRoot::Here(_) => panic!("there is more than fits a root"),
        }
    };
    let file = directory.open("tier-0.data", FileOptions::BUFFERED).unwrap();
    let offset = pointer.node.offset;
    let mut page = file.read_at(offset, 4096, Purpose::Check).unwrap();
    page[100] ^= 1;
    file.write_at(offset, page, Purpose::Check).unwrap();
}

#[test]
fn a_map_that_cannot_be_read_is_given_up_by_a_repair_and_the_rest_is_kept() {
    for rest in [0, 40] {
        let directory = memory();
        let db = small().open_in(Arc::clone(&directory)).unwrap();
        fill(&db, 0, 3000);
        let wanted = contents(&db);
        // Put the damaged page into both generations.
        db.compact().unwrap();
        db.checkpoint().unwrap();
        if rest > 0 {
            // These records are only in the log.
            for keyspace in one_of_each(&db, &KeyspaceOptions::new()) {
                for number in 0..rest {
                    keyspace
                        .put([b"new", &u32::to_be_bytes(number)[..]].concat(), "1")
                        .unwrap();
                }
            }
            db.abandon();
            drop(db);
        } else {
            db.close().unwrap();
        }
        damage_the_contents(&directory);
        let refused = small().open_existing_in(Arc::clone(&directory)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        let report = small().repair_in(Arc::clone(&directory)).unwrap();
        assert!(report.left.is_empty(), "{report}");
        assert_eq!(report.lost.len(), 1, "{report}");
        assert!(report.lost[0].starts_with("keyspace Map, keys from"), "{report}");
        let db = small().open_existing_in(Arc::clone(&directory)).unwrap();
        let mut found = contents(&db);
        for (name, kept) in [("Tiered", wanted["Tiered"].len()), ("Map", 0)] {
            let pairs = found.get_mut(name).unwrap();
            assert_eq!(pairs.len(), kept + rest as usize, "{name}: {report}");
            pairs.retain(|key, _| !key.starts_with(b"new"));
        }
        assert_eq!(found["Tiered"], wanted["Tiered"]);
        fill(&db, 0, 3000);
        assert_eq!(contents(&db)["Map"].len(), wanted["Map"].len() + rest as usize);
        db.close().unwrap();
        contents(&small().open_existing_in(directory).unwrap());
    }
}

#[test]
fn a_check_says_how_much_of_a_manifest_it_has_read() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let manifest = |db: &Db| {
        let report = db.check_report(|_| ()).unwrap();
        assert!(report.is_whole(), "{report}");
        let of = report.read.iter().find(|structure| structure.name == "manifest");
        of.map(|structure| (structure.nodes > 0, structure.bytes > 0))
            .unwrap()
    };
    fill(&db, 0, 10);
    db.checkpoint().unwrap();
    assert_eq!(manifest(&db), (false, false), "it is in the superblock");
    // The map now fits into its root, but the root does not fit into the superblock.
    fill(&db, 10, 70);
    db.checkpoint().unwrap();
    assert_eq!(manifest(&db), (true, true));
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
    assert!(!db.keyspaces().contains(&"Map".to_owned()));
    // The number of a dropped keyspace is not reused. The map structure is, but it is empty.
    let again = one_of_each(&db, &KeyspaceOptions::new());
    let map = again.iter().find(|keyspace| keyspace.name() == "Map").unwrap();
    let lasting = StructureKind::ALL
        .into_iter()
        .filter(|structure| structure.lasts());
    assert_eq!(map.number() as usize, lasting.count() + 1);
    assert_eq!(pairs(map), BTreeMap::new());
    map.put("key", "value").unwrap();
    db.close().unwrap();
    let db = open();
    assert_eq!(pairs(&db.existing_keyspace("Map").unwrap()).len(), 1);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}
