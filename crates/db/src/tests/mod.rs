//! Tests of stores with structures of every kind. They are inside the crate because programs cannot
//! choose the in-memory map as a structure.

mod bundles;
mod contract;
mod copies;
mod crashes;
mod hashed;
mod hashed_repair;
mod hostile;
mod hostile_log;
mod kinds;
mod levels;
mod model;
mod paged;
mod paged_files;
// Release builds do not count the keys that scans pass.
#[cfg(debug_assertions)]
mod queues;
mod several;
#[path = "../../tests/it/story/mod.rs"]
mod story;
mod volatile;

use crate::admin::simulation::DirectoryOpener as _;
use crate::db::Db;
use crate::keyspace::Keyspace;
use crate::options::kind::{DictionaryPlace, StructureKind};
use crate::options::scale::StoreScale;
use crate::options::{KeyspaceOptions, Options};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_hashes::hashed::HashedStructure;
use alluvium_storage::extents::ExtentOptions;
use alluvium_storage::store::StoreOptions;
use alluvium_storage::{LogOptions, TierDirectories};
use alluvium_trees::levels::{FilterSource, LevelsDictionary};
use alluvium_trees::tiered::TrunkShape;
use std::collections::BTreeMap;
use std::sync::Arc;

fn small() -> Options {
    Options::new().memory(16 << 20).workers(0)
}

/// Returns the options of [`small`] with files so small that hundreds of stores can be created
/// quickly.
fn tiny() -> Options {
    let memtable = 128 << 10;
    let scale = StoreScale {
        id: 26,
        memtable,
        cache: 1 << 20,
        log: LogOptions::with_limit(1 << 20),
        extents: ExtentOptions::default(),
        shape: TrunkShape { fanout: 4, memtable },
        filters: FilterSource::default(),
    };
    small().simulated(scale, || 1000)
}

/// Returns the storage layer's options for a store created with [`tiny`].
fn store_options() -> StoreOptions {
    StoreOptions {
        cache_bytes: 1 << 20,
        log: LogOptions::with_limit(1 << 20),
        ..StoreOptions::default()
    }
}

fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

/// Returns one in-memory directory for each tier.
fn directories(tiers: usize) -> TierDirectories {
    (1..tiers).fold(TierDirectories::from(memory()), |all, _| all.and(memory()))
}

/// Returns the options of [`small`], with which compactions write all output to the second tier if
/// there is one.
fn spread() -> Options {
    small().fast_bytes(0)
}

/// Returns the first levels of a store.
fn levels_of(db: &Db) -> &LevelsDictionary {
    let place = DictionaryPlace::first(StructureKind::Levels);
    db.engine()
        .dictionaries
        .levels(place)
        .expect("a keyspace uses them")
}

/// Returns the first hashed structure of a store.
fn hashed_of(db: &Db) -> &HashedStructure {
    let place = DictionaryPlace::first(StructureKind::Hashed);
    db.engine()
        .dictionaries
        .hashed(place)
        .expect("a keyspace uses it")
}

fn pairs(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    keyspace
        .unordered()
        .map(|pair| pair.unwrap())
        .map(|(key, value)| (key, value.into_vec()))
        .collect()
}

/// Creates a keyspace in each persistent structure, named after the structure.
fn one_of_each(db: &Db, options: &KeyspaceOptions) -> Vec<Keyspace> {
    let keyspace = |structure| db.keyspace_in(&format!("{structure:?}"), structure, options);
    let lasting = StructureKind::ALL
        .into_iter()
        .filter(|structure| structure.lasts());
    lasting.map(|structure| keyspace(structure).unwrap()).collect()
}

/// Creates a keyspace in the tree and one in the map. The manifest lists both.
fn tree_and_map(db: &Db, options: &KeyspaceOptions) -> Vec<Keyspace> {
    let keyspace = |structure| db.keyspace_in(&format!("{structure:?}"), structure, options);
    let both = [StructureKind::Tiered, StructureKind::Map];
    both.map(|structure| keyspace(structure).unwrap()).into()
}
