//! Tests of manifests that no store has written. Opening a store with such a manifest must either
//! return an error that describes the defect, or give access to the original data.

use super::{pairs, store_options, tiny, tree_and_map};
use crate::admin::simulation::DirectoryOpener as _;
use crate::db::Db;
use crate::error::ErrorKind;
use crate::options::KeyspaceOptions;
use crate::options::kind::StructureKind;
use crate::schema::format::CATALOG;
use crate::schema::manifest::format::SuperblockPayload;
use crate::schema::manifest::{DictionaryEntry, Manifest, ManifestWriter};
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_device::{Directory, FileAccessMode};
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::store::Store;
use alluvium_storage::superblock::{MAX_PAYLOAD, Superblock, SuperblockFile};
use alluvium_storage::{DiskLocation, NodeCodec, NodePointer, PageSize};
use std::collections::BTreeMap;
use std::sync::Arc;

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Number of random manifests to test.
const DRAWN: u64 = 150;

pub(super) struct World {
    pub(super) directory: SimDirectory,
    wanted: Contents,
    pub(super) manifest: Manifest,
}

fn contents(db: &Db) -> Contents {
    let of = |name: String| {
        let found = pairs(&db.existing_keyspace(&name).unwrap());
        (name, found)
    };
    db.keyspaces().into_iter().map(of).collect()
}

pub(super) fn shared(directory: &SimDirectory) -> Arc<dyn Directory> {
    Arc::new(directory.clone())
}

pub(super) fn copy(directory: &SimDirectory) -> SimDirectory {
    directory.image(CrashSurvival::All, 1)
}

/// Creates a closed store with one keyspace of `count` keys in each kind of structure.
fn world(count: u32) -> World {
    let directory = SimDirectory::new(3);
    let db = tiny().create_in(shared(&directory)).unwrap();
    for keyspace in tree_and_map(&db, &KeyspaceOptions::new()) {
        for number in 0..count {
            keyspace.put(number.to_be_bytes(), [number as u8; 40]).unwrap();
        }
    }
    world_of(directory, db)
}

/// Closes a store.
pub(super) fn world_of(directory: SimDirectory, db: Db) -> World {
    let wanted = contents(&db);
    db.close().unwrap();
    let payload = superblock(&directory).payload;
    let place = DiskLocation::new(alluvium_storage::OnDiskObject::Superblock, "superblock", 0);
    let SuperblockPayload::Inline(manifest) =
        SuperblockPayload::decode(&payload, &place, PageSize::MIN).unwrap()
    else {
        panic!("it fits the superblock");
    };
    World {
        directory,
        wanted,
        manifest,
    }
}

fn superblock(directory: &SimDirectory) -> Superblock {
    let file = SuperblockFile::open(&*shared(directory), FileAccessMode::ReadOnly).unwrap();
    file.durable().clone()
}

/// Copies the store and replaces the payload in the copy's newest superblock. The previous
/// superblock remains.
fn with_payload(world: &World, payload: Vec<u8>) -> SimDirectory {
    let directory = copy(&world.directory);
    let mut file = SuperblockFile::open(&*shared(&directory), FileAccessMode::ReadWrite).unwrap();
    let durable = file.durable().clone();
    file.write(Superblock {
        generation: durable.generation + 1,
        payload,
        ..durable
    })
    .unwrap();
    directory
}

/// Copies the store and replaces the manifest in both generations of the copy. A long manifest is
/// stored in separate nodes.
pub(super) fn with_manifest(world: &World, manifest: &Manifest) -> SimDirectory {
    let directory = copy(&world.directory);
    for _ in 0..2 {
        let opening = Store::open(shared(&directory), &store_options()).unwrap();
        let store = opening.replay(&mut |_| Ok(())).unwrap();
        let cut = store.superblock().cut;
        // The second opening may already reject the changed manifest.
        let keeper =
            ManifestWriter::open(&store).map_or_else(|_| ManifestWriter::default(), |(keeper, _)| keeper);
        let payload = keeper.keep(&store, manifest.clone()).unwrap();
        store.begin_checkpoint().unwrap().finish(&payload, cut).unwrap();
        store.close().unwrap();
    }
    directory
}

fn is_typed(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corrupt | ErrorKind::NewerVersion)
}

