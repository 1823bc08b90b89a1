//! Tests of stores with structures that a newer version has added, so that this version does not
//! know them.

use super::engine;
use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _};
use crate::db::Db;
use crate::engine::CommitRecord;
use crate::error::Error;
use crate::options::kind::StructureKind;
use crate::options::{Durability, KeyspaceOptions, Options};
use crate::schema::catalog::CommitKeyspaces;
use crate::schema::format;
use crate::schema::manifest::{DictionaryEntry, Manifest};
use alluvium_base::MessageKind;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;

/// The number of an unknown structure.
const LATER: u8 = 99;

/// The number of the keyspace that uses the unknown structure.
const NUMBER: u32 = 77;

fn options() -> Options {
    Options::new().memory(16 << 20).workers(0)
}

/// Asserts that every way of opening the store fails, and returns the errors.
fn refused(directory: &Arc<dyn Directory>) -> Vec<Error> {
    let unwanted =
        |opened: crate::error::Result<Db>| opened.map(drop).expect_err("it has an unknown structure");
    vec![
        unwanted(options().open_existing_in(Arc::clone(directory))),
        unwanted(options().open_in(Arc::clone(directory))),
        unwanted(options().open_read_only_in(Arc::clone(directory))),
    ]
}

#[test]
fn a_keyspace_of_an_unknown_kind_is_refused_by_its_name() {
    for is_checkpointed in [false, true] {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let db = options().open_in(Arc::clone(&directory)).unwrap();
        let known = db.keyspace("known").unwrap();
        known.put("key", "value").unwrap();
        let mut commit = CommitRecord::default();
        let value = format::encode_keyspace(NUMBER, LATER, &KeyspaceOptions::new());
        commit.add(&[], &format::keyspace_key("rivers"), MessageKind::Put, 0, &value);
        let committed = engine(&known).commit(&commit, CommitKeyspaces::Catalog, Durability::Disk);
        committed.unwrap();
        if is_checkpointed {
            db.checkpoint().unwrap();
        }
        drop(known);
        db.close().unwrap();
        let mut errors = refused(&directory);
        errors.push(options().repair_in(directory).expect_err("it is not damaged"));
        for error in errors {
            let Error::UnknownStructure { keyspace, kind } = &error else {
                panic!("{error}");
            };
            assert_eq!((&keyspace[..], *kind), ("rivers", LATER));
            let told = error.to_string();
            assert!(told.contains("\"rivers\"") && told.contains("kind 99"), "{told}");
            assert!(
                told.contains("open the store with the version that wrote it"),
                "{told}"
            );
        }
    }
}

/// Creates a store whose durable manifest lists a dictionary with an unknown structure.
fn listed(keyspaces: &[u32]) -> Arc<dyn Directory> {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let db = options().open_in(Arc::clone(&directory)).unwrap();
    let known = db.keyspace("known").unwrap();
    known.put("key", "value").unwrap();
    let engine = engine(&known);
    let (begun, payload, at) = {
        let tree = engine.dictionaries.tree.checkpoint_root().unwrap();
        let entry = |id, kind, root: &[u8]| DictionaryEntry {
            id,
            kind,
            root: root.to_vec(),
        };
        let manifest = Manifest {
            dictionaries: vec![
                entry(0, StructureKind::Tiered.kind(), &tree.root),
                entry(5, LATER, b"what it is opened from"),
            ],
            keyspaces: keyspaces.iter().map(|keyspace| (*keyspace, 5)).collect(),
            catalog: None,
            time_ms: 0,
            behind: std::collections::BTreeMap::new(),
        };
        let keeper = &engine.dictionaries.manifest;
        let payload = keeper.keep(&engine.store, manifest).unwrap();
        (engine.store.begin_checkpoint().unwrap(), payload, tree.at)
    };
    begun.finish(&payload, at).unwrap();
    drop(known);
    db.abandon();
    directory
}

#[test]
fn a_dictionary_of_an_unknown_kind_is_refused_though_the_catalog_does_not_name_it() {
    for (keyspaces, name) in [
        (&[1][..], "known"),
        (&[NUMBER][..], "(name unknown, number 77)"),
        (&[][..], "(name unknown, dictionary 5)"),
    ] {
        let directory = listed(keyspaces);
        for error in refused(&directory) {
            let Error::UnknownStructure { keyspace, kind } = &error else {
                panic!("{error}");
            };
            assert_eq!((&keyspace[..], *kind), (name, LATER));
        }
        let error = options().repair_in(directory).expect_err("it is not damaged");
        let told = error.to_string();
        assert!(told.contains("dictionary 5") && told.contains("99"), "{told}");
        assert!(told.contains("upgrade Alluvium"), "{told}");
    }
}
