//! Static dispatch over the structures (kinds of dictionaries) of a store. A keyspace's structure
//! is known when a read begins. The read code is compiled once for each structure, so that no
//! function is called through a pointer.

use alluvium_base::SequenceNumber;
use alluvium_dictionary::contract::{
    self, Dictionary, DictionaryScan as _, OrderedDictionary as _, PointLookup as _,
};
use alluvium_dictionary::fetch::{BlockingFetch, NodeFetch};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup::{self, batch};
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_hashes::hashed::{self, HashedStructure};
use alluvium_storage::Result;
use alluvium_trees::levels::{self, LevelsDictionary};
use alluvium_trees::map::{self, OrderedMap};
use alluvium_trees::paged::{self, PagedDictionary};
use alluvium_trees::tiered::{self, TieredTree};
use std::sync::Arc;
use std::task::Poll;

/// Evaluates the same expression for each structure. The first form wraps the result in the enum
/// variant of that structure.
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

/// A reference to one of the store's dictionaries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StructureRef<'d> {
    Tiered(&'d TieredTree),
    Levels(&'d LevelsDictionary),
    Hashed(&'d HashedStructure),
    Paged(&'d PagedDictionary),
    Map(&'d OrderedMap),
}

impl<'d> StructureRef<'d> {
    /// Returns the dictionary as a trait object.
    pub(crate) fn dictionary(self) -> &'d dyn Dictionary {
        each!(StructureRef, self, own => own)
    }

    /// Returns whether the dictionary is known to have no data, neither records nor deletes. Only
    /// levels and hashed structures tell.
    pub(crate) fn is_empty(self) -> bool {
        match self {
            StructureRef::Levels(own) => own.is_empty(),
            StructureRef::Hashed(own) => own.is_empty(),
            StructureRef::Tiered(_) | StructureRef::Paged(_) | StructureRef::Map(_) => false,
        }
    }

    /// Creates a reader of the dictionary's current version. A read that also searches memtables
    /// must load the list of memtables first.
    #[inline]
    pub(crate) fn reader(self) -> StructureReader<'d> {
        each!(StructureRef => StructureReader, self, own => own.reader())
    }

    /// Begins a scan of a key range. If the dictionary does not order its keys, the scan returns
    /// them in hash order.
    pub(crate) fn scan(
        self,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> StructureScan {
        match self {
            StructureRef::Tiered(own) => {
                StructureScan::Tiered(own.scan(memtables, range, direction, at, now_ms))
            }
            StructureRef::Levels(own) => {
                StructureScan::Levels(own.scan(memtables, range, direction, at, now_ms))
            }
            StructureRef::Hashed(own) => {
                let walk = own.walk(memtables, range, at, now_ms);
                #[cfg(test)]
                let walk = super::sorted_scan::SortedScan::new(walk, direction);
                StructureScan::Hashed(walk)
            }
            StructureRef::Paged(own) => {
                StructureScan::Paged(own.scan(memtables, range, direction, at, now_ms))
            }
            StructureRef::Map(own) => StructureScan::Map(own.scan(memtables, range, direction, at, now_ms)),
        }
    }
}

/// A reader of one version of a dictionary.
#[allow(
    clippy::large_enum_variant,
    reason = "it is on the stack for the length of a lookup"
)]
#[derive(Debug)]
pub(crate) enum StructureReader<'d> {
    Tiered(tiered::TreeReader<'d>),
    Levels(levels::LevelsReader<'d>),
    Hashed(hashed::HashedReader<'d>),
    Paged(paged::PagedReader<'d>),
    Map(map::MapReader<'d>),
}

/// The position at which a suspended lookup resumes in a dictionary.
#[derive(Debug)]
pub(crate) enum StructureSearch {
    Tiered(tiered::TreeSearch),
    Levels(levels::LevelsSearch),
    Hashed(hashed::HashedSearch),
    Paged(()),
    Map(()),
}

impl StructureReader<'_> {
    /// Searches the dictionary for a key and passes the key's messages to `gather`. Waits for nodes
    /// that must be read from the device.
    #[inline]
    pub(crate) fn gather(&self, key: LookupKey<'_>, gather: &mut LookupState<'_>) -> Result<()> {
        each!(StructureReader, self, own => lookup::gather(own, key, gather))
    }

    /// Searches the dictionary for several keys. A node that several of these lookups wait for is
    /// read only once, along with other nodes.
    pub(crate) fn gather_many(&self, keys: &[LookupKey<'_>], gathers: &mut [LookupState<'_>]) -> Result<()> {
        each!(StructureReader, self, own => batch::gather_many(own, keys, gathers))
    }

    /// Like [`StructureReader::gather_many`], but never reads from the device. Returns whether
    /// every lookup completed.
    pub(crate) fn gather_many_in_memory(
        &self,
        keys: &[LookupKey<'_>],
        gathers: &mut [LookupState<'_>],
    ) -> Result<bool> {
        each!(StructureReader, self, own => batch::gather_many_in_memory(own, keys, gathers))
    }
}

impl contract::LookupReader for StructureReader<'_> {
    type Search = StructureSearch;

    #[inline]
    fn cut(&self) -> SequenceNumber {
        each!(StructureReader, self, own => own.cut())
    }

    #[inline]
    fn state(&self) -> u64 {
        each!(StructureReader, self, own => own.state())
    }

    #[inline]
    fn nodes(&self) -> BlockingFetch<'_> {
        each!(StructureReader, self, own => own.nodes())
    }

    #[inline]
    fn search<F: NodeFetch>(
        &self,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
        search: &mut StructureSearch,
        fetch: &F,
    ) -> Poll<Result<()>> {
        match (self, search) {
            (StructureReader::Tiered(own), StructureSearch::Tiered(search)) => {
                own.search(key, gather, search, fetch)
            }
            (StructureReader::Levels(own), StructureSearch::Levels(search)) => {
                own.search(key, gather, search, fetch)
            }
            (StructureReader::Hashed(own), StructureSearch::Hashed(search)) => {
                own.search(key, gather, search, fetch)
            }
            (StructureReader::Paged(own), StructureSearch::Paged(search)) => {
                own.search(key, gather, search, fetch)
            }
            (StructureReader::Map(own), StructureSearch::Map(search)) => {
                own.search(key, gather, search, fetch)
            }
            _ => unreachable!("a search goes on in the structure that it was begun in"),
        }
    }

    fn new_search(&self) -> StructureSearch {
        each!(StructureReader => StructureSearch, self, own => own.new_search())
    }

    fn restart(&self, search: &mut StructureSearch) {
        match (self, search) {
            (StructureReader::Tiered(own), StructureSearch::Tiered(search)) => own.restart(search),
            (StructureReader::Levels(own), StructureSearch::Levels(search)) => own.restart(search),
            (StructureReader::Hashed(own), StructureSearch::Hashed(search)) => own.restart(search),
            (StructureReader::Paged(own), StructureSearch::Paged(search)) => own.restart(search),
            (StructureReader::Map(own), StructureSearch::Map(search)) => own.restart(search),
            _ => unreachable!("a search goes on in the structure that it was begun in"),
        }
    }

    #[inline]
    fn ended(&self, key: LookupKey<'_>) {
        each!(StructureReader, self, own => own.ended(key));
    }
}

/// A scan of a key range in one of the dictionaries.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all of them are of the first kind"
)]
#[derive(Debug)]
pub(crate) enum StructureScan {
    Tiered(tiered::TreeIter),
    Levels(levels::LevelsIter),
    /// Returns the keys in hash order.
    #[cfg(not(test))]
    Hashed(hashed::UnorderedIter),
    /// Returns the keys in key order, because tests expect this of every structure.
    #[cfg(test)]
    Hashed(super::sorted_scan::SortedScan),
    Paged(paged::PagedIter),
    Map(map::MapIter),
}

impl StructureScan {
    /// Positions the scan so that the next key returned is the first one at or after `key` in the
    /// scan's direction.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        each!(StructureScan, self, own => own.seek(key));
    }

    /// Makes the scan return an empty value in place of each long value from now on.
    pub(crate) fn leave_out_long_values(&mut self) {
        each!(StructureScan, self, own => own.leave_out_long_values());
    }

    /// Announces about how many bytes will be read.
    pub(crate) fn expect_bytes(&mut self, bytes: usize) {
        each!(StructureScan, self, own => own.expect_bytes(bytes));
    }

    /// Returns the next live key and its value, or `None` at the end of the range.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        each!(StructureScan, self, own => own.next())
    }
}
