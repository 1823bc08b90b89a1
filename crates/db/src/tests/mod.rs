//! The store with structures of every kind in it. No user can choose one, so these tests are inside
//! the crate.
//!
//! *Read in this order*: `contract.rs` (what users see is the same for each kind), `model.rs` (one
//! history, told to all of them), `copies.rs`, `crashes.rs`, `hostile.rs` (manifests).

mod contract;
mod copies;
mod crashes;
mod hostile;
mod kinds;
mod model;
#[path = "../../tests/it/story/mod.rs"]
mod story;

use crate::structure::Structure;
use crate::{Db, Keyspace, KeyspaceOptions, Options};
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;
use std::collections::BTreeMap;
use std::sync::Arc;

fn small() -> Options {
    Options::new().memory(16 << 20).workers(0)
}

fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

fn pairs(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    keyspace
        .iter()
        .map(|pair| pair.unwrap())
        .map(|(key, value)| (key, value.into_vec()))
        .collect()
}

/// A keyspace of each kind, named after it.
fn one_of_each(db: &Db, options: &KeyspaceOptions) -> Vec<Keyspace> {
    let keyspace = |structure| db.keyspace_in(&format!("{structure:?}"), structure, options);
    Structure::ALL
        .map(|structure| keyspace(structure).unwrap())
        .into()
}
