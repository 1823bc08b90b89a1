//! Keyspaces without order, as a user chooses them.

use super::{memory, pairs, small, tiny};
use crate::manifest::format::Payload;
use crate::simulation::{OpenIn as _, Simulated as _};
use crate::{Change, Error, ErrorKind, HashedOptions, KeyspaceOptions, Structure, WriteBatch, structure};
use alluvium_base::Purpose;
use alluvium_device::{Access, Directory, FileOptions};
use alluvium_dictionary::blob::Root;
use alluvium_hashes::hashed::format::Contents;
use alluvium_storage::superblock::SuperblockFile;
use alluvium_storage::{NodePointer, PageSize, Place};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

fn hashed(options: HashedOptions) -> KeyspaceOptions {
    KeyspaceOptions::new()
        .structure(Structure::Hashed(options))
        .merge_operator("append")
}

#[test]
fn the_index_is_kept_and_one_store_has_one() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let trie = hashed(HashedOptions::trie());
    db.keyspace_with("blobs", &trie)
        .unwrap()
        .put("key", "value")
        .unwrap();
    let error = db
        .keyspace_with("other", &hashed(HashedOptions::pachash()))
        .unwrap_err();
    assert!(matches!(error, Error::OptionsDiffer { .. }), "{error}");
    assert_eq!(db.keyspaces(), ["blobs"], "what was refused is not there");
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    let blobs = db.keyspace_with("blobs", &trie).unwrap();
    assert_eq!(blobs.options(), &trie);
    assert_eq!(blobs.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(db.keyspace_with("second", &trie).is_ok());
}

