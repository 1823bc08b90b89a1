//! The store with structures of every kind in it. No user can choose the map, so these tests are
//! inside the crate.
//!
//! *Read in this order*: `contract.rs` (what users see is the same for each kind), `model.rs` (one
//! history, told to all of them), `levels.rs`, `hashed.rs`, `bundles.rs`, `paged.rs` and
//! `volatile.rs` (as a user chooses them), `queues.rs`, `hashed_repair.rs`, `paged_files.rs` (their
//! files), `copies.rs`, `crashes.rs`, `hostile.rs` (manifests), `hostile_log.rs`.

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
mod queues;
#[path = "../../tests/it/story/mod.rs"]
mod story;
mod volatile;

use crate::scale::Scale;
use crate::simulation::OpenIn as _;
use crate::structure::Structure;
use crate::{Db, Keyspace, KeyspaceOptions, Options};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_storage::extents::ExtentOptions;
use alluvium_storage::store::StoreOptions;
use alluvium_storage::{Directories, LogOptions};
use alluvium_trees::levels::Filters;
use alluvium_trees::tiered::Shape;
use std::collections::BTreeMap;
use std::sync::Arc;

fn small() -> Options {
    Options::new().memory(16 << 20).workers(0)
}

/// As [`small`], with files so small that hundreds of stores are made quickly.
fn tiny() -> Options {
    let memtable = 128 << 10;
    let scale = Scale {
        id: 26,
        memtable,
        cache: 1 << 20,
        log: LogOptions::with_limit(1 << 20),
        extents: ExtentOptions::default(),
        shape: Shape { fanout: 4, memtable },
        filters: Filters::default(),
    };
    small().simulated(scale, || 1000)
}

/// How the store below such a one is opened.
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

/// Directories in memory, one for each tier.
fn directories(tiers: usize) -> Directories {
    (1..tiers).fold(Directories::from(memory()), |all, _| all.and(memory()))
}

/// As [`small`], with all that compactions write on the second tier, if there is one.
fn spread() -> Options {
    small().fast_bytes(0)
}

fn pairs(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    keyspace
        .unordered()
        .map(|pair| pair.unwrap())
        .map(|(key, value)| (key, value.into_vec()))
        .collect()
}

/// A keyspace of each kind that lasts, named after it.
fn one_of_each(db: &Db, options: &KeyspaceOptions) -> Vec<Keyspace> {
    let keyspace = |structure| db.keyspace_in(&format!("{structure:?}"), structure, options);
    let lasting = Structure::ALL.into_iter().filter(|structure| structure.lasts());
    lasting.map(|structure| keyspace(structure).unwrap()).collect()
}

/// A keyspace in the tree and one in the map: the manifest lists these two.
fn tree_and_map(db: &Db, options: &KeyspaceOptions) -> Vec<Keyspace> {
    let keyspace = |structure| db.keyspace_in(&format!("{structure:?}"), structure, options);
    let both = [Structure::Tiered, Structure::Map];
    both.map(|structure| keyspace(structure).unwrap()).into()
}
