//! Static dispatch over the structures of a store. The structure of a keyspace is known when a read
//! begins, and the code of each structure is compiled in: there are no calls through pointers.

use alluvium_base::Sequence;
use alluvium_dictionary::contract::{self, Dictionary, Lookup as _, Ordered as _, Scan as _};
use alluvium_dictionary::fetch::{Blocking, Fetch};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::lookup::{self, batch};
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_hashes::hashed::{self, Hashed};
use alluvium_storage::Result;
use alluvium_trees::levels::{self, Levels};
use alluvium_trees::map::{self, Map};
use alluvium_trees::paged::{self, Paged};
use alluvium_trees::tiered::{self, Tree};
use std::sync::Arc;
use std::task::Poll;

/// Runs the same code for each structure. The first form wraps the result in the variant of the
/// same structure.
macro_rules! each {
    ($kind:ident => $made:ident, $value:expr, $own:ident => $does:expr) => {
        match $value {
            $kind::Tiered($own) => $made::Tiered($does),
            $kind::Levels($own) => $made::Levels($does),
            $kind::Hashed($own) => $made::Hashed($does),
            $kind::Paged($own) => $made::Paged($does),
            $kind::Map($own) => $made::Map($does),
        }
    };
    ($kind:ident, $value:expr, $own:ident => $does:expr) => {
        match $value {
            $kind::Tiered($own) => $does,
            $kind::Levels($own) => $does,
            $kind::Hashed($own) => $does,
            $kind::Paged($own) => $does,
            $kind::Map($own) => $does,
        }
    };
}

/// A reference to one of the store's structures.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StructureRef<'d> {
    Tiered(&'d Tree),
    Levels(&'d Levels),
    Hashed(&'d Hashed),
    Paged(&'d Paged),
    Map(&'d Map),
}

impl<'d> StructureRef<'d> {
    /// Returns the structure as a trait object.
    pub(crate) fn dictionary(self) -> &'d dyn Dictionary {
        each!(StructureRef, self, own => own)
    }

    /// Returns a reader of the current state. A read that includes memtables must load their list
    /// first.
    #[inline]
    pub(crate) fn reader(self) -> Reader<'d> {
        each!(StructureRef => Reader, self, own => own.reader())
    }

    /// Begins a scan of a range. The order is by hash if the structure does not order keys.
    pub(crate) fn scan(
        self,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
        now_ms: u64,
    ) -> Scan {
        match self {
            StructureRef::Tiered(own) => Scan::Tiered(own.scan(memtables, range, direction, at, now_ms)),
            StructureRef::Levels(own) => Scan::Levels(own.scan(memtables, range, direction, at, now_ms)),
            StructureRef::Hashed(own) => {
                let walk = own.walk(memtables, range, at, now_ms);
                #[cfg(test)]
                let walk = super::sorted::Sorted::new(walk, direction);
                Scan::Hashed(walk)
            }
            StructureRef::Paged(own) => Scan::Paged(own.scan(memtables, range, direction, at, now_ms)),
            StructureRef::Map(own) => Scan::Map(own.scan(memtables, range, direction, at, now_ms)),
        }
    }
}

/// A reader of one state of a dictionary.
#[allow(
    clippy::large_enum_variant,
    reason = "it is on the stack for the length of a lookup"
)]
#[derive(Debug)]
pub(crate) enum Reader<'d> {
    Tiered(tiered::Reader<'d>),
    Levels(levels::Reader<'d>),
    Hashed(hashed::Reader<'d>),
    Paged(paged::Reader<'d>),
    Map(map::Reader<'d>),
}

/// The position of a suspended lookup.
#[derive(Debug)]
pub(crate) enum Search {
    Tiered(tiered::Search),
    Levels(levels::Search),
    Hashed(hashed::Search),
    Paged(()),
    Map(()),
}

impl Reader<'_> {
    /// Feeds messages for one key to `gather`. Waits for the nodes that it needs.
    #[inline]
    pub(crate) fn gather(&self, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
        each!(Reader, self, own => lookup::gather(own, key, gather))
    }

    /// Feeds messages for many keys. Nodes that several lookups wait for are read together.
    pub(crate) fn gather_many(&self, keys: &[Key<'_>], gathers: &mut [Gather<'_>]) -> Result<()> {
        each!(Reader, self, own => batch::gather_many(own, keys, gathers))
    }

    /// The same without device reads. Returns whether every lookup was completed.
    pub(crate) fn gather_many_in_memory(&self, keys: &[Key<'_>], gathers: &mut [Gather<'_>]) -> Result<bool> {
        each!(Reader, self, own => batch::gather_many_in_memory(own, keys, gathers))
    }
}

impl contract::Reader for Reader<'_> {
    type Search = Search;

    #[inline]
    fn cut(&self) -> Sequence {
        each!(Reader, self, own => own.cut())
    }

    #[inline]
    fn state(&self) -> u64 {
        each!(Reader, self, own => own.state())
    }

    #[inline]
    fn nodes(&self) -> Blocking<'_> {
        each!(Reader, self, own => own.nodes())
    }

    #[inline]
    fn search<F: Fetch>(
        &self,
        key: Key<'_>,
        gather: &mut Gather<'_>,
        search: &mut Search,
        fetch: &F,
    ) -> Poll<Result<()>> {
        match (self, search) {
            (Reader::Tiered(own), Search::Tiered(search)) => own.search(key, gather, search, fetch),
            (Reader::Levels(own), Search::Levels(search)) => own.search(key, gather, search, fetch),
            (Reader::Hashed(own), Search::Hashed(search)) => own.search(key, gather, search, fetch),
            (Reader::Paged(own), Search::Paged(search)) => own.search(key, gather, search, fetch),
            (Reader::Map(own), Search::Map(search)) => own.search(key, gather, search, fetch),
            _ => unreachable!("a search goes on in the structure that it was begun in"),
        }
    }

    fn new_search(&self) -> Search {
        each!(Reader => Search, self, own => own.new_search())
    }

    fn restart(&self, search: &mut Search) {
        match (self, search) {
            (Reader::Tiered(own), Search::Tiered(search)) => own.restart(search),
            (Reader::Levels(own), Search::Levels(search)) => own.restart(search),
            (Reader::Hashed(own), Search::Hashed(search)) => own.restart(search),
            (Reader::Paged(own), Search::Paged(search)) => own.restart(search),
            (Reader::Map(own), Search::Map(search)) => own.restart(search),
            _ => unreachable!("a search goes on in the structure that it was begun in"),
        }
    }

    #[inline]
    fn ended(&self, key: Key<'_>) {
        each!(Reader, self, own => own.ended(key));
    }
}

/// A scan of a key range.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all of them are of the first kind"
)]
#[derive(Debug)]
pub(crate) enum Scan {
    Tiered(tiered::Iter),
    Levels(levels::Iter),
    /// In hash order.
    #[cfg(not(test))]
    Hashed(hashed::Iter),
    /// In key order, which tests expect of every structure.
    #[cfg(test)]
    Hashed(super::sorted::Sorted),
    Paged(paged::Iter),
    Map(map::Iter),
}

impl Scan {
    /// Positions the scan before the first key at or after `key`, in the direction of the scan.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        each!(Scan, self, own => own.seek(key));
    }

    /// Returns long values as empty values from now on.
    pub(crate) fn leave_out_long_values(&mut self) {
        each!(Scan, self, own => own.leave_out_long_values());
    }

    /// Returns the next live key and its value.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        each!(Scan, self, own => own.next())
    }
}