#[test]
fn ordered_calls_say_that_there_is_no_order() {
    let db = small().open_in(memory()).unwrap();
    let k = db.keyspace_with("k", &hashed(HashedOptions::default())).unwrap();
    for number in 0..100 {
        k.put(number.to_string(), "v").unwrap();
    }
    let refused = |error: Error| {
        assert!(matches!(error, Error::NotOrdered { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("\"k\""), "{error}");
    };
    refused(k.iter().next().unwrap().unwrap_err());
    refused(k.range("1".."2").next_back().unwrap().unwrap_err());
    refused(k.prefix("1").next().unwrap().unwrap_err());
    refused(k.keys().next().unwrap().unwrap_err());
    refused(k.first().unwrap_err());
    refused(k.last().unwrap_err());
    let mut sought = k.iter();
    sought.seek("5");
    refused(sought.next().unwrap().unwrap_err());
    refused(k.delete_range("1", Some(b"2")).unwrap_err());
    refused(db.snapshot().iter(&k).next().unwrap().unwrap_err());
    let mut transaction = db.begin();
    transaction.put(&k, "own", "v").unwrap();
    refused(transaction.range(&k, "1".."2").next().unwrap().unwrap_err());
    refused(transaction.delete_range(&k, "1", Some(b"2")).unwrap_err());
    drop(transaction);
    let snapshot = db.snapshot();
    assert_eq!(pairs(&k).len(), 100);
    k.delete_range("", None).unwrap();
    assert_eq!(pairs(&k).len(), 0);
    assert_eq!(snapshot.unordered(&k).count(), 100);
}

#[test]
fn points_transactions_and_expiry_work_across_structures() {
    let db = small().open_in(memory()).unwrap();
    let k = db.keyspace_with("k", &hashed(HashedOptions::default())).unwrap();
    let tree = db.keyspace("tree").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&k, "both", "1").unwrap();
    batch.put(&tree, "both", "1").unwrap();
    db.write(&batch).unwrap();
    k.merge("both", "2").unwrap();
    assert!(k.compare_and_set("new", None, Some(b"1")).unwrap());
    assert!(!k.compare_and_set("new", None, Some(b"2")).unwrap());
    k.put_until("gone", "v", UNIX_EPOCH + Duration::from_secs(1))
        .unwrap();
    db.checkpoint().unwrap();
    let mut first = db.begin();
    let mut second = db.begin();
    for transaction in [&mut first, &mut second] {
        let found = transaction.get(&k, "new").unwrap().unwrap();
        transaction.put(&k, "new", [&found[..], b"+"].concat()).unwrap();
        transaction.put(&tree, "new", "+").unwrap();
    }
    first.commit().unwrap();
    assert!(matches!(second.commit(), Err(Error::Conflict { .. })));
    db.compact().unwrap();
    let many = k.multi_get(["both", "new", "gone", "never"]).unwrap();
    let many: Vec<Option<&[u8]>> = many.iter().map(Option::as_deref).collect();
    assert_eq!(many, [Some(&b"12"[..]), Some(b"1+"), None, None]);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    assert!(
        db.engine().dictionaries.hashed().sorted_records() == 2,
        "what has expired is gone"
    );
}

#[test]
fn many_memtables_become_few_runs_and_all_is_there_after_a_crash() {
    for options in [HashedOptions::pachash(), HashedOptions::trie()] {
        let directory = memory();
        let db = tiny().open_in(Arc::clone(&directory)).unwrap();
        let k = db.keyspace_with("k", &hashed(options)).unwrap();
        for number in 0..20_000u32 {
            k.put((number * 7919 % 5000).to_be_bytes(), [b'v'; 100]).unwrap();
            if number % 100 == 0 {
                while db.work().unwrap() {}
            }
        }
        db.checkpoint().unwrap();
        while db.work().unwrap() {}
        let young = db.engine().dictionaries.hashed().young();
        assert!(young < 32, "{young}");
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        k.put("last", "one").unwrap();
        db.abandon();
        drop((k, db));
        let db = tiny().open_existing_in(directory).unwrap();
        let k = db.existing_keyspace("k").unwrap();
        assert_eq!(pairs(&k).len(), 5001);
        let (first, _) = k.unordered().nth(1000).unwrap().unwrap();
        assert_eq!(k.unordered().after(&first).count(), 4000);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        db.compact().unwrap();
        let structure = db.engine().dictionaries.hashed();
        assert_eq!((structure.young(), structure.sorted_records()), (0, 5001));
        db.drop_keyspace("k").unwrap();
        db.compact().unwrap();
        let structure = db.engine().dictionaries.hashed();
        assert_eq!((structure.young(), structure.sorted_records()), (0, 0));
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn what_is_written_across_structures_is_whole_after_a_crash() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let k = db.keyspace_with("k", &hashed(HashedOptions::trie())).unwrap();
    let tree = db.keyspace("tree").unwrap();
    let from = db.sequence();
    let write = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let mut transaction = db.begin();
            transaction.put(&k, number.to_be_bytes(), "1").unwrap();
            transaction.put(&tree, number.to_be_bytes(), "1").unwrap();
            if number % 2 == 0 {
                transaction.commit().unwrap();
            }
        }
    };
    write(0..30);
    let mut told = BTreeSet::new();
    let mut changes = db.changes_since(from).unwrap();
    for set in changes.by_ref() {
        for change in set.unwrap().changes {
            if let Change::Put { keyspace, key, .. } = change {
                told.insert((keyspace, key));
            }
        }
    }
    db.checkpoint().unwrap();
    write(30..50);
    db.abandon();
    drop((k, tree, changes, db));
    let db = small().open_existing_in(directory).unwrap();
    let [k, tree] = ["k", "tree"].map(|name| db.existing_keyspace(name).unwrap());
    assert_eq!(pairs(&k).len(), 25);
    assert_eq!(pairs(&k), pairs(&tree));
    let keys = pairs(&k).into_keys().take(15);
    let wanted = keys.flat_map(|key| ["k", "tree"].map(|name| (name.to_owned(), key.clone())));
    assert_eq!(told, wanted.collect());
}

