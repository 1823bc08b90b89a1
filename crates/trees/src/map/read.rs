//! Point lookups in a map. A lookup never waits, because the map is in memory.

use super::{MapVersion, OrderedMap};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::versioned::{VersionCell, VersionReader, VersionSearch};
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use std::task::Poll;

/// A reader of one version of a map.
pub type MapReader<'m> = VersionReader<'m, OrderedMap>;

impl contract::PointLookup for OrderedMap {
    type Reader<'m> = MapReader<'m>;

    fn reader(&self) -> MapReader<'_> {
        VersionReader::new(self)
    }
}

impl VersionSearch for OrderedMap {
    type Version = MapVersion;
    /// A lookup completes in its first step, so it has no state.
    type Search = ();

    fn versions(&self) -> &VersionCell<MapVersion> {
        &self.shared.versions
    }

    fn store(&self) -> &Store {
        &self.shared.home.store
    }

    fn search<F: NodeFetch>(
        &self,
        version: &MapVersion,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
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
