//! Point lookups in a map: all of it is in memory, so that none ever waits.

use super::{Map, Version};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::{Blocking, Fetch};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_storage::{Guard, Result};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// Reads one version of a map.
pub struct Reader<'m> {
    map: &'m Map,
    version: arc_swap::Guard<Arc<Version>>,
    guard: Guard,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("version", &self.version.number)
            .field("cut", &self.version.cut)
            .finish_non_exhaustive()
    }
}

impl contract::Lookup for Map {
    type Reader<'m> = Reader<'m>;

    fn reader(&self) -> Reader<'_> {
        Reader {
            map: self,
            guard: self.shared.home.store.epochs().pin(),
            version: self.shared.version.load(),
        }
    }
}

impl contract::Reader for Reader<'_> {
    /// A search ends in its first step.
    type Search = ();

    fn cut(&self) -> Sequence {
        self.version.cut
    }

    fn state(&self) -> u64 {
        self.version.number
    }

    fn nodes(&self) -> Blocking<'_> {
        Blocking {
            cache: self.map.shared.home.store.cache(),
            guard: &self.guard,
            purpose: Purpose::Lookup,
        }
    }

    fn new_search(&self) {}

    fn search<F: Fetch>(
        &self,
        key: Key<'_>,
        gather: &mut Gather<'_>,
        _search: &mut (),
        _fetch: &F,
    ) -> Poll<Result<()>> {
        if let Some(entries) = self.version.keys.get(key.bytes()) {
            for entry in entries.iter() {
                if gather.message(&entry.message()).is_break() {
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
