//! Damage in one of several dictionaries with the same structure, and manifests that no store has
//! written.

use super::super::hostile::{World, copy, shared, with_manifest, world_of};
use super::{fill, keyspace, pairs, tiny};
use crate::admin::simulation::DirectoryOpener as _;
use crate::error::ErrorKind;
use crate::schema::manifest::Manifest;
use alluvium_device::simulated::SimDirectory;

const STRUCTURES: [&str; 5] = [
    "levels,k=4",
    "levels,k=8",
    "hashed",
    "hashed,form=boa,lambda=4",
    "tiered",
];

/// Returns a closed store with a keyspace of each structure, which is named after it.
fn world() -> World {
    let directory = SimDirectory::new(5);
    let db = tiny().create_in(shared(&directory)).unwrap();
    for structure in STRUCTURES {
        fill(&keyspace(&db, structure, structure), 40);
    }
    world_of(directory, db)
}

#[test]
fn a_damaged_dictionary_is_discarded_and_the_others_with_its_structure_stay() {
    let world = world();
    for (id, structure) in [
        (2, "levels,samt,k=4"),
        (258, "levels,samt,k=8"),
        (3, "hashed,index=pachash"),
        (259, "hashed,form=boa,lambda=4,refined=yes"),
    ] {
        let mut manifest = world.manifest.clone();
        let entry = manifest.dictionaries.iter_mut().find(|entry| entry.id == id);
        entry.expect("it is listed").root.truncate(4);
        let directory = with_manifest(&world, &manifest);
        let refused = tiny().open_existing_in(shared(&directory)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{structure}: {refused}");
        let repaired = tiny().repair_in(shared(&directory)).unwrap();
        assert_eq!(repaired.lost.len(), 1, "{structure}: {repaired:?}");
        let db = tiny().open_existing_in(shared(&directory)).unwrap();
        for name in STRUCTURES {
            let found = pairs(&keyspace(&db, name, name));
            let is_lost = name.parse::<crate::options::Structure>().unwrap().to_string() == structure;
            assert_eq!(found.len(), if is_lost { 0 } else { 40 }, "{name}, {structure}");
        }
        fill(&keyspace(&db, STRUCTURES[0], STRUCTURES[0]), 50);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        db.close().unwrap();
        assert!(tiny().open_existing_in(shared(&directory)).is_ok());
    }
}

#[test]
fn a_damaged_dictionary_without_a_keyspace_is_dropped() {
    let world = world();
    let mut manifest = world.manifest.clone();
    let entry = manifest.dictionaries.iter().find(|entry| entry.id == 258);
    let mut unused = entry.expect("it is listed").clone();
    unused.id = 514;
    unused.root.truncate(4);
    manifest.dictionaries.push(unused);
    manifest.dictionaries.sort_by_key(|entry| entry.id);
    let directory = with_manifest(&world, &manifest);
    assert!(tiny().open_existing_in(shared(&directory)).is_err());
    let repaired = tiny().repair_in(shared(&directory)).unwrap();
    assert_eq!(repaired.lost, Vec::<String>::new());
    let told = repaired.done.iter().any(|done| done.contains("no keyspace uses"));
    assert!(told, "{repaired:?}");
    let db = tiny().open_existing_in(shared(&directory)).unwrap();
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_keyspace_in_a_dictionary_with_other_options_is_refused() {
    let world = world();
    assert!(tiny().open_existing_in(shared(&copy(&world.directory))).is_ok());
    let refused = |change: &dyn Fn(&mut Manifest), why: &str| {
        let mut manifest = world.manifest.clone();
        change(&mut manifest);
        let directory = with_manifest(&world, &manifest);
        let refused = tiny().open_existing_in(shared(&directory)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
    };
    let all_to = |from: u32, to: u32| {
        move |manifest: &mut Manifest| {
            let places = manifest.keyspaces.values_mut().filter(|place| **place == from);
            places.for_each(|place| *place = to);
        }
    };
    let other = "in a dictionary with the options";
    refused(&all_to(258, 2), other);
    refused(&all_to(2, 258), other);
    refused(&all_to(259, 3), other);
    refused(&all_to(258, 3), "in a dictionary of kind 2");
    let twice = |manifest: &mut Manifest| {
        let first = manifest.entry(2).expect("it is listed").root.clone();
        let mut entries = manifest.dictionaries.iter_mut();
        entries.find(|entry| entry.id == 258).expect("it is listed").root = first;
    };
    refused(&twice, "one dictionary with the options levels,samt,k=4");
    let elsewhere = |id| {
        move |manifest: &mut Manifest| {
            let mut entries = manifest.dictionaries.iter_mut();
            entries.find(|entry| entry.id == 258).expect("it is listed").id = id;
            manifest.dictionaries.sort_by_key(|entry| entry.id);
            all_to(258, id)(manifest);
        }
    };
    for id in [256, 259 + 256, 2 + (256 << 8), 7] {
        refused(&elsewhere(id), "structures of kind 2 only as dictionary 2");
    }
}
