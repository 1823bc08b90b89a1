//! Key lookups in a single version of a structure.

use super::{StructureVersion, VersionCell, VersionGuard, VersionStamp};
use crate::fetch::{BlockingFetch, NodeFetch};
use crate::key::LookupKey;
use crate::lookup::{BatchKeySearch, LookupReader, search_each};
use crate::lookup_state::LookupState;
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_storage::store::Store;
use alluvium_storage::{EpochGuard, Result};
use std::fmt;
use std::task::Poll;

/// How to search a version of a structure. This is the lookup step that [`LookupReader`] requires.
pub trait VersionSearch {
    /// The type of the structure's versions.
    type Version: StructureVersion;
    /// The position of the search for one key in a version.
    type Search: Default + fmt::Debug + Send;

    fn versions(&self) -> &VersionCell<Self::Version>;

    fn store(&self) -> &Store;

    /// Like [`LookupReader::search`], but in the given version.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn search<F: NodeFetch>(
        &self,
        version: &Self::Version,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
        search: &mut Self::Search,
        fetch: &F,
    ) -> Poll<Result<()>>;

    /// Like [`LookupReader::search_together`], but in the given version.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn search_together<F: NodeFetch>(
        &self,
        version: &Self::Version,
        open: &mut [BatchKeySearch<Self::Search>],
        keys: &[LookupKey<'_>],
        gathers: &mut [LookupState<'_>],
        fetch: &F,
    ) -> Result<()> {
        search_each(open, |index, search| {
            self.search(version, keys[index], &mut gathers[index], search, fetch)
        })
    }

    /// Like [`LookupReader::restart`]. By default, creates a new search.
    fn restart(search: &mut Self::Search) {
        *search = Self::Search::default();
    }

    /// Like [`LookupReader::ended`], but for the given version.
    fn ended(&self, _version: &Self::Version, _key: LookupKey<'_>) {}
}

/// A reader of one version of a structure, which stays readable until the reader is dropped. A
/// reader should be short-lived, because space that is freed during its lifetime cannot be reused
/// until it is dropped.
///
/// A caller that also reads memtables must load their list before it creates a reader. It must skip
/// memtables with commits at or below the reader's cut, because the structure already contains
/// them.
pub struct VersionReader<'s, S: VersionSearch> {
    structure: &'s S,
    // The field order matters: the version must be dropped before the guard that keeps it readable.
    version: VersionGuard<S::Version>,
    guard: EpochGuard,
}

impl<'s, S: VersionSearch> VersionReader<'s, S> {
    /// Creates a reader of the current version.
    #[inline]
    pub fn new(structure: &'s S) -> VersionReader<'s, S> {
        let guard = structure.store().epochs().pin();
        VersionReader {
            structure,
            version: structure.versions().peek(),
            guard,
        }
    }
}

impl<S: VersionSearch> fmt::Debug for VersionReader<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VersionStamp { number, cut, .. } = self.version.stamp();
        f.debug_struct("VersionReader")
            .field("version", number)
            .field("cut", cut)
            .finish_non_exhaustive()
    }
}

impl<S: VersionSearch> LookupReader for VersionReader<'_, S> {
    type Search = S::Search;

    #[inline]
    fn cut(&self) -> SequenceNumber {
        self.version.stamp().cut
    }

    #[inline]
    fn state(&self) -> u64 {
        self.version.stamp().number
    }

    #[inline]
    fn nodes(&self) -> BlockingFetch<'_> {
        BlockingFetch {
            cache: self.structure.store().cache(),
            guard: &self.guard,
            purpose: Purpose::Lookup,
        }
    }

    #[inline]
    fn search<F: NodeFetch>(
        &self,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
        search: &mut S::Search,
        fetch: &F,
    ) -> Poll<Result<()>> {
        self.structure.search(&self.version, key, gather, search, fetch)
    }

    #[inline]
    fn search_together<F: NodeFetch>(
        &self,
        open: &mut [BatchKeySearch<S::Search>],
        keys: &[LookupKey<'_>],
        gathers: &mut [LookupState<'_>],
        fetch: &F,
    ) -> Result<()> {
        self.structure
            .search_together(&self.version, open, keys, gathers, fetch)
    }

    #[inline]
    fn new_search(&self) -> S::Search {
        S::Search::default()
    }

    #[inline]
    fn restart(&self, search: &mut S::Search) {
        S::restart(search);
    }

    #[inline]
    fn ended(&self, key: LookupKey<'_>) {
        self.structure.ended(&self.version, key);
    }
}