/// Opens the store in every way. If it opens, all data must be present, and still be after more
/// writes. Returns the kind of error if it does not open.
fn judge(world: &World, directory: &SimDirectory, what: &str) -> Option<ErrorKind> {
    let typed = |error: crate::error::Error| {
        assert!(is_typed(error.kind()), "{what}: {error:?}");
        error.kind()
    };
    match tiny().open_read_only_in(shared(&copy(directory))) {
        Ok(db) => {
            assert_eq!(contents(&db), world.wanted, "{what}: read only");
        }
        Err(error) => drop(typed(error)),
    }
    let repaired = copy(directory);
    match tiny().repair_in(shared(&repaired)) {
        Ok(report) => {
            let db = tiny().open_existing_in(shared(&repaired)).unwrap();
            let is_same = contents(&db) == world.wanted;
            assert!(
                is_same || !report.is_whole(),
                "{what}: silent loss by a repair: {report}"
            );
            assert_eq!(db.check().unwrap(), [""; 0], "{what}: {report}");
        }
        Err(error) => drop(typed(error)),
    }
    match tiny().open_existing_in(shared(directory)) {
        Err(error) => Some(typed(error)),
        Ok(db) => {
            assert_eq!(contents(&db), world.wanted, "{what}");
            assert_eq!(db.check().unwrap(), [""; 0], "{what}");
            for keyspace in tree_and_map(&db, &KeyspaceOptions::new()) {
                keyspace.put("more", "1").unwrap();
            }
            let more = contents(&db);
            db.close().unwrap();
            let db = tiny().open_existing_in(shared(directory)).unwrap();
            assert_eq!(contents(&db), more, "{what}, opened again");
            None
        }
    }
}

fn entry(id: u32, kind: u8, root: Vec<u8>) -> DictionaryEntry {
    DictionaryEntry { id, kind, root }
}