#[test]
fn hash_stores_that_are_too_many_are_counted_and_hold_writers_back() {
    let db = tiny().open_in(memory()).unwrap();
    assert_eq!(db.stats().hashed, None);
    let k = db.keyspace_with("k", &hashed(HashedOptions::default())).unwrap();
    let mut load = 0u32;
    while db.engine().dictionaries.crowding() < 150 {
        load += 1;
        k.ingest([(load.to_be_bytes(), "loaded")]).unwrap();
    }
    let stats = db.stats().hashed.unwrap();
    assert_eq!((stats.hash_stores, stats.merges), (load.into(), 0));
    assert_eq!((load, stats.hash_store_records), (96, 96));
    assert_eq!(db.engine().dictionaries.due(), 96 - 32);
    db.compact().unwrap();
    let stats = db.stats();
    let hashed = stats.hashed.unwrap();
    assert_eq!((hashed.hash_stores, hashed.sorted_records), (0, 96));
    assert!(hashed.merges >= 16 && hashed.merged_records >= 96, "{hashed:?}");
    assert!(hashed.memory_bytes > 0 && hashed.device_bytes > 0, "{hashed:?}");
    assert_eq!(db.engine().dictionaries.hashed().crowding(), 0);
    let list = stats.list();
    let figure = |name| list.iter().find(|figure| figure.name == name).unwrap().value;
    assert_eq!(figure("hashed.sorted_records"), 96.0);
}

/// Where the description of a run of the hashed structure is.
fn a_run(directory: &Arc<dyn Directory>) -> NodePointer {
    let file = SuperblockFile::open(&**directory, Access::ReadOnly).unwrap();
    let place = Place::new(alluvium_storage::Structure::Superblock, "superblock", 0);
    let payload = Payload::decode(&file.durable().payload, &place, PageSize::MIN).unwrap();
    let Payload::Here(manifest) = payload else {
        panic!("a manifest of few keyspaces fits the superblock");
    };
    let id = structure::Structure::Hashed.dictionary();
    let root = &manifest.entry(id).unwrap().root;
    let Root::Here(contents) = Root::decode(root, &place, PageSize::MIN).unwrap() else {
        panic!("contents of few runs fit the root");
    };
    let contents = Contents::decode(contents, &place, PageSize::MIN).unwrap();
    contents.parts.iter().find_map(|part| part.run).unwrap().node
}

#[test]
fn a_hashed_structure_that_cannot_be_read_is_given_up_by_a_repair_and_the_rest_is_kept() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let trie = hashed(HashedOptions::trie());
    let k = db.keyspace_with("k", &trie).unwrap();
    let tree = db.keyspace("tree").unwrap();
    for number in 0..500u32 {
        k.put(number.to_be_bytes(), "v").unwrap();
        tree.put(number.to_be_bytes(), "v").unwrap();
    }
    db.compact().unwrap();
    // Two generations with the same run.
    tree.put("later", "v").unwrap();
    db.checkpoint().unwrap();
    k.put("new", "1").unwrap();
    db.abandon();
    drop((k, tree, db));
    let node = a_run(&directory);
    let file = directory.open("tier-0.data", FileOptions::BUFFERED).unwrap();
    let mut page = file.read_at(node.offset, 4096, Purpose::Check).unwrap();
    page[100] ^= 1;
    file.write_at(node.offset, page, Purpose::Check).unwrap();
    let refused = small().open_existing_in(Arc::clone(&directory)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    let report = small().repair_in(Arc::clone(&directory)).unwrap();
    assert!(report.left.is_empty(), "{report}");
    assert_eq!(report.lost.len(), 1, "{report}");
    assert!(report.lost[0].starts_with("keyspace k, keys from"), "{report}");
    let db = small().open_existing_in(Arc::clone(&directory)).unwrap();
    let k = db.keyspace_with("k", &trie).unwrap();
    assert_eq!(pairs(&k).into_keys().collect::<Vec<_>>(), [b"new"]);
    assert_eq!(pairs(&db.existing_keyspace("tree").unwrap()).len(), 501);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    k.put("again", "2").unwrap();
    db.close().unwrap();
    let db = small().open_existing_in(directory).unwrap();
    assert_eq!(pairs(&db.existing_keyspace("k").unwrap()).len(), 2);
}
