//! Tests of keyspaces in pages that are updated in place, through the public interface.

use super::{memory, pairs, small, tiny};
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::db::Db;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::options::{KeyspaceOptions, LevelsOptions, PagedOptions, Structure};
use crate::write::batch::WriteBatch;
use std::sync::Arc;

fn paged(options: PagedOptions) -> KeyspaceOptions {
    KeyspaceOptions::new().structure(Structure::Paged(options))
}

/// Returns options for Bε-trees and B⁺-trees with nodes so small that thousands of keys fill
/// several levels.
fn trees() -> [PagedOptions; 4] {
    let small = |options: PagedOptions| options.node_bytes(512).key_bytes(16).value_bytes(40);
    [
        small(PagedOptions::beps()),
        small(PagedOptions::beps()).epsilon(0.8).merge(),
        small(PagedOptions::bplus()).merge(),
        small(PagedOptions::beps()).adaptive_epsilon().merge(),
    ]
}

#[test]
fn the_options_of_pages_are_kept_and_one_store_has_one() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let asked = paged(PagedOptions::beps().node_bytes(8192).epsilon(0.36));
    let trial = db.keyspace_with("trial", &asked).unwrap();
    trial.put("key", "value").unwrap();
    for (bad, why) in [
        (PagedOptions::beps().epsilon(1.5), "from 0 to 1"),
        (PagedOptions::beps().node_bytes(1000), "power of two"),
        (PagedOptions::bplus().key_bytes(5000), "too long for pages"),
    ] {
        let error = db.keyspace_with("bad", &paged(bad)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let others = [
        PagedOptions::bplus(),
        PagedOptions::beps(),
        PagedOptions::beps().node_bytes(8192).epsilon(0.8),
        PagedOptions::beps().node_bytes(8192).epsilon(0.36).key_bytes(65),
        PagedOptions::beps().node_bytes(8192).epsilon(0.36).merge(),
        PagedOptions::beps().node_bytes(8192).adaptive_epsilon(),
    ];
    for other in others {
        let error = db.keyspace_with("other", &paged(other)).unwrap_err();
        assert!(matches!(error, Error::SharedOptionsDiffer { .. }), "{error}");
        assert!(
            error.to_string().contains("beps,node=8192,epsilon=0.3"),
            "{error}"
        );
    }
    assert_eq!(db.keyspaces(), ["trial"], "what was refused is not there");
    db.rename_keyspace("trial", "renamed").unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    let trial = db.keyspace_with("renamed", &asked).unwrap();
    assert_eq!(trial.options(), &asked);
    assert_eq!(trial.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(db.keyspace_with("second", &asked).is_ok());
    assert!(db.keyspace_with("other", &paged(PagedOptions::bplus())).is_err());
    let too_large = small().open_in(memory()).unwrap();
    let error = too_large.keyspace_with(
        "large",
        &paged(PagedOptions::beps().node_bytes(65536).key_bytes(1)),
    );
    assert!(
        error.is_ok(),
        "sixteen nodes fit three eighths of 16 MiB: {error:?}"
    );
}

fn is_too_long<T: std::fmt::Debug>(result: crate::error::Result<T>) -> bool {
    matches!(
        result.map(drop),
        Err(Error::TooLong {
            bytes: 17,
            most: 16,
            ..
        })
    )
}

/// Writes a key with every method that can write, and returns whether each rejected it as too long.
fn write_each_way(db: &Db, keyspace: &Keyspace, key: &[u8]) -> Vec<bool> {
    let mut batch = WriteBatch::new();
    let transaction = db.begin();
    let mut ingest = keyspace.begin_ingest().unwrap();
    vec![
        is_too_long(keyspace.put(key, "v")),
        is_too_long(keyspace.merge(key, "v")),
        is_too_long(keyspace.delete(key)),
        is_too_long(keyspace.take(key)),
        is_too_long(keyspace.compare_and_set(key, None, Some(b"v"))),
        is_too_long(keyspace.put_until(key, "v", std::time::SystemTime::now())),
        is_too_long(pollster::block_on(keyspace.put_async(key, "v"))),
        is_too_long(batch.put(keyspace, key, "v").map(drop)),
        is_too_long(batch.merge(keyspace, key, "v").map(drop)),
        is_too_long(batch.delete(keyspace, key).map(drop)),
        is_too_long(transaction.put(keyspace, key, "v")),
        is_too_long(transaction.merge(keyspace, key, "v")),
        is_too_long(transaction.delete(keyspace, key)),
        is_too_long(transaction.compare_and_set(keyspace, key, None, Some(b"v"))),
        is_too_long(ingest.put(key, "v")),
    ]
}

#[test]
fn a_key_that_does_not_fit_is_refused_when_it_is_written() {
    let db = small().open_in(memory()).unwrap();
    for tree in trees().into_iter().take(1) {
        let options = paged(tree).merge_operator("append");
        let k = db.keyspace_with("k", &options).unwrap();
        k.put("here", "before").unwrap();
        assert_eq!(write_each_way(&db, &k, &[b'x'; 17]), vec![true; 15]);
        assert_eq!(write_each_way(&db, &k, &[b'x'; 16]), vec![false; 15]);
        // A key that is too long to be written can still be looked up and used as a bound.
        assert_eq!(k.get([b'x'; 17]).unwrap(), None);
        k.delete_range([b'y'; 99], Some(&[b'z'; 99])).unwrap();
        assert_eq!(k.range(&[b'a'; 99][..]..).count(), 2);
        // Keyspaces in other structures accept longer keys.
        let free = db.keyspace("free").unwrap();
        free.put([b'x'; 2000], "v").unwrap();
        db.compact().unwrap();
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        assert_eq!(pairs(&k).len(), 2);
    }
}

#[test]
fn long_values_have_pages_of_their_own_and_give_them_back() {
    for tree in trees() {
        let db = tiny().open_in(memory()).unwrap();
        let k = db.keyspace_with("k", &paged(tree)).unwrap();
        let long = |number: u32| vec![number as u8; 3000 + 50_000 * usize::from(number.is_multiple_of(9))];
        for number in 0..60u32 {
            k.put(number.to_be_bytes(), long(number)).unwrap();
        }
        db.checkpoint().unwrap();
        let used = |db: &Db| {
            let statistics = db.engine().dictionaries.paged().statistics();
            statistics.pages - statistics.free
        };
        let before = used(&db);
        assert!(before > 60 * 6, "{before} pages");
        for number in 0..60u32 {
            assert_eq!(k.get(number.to_be_bytes()).unwrap().unwrap(), &long(number)[..]);
            k.put(number.to_be_bytes(), "short").unwrap();
        }
        db.compact().unwrap();
        assert!(used(&db) < before / 3, "{} of {before} pages", used(&db));
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn pages_of_deleted_keys_are_free_where_nodes_are_merged() {
    let small = |options: PagedOptions| options.node_bytes(512).key_bytes(16).value_bytes(40);
    for (tree, merges) in [
        (small(PagedOptions::beps()), false),
        (small(PagedOptions::beps()).merge(), true),
        (small(PagedOptions::bplus()), false),
        (small(PagedOptions::bplus()).merge(), true),
        (small(PagedOptions::beps()).adaptive_epsilon().merge(), true),
    ] {
        let directory = memory();
        let db = tiny().open_in(Arc::clone(&directory)).unwrap();
        let k = db.keyspace_with("k", &paged(tree)).unwrap();
        let key = |number: u32| (number * 7919 % 2000).to_be_bytes();
        (0..2000).for_each(|number| k.put(key(number), "value").unwrap());
        db.compact().unwrap();
        let used = |db: &Db| {
            let statistics = db.engine().dictionaries.paged().statistics();
            statistics.pages - statistics.free
        };
        let before = used(&db);
        (0..2000).for_each(|number| k.delete(key(number)).unwrap());
        db.compact().unwrap();
        db.checkpoint().unwrap();
        assert!(pairs(&k).is_empty());
        assert!(before > 300, "{before}");
        match merges {
            true => assert!(used(&db) <= 3, "{} of {before}", used(&db)),
            false => assert!(used(&db) > before / 2, "{} of {before}", used(&db)),
        }
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        db.close().unwrap();
        // The options are stored with the tree, so they need not be specified again.
        let db = tiny().open_in(directory).unwrap();
        let k = db.keyspace_with("k", &paged(tree)).unwrap();
        (0..500).for_each(|number| k.put(key(number), "value").unwrap());
        db.checkpoint().unwrap();
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn keyspaces_share_pages_and_all_is_there_after_a_crash() {
    for tree in trees() {
        let directory = memory();
        let db = tiny().open_in(Arc::clone(&directory)).unwrap();
        let keyspaces: Vec<Keyspace> = (0..3)
            .map(|number| db.keyspace_with(&format!("k{number}"), &paged(tree)).unwrap())
            .collect();
        let other = db
            .keyspace_with(
                "levels",
                &KeyspaceOptions::new().structure(Structure::Levels(LevelsOptions::samt(2))),
            )
            .unwrap();
        for number in 0..9_000u32 {
            let key = (number * 7919 % 2000).to_be_bytes();
            keyspaces[number as usize % 3]
                .put(key, number.to_be_bytes())
                .unwrap();
            other.put(key, number.to_be_bytes()).unwrap();
            if number % 100 == 0 {
                while db.work().unwrap() {}
            }
        }
        db.checkpoint().unwrap();
        for keyspace in &keyspaces {
            keyspace.put("last", keyspace.name()).unwrap();
        }
        let wanted: Vec<_> = keyspaces.iter().map(pairs).collect();
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        db.abandon();
        drop((keyspaces, other, db));
        let db = tiny().open_existing_in(Arc::clone(&directory)).unwrap();
        let found: Vec<_> = (0..3)
            .map(|number| pairs(&db.existing_keyspace(&format!("k{number}")).unwrap()))
            .collect();
        assert_eq!(found, wanted);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        db.drop_keyspace("k1").unwrap();
        db.compact().unwrap();
        assert_eq!(pairs(&db.existing_keyspace("k2").unwrap()), wanted[2]);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        db.close().unwrap();
    }
}