/// A test case: its description, the expected kind of error, and the change to the manifest.
type Case = (&'static str, ErrorKind, fn(&mut Manifest));

/// Keyspace numbers, one in each structure, and dictionary numbers.
const IN_TREE: u32 = 1;
const IN_MAP: u32 = 2;
const TREE: u32 = 0;
const MAP: u32 = 1;

const LONG: usize = 5 << 20;

fn is_corrupt(what: &'static str, change: fn(&mut Manifest)) -> Case {
    (what, ErrorKind::Corrupt, change)
}

/// Returns the cases with missing or misplaced keyspaces or dictionaries.
fn misplaced() -> Vec<Case> {
    vec![
        is_corrupt("the tree is missing", |m| drop(m.dictionaries.remove(0))),
        is_corrupt("the map is missing, and named", |m| m.dictionaries.truncate(1)),
        is_corrupt("the map is missing", |m| {
            m.dictionaries.truncate(1);
            m.keyspaces.clear();
        }),
        is_corrupt("nothing is in the map", |m| m.keyspaces.clear()),
        is_corrupt("the map's keyspace is in the tree", |m| {
            m.keyspaces.extend([(IN_MAP, TREE)]);
        }),
        is_corrupt("the tree's keyspace is in the map", |m| {
            m.keyspaces.extend([(IN_TREE, MAP)]);
        }),
        is_corrupt("the catalog is in the map", |m| {
            m.keyspaces.extend([(CATALOG, MAP)]);
        }),
        is_corrupt("the last number is in the map", |m| {
            m.keyspaces.extend([(u32::MAX, MAP)]);
        }),
    ]
}

/// Returns the cases with wrong roots or kinds.
fn mistaken() -> Vec<Case> {
    vec![
        is_corrupt("the tree has no root", |m| m.dictionaries[0].root.clear()),
        is_corrupt("the map has no root", |m| m.dictionaries[1].root.clear()),
        is_corrupt("the tree's root is long", |m| {
            m.dictionaries[0].root.resize(LONG, 0);
        }),
        is_corrupt("the map's root is long", |m| {
            m.dictionaries[1].root.resize(LONG, 0);
        }),
        is_corrupt("the roots are swapped", |m| {
            let root = std::mem::take(&mut m.dictionaries[0].root);
            m.dictionaries[0].root = std::mem::replace(&mut m.dictionaries[1].root, root);
        }),
        is_corrupt("a second map", |m| {
            let root = m.dictionaries[1].root.clone();
            m.dictionaries.push(entry(7, 250, root));
        }),
        is_corrupt("a second tree", |m| {
            let root = m.dictionaries[0].root.clone();
            m.dictionaries.push(entry(7, 1, root));
        }),
        is_corrupt("a tree of a kind that there is not", |m| {
            m.dictionaries[0].kind = 77;
        }),
        is_corrupt("a map of a kind that there is not", |m| {
            m.dictionaries[1].kind = 77;
        }),
        ("a dictionary of another kind", ErrorKind::NewerVersion, |m| {
            m.dictionaries.push(entry(7, 77, vec![1; LONG]));
        }),
    ]
}

#[test]
fn a_manifest_that_contradicts_itself_or_the_catalog_is_refused() {
    let world = world(60);
    assert_eq!(world.manifest.keyspaces, BTreeMap::from([(IN_MAP, MAP)]));
    let both = [StructureKind::Tiered, StructureKind::Map];
    assert_eq!([TREE, MAP], both.map(StructureKind::dictionary));
    let changes = [misplaced(), mistaken()].concat();
    for (what, wanted, change) in changes {
        let mut manifest = world.manifest.clone();
        change(&mut manifest);
        let payload = SuperblockPayload::Inline(manifest.clone()).encode();
        if payload.len() <= MAX_PAYLOAD {
            let directory = with_payload(&world, payload);
            assert_eq!(judge(&world, &directory, what), Some(wanted), "{what}");
        }
        let known = |id: &u32| manifest.entry(*id).is_some();
        if manifest.keyspaces.values().all(known) {
            let directory = with_manifest(&world, &manifest);
            assert_eq!(
                judge(&world, &directory, what),
                Some(wanted),
                "{what}, in both generations"
            );
        }
    }
    // Test the original manifest, and one with a dropped keyspace.
    let directory = with_manifest(&world, &world.manifest);
    assert_eq!(judge(&world, &directory, "as it was"), None);
    let mut dropped = world.manifest.clone();
    dropped.keyspaces.insert(1000, MAP);
    let directory = with_manifest(&world, &dropped);
    assert_eq!(
        judge(&world, &directory, "with a keyspace that was dropped"),
        None
    );
}

#[test]
fn a_manifest_of_other_bytes_is_refused_or_leads_to_what_was_there() {
    // With this many keys, both roots refer to nodes, so the payload contains no user data.
    let world = world(250);
    let payload = superblock(&world.directory).payload;
    let mut random = fastrand::Rng::with_seed(26);
    let mut refused = 0;
    for number in 0..DRAWN {
        let mut bytes = payload.clone();
        match random.u32(..4) {
            0 => bytes.truncate(random.usize(1..bytes.len())),
            1 => bytes.extend((0..random.usize(1..200)).map(|_| random.u8(..))),
            2 => {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            // Overwrite a count or a length with a wrong number.
            _ => {
                let at = random.usize(2..20);
                bytes.splice(at..=at, [0xff; 9].into_iter().chain([1]));
            }
        }
        if bytes == payload {
            continue;
        }
        let what = format!("number {number}");
        let directory = with_payload(&world, bytes);
        refused += u64::from(judge(&world, &directory, &what).is_some());
    }
    assert!(refused > DRAWN / 2, "{refused}");
}

#[test]
fn a_manifest_apart_that_is_not_there_costs_no_more_memory_than_the_files() {
    let world = world(60);
    let page = NodePointer {
        offset: 0,
        birth: 1,
        checksum: 7,
        encoded_len: 4096,
        tier: 0,
        pages: 1,
        codec: NodeCodec::None,
    };
    let long = NodePointer {
        pages: 16,
        encoded_len: 65536,
        ..page
    };
    for node in [
        page,
        long,
        NodePointer { tier: 9, ..page },
        NodePointer {
            offset: 1 << 45,
            ..page
        },
    ] {
        for len in [0, 1, 4000, 65536, 1 << 20, 1 << 30, u32::MAX] {
            let payload = SuperblockPayload::External(3, ValuePointer { node, at: 0, len }).encode();
            let directory = with_payload(&world, payload);
            let what = format!("{node:?}, {len} bytes");
            assert_eq!(
                judge(&world, &directory, &what),
                Some(ErrorKind::Corrupt),
                "{what}"
            );
        }
    }
}
