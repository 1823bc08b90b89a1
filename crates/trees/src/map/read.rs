//! Point lookups in a map. The map is in memory, so a lookup never waits.

use super::{Map, Version};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::Fetch;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::versioned::{VersionReader, VersionSearch, Versioned};
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use std::task::Poll;

/// A reader of one version of a map.
pub type Reader<'m> = VersionReader<'m, Map>;

impl contract::Lookup for Map {
    type Reader<'m> = Reader<'m>;

    fn reader(&self) -> Reader<'_> {
        VersionReader::new(self)
    }
}

impl VersionSearch for Map {
    type Version = Version;
    /// A search completes in its first step, so it has no state.
    type Search = ();

    fn versions(&self) -> &Versioned<Version> {
        &self.shared.versions
    }

    fn store(&self) -> &Store {
        &self.shared.home.store
    }

    fn search<F: Fetch>(
        &self,
        version: &Version,
        key: Key<'_>,
        gather: &mut Gather<'_>,
        _search: &mut (),
        _fetch: &F,
    ) -> Poll<Result<()>> {
        if let Some(entries) = version.keys.get(key.bytes()) {
            for entry in entries.iter() {
                if gather.message(&entry.message()).is_break() {
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
