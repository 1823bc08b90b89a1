//! Runs. A run stores records in leaves, ordered by the hashes of their keys. An index locates the
//! leaf of a hash.
//!
//! *Scope*: where the leaves and values of a run are stored; which leaf contains a hash; how a run
//! is written and read sequentially.
//!
//! *Must not depend on*: which runs a structure has, and their order by age.
//!
//! Invariants:
//!
//! - **N1** Order R1 holds across all leaves of a run. Every leaf after the first starts with a
//!   record that contains its own key.
//! - **N2** An extent of a run contains no data of other runs.
//! - **N3** If a run has a filter, the filter contains every hash of the run. In memory, a filter
//!   may be reduced to the pages for the hashes that can still be queried.

mod build;
mod check;
mod cursor;
mod find;
mod format;
mod hash_deltas;
mod records;
mod window;

pub use build::{HashRunBuilder, RunMessage, RunOptions, WrittenHashRun};
pub use cursor::HashRunCursor;
pub use find::{HashPrefixRange, RunLookupKey, find, find_in_group};
pub use records::{HashRecordBuffer, OwnedHashRecord};
pub use window::{read_keys, read_window, window_end};

use super::index::LeafIndex;
use super::pages::{PageList, StoredDescription};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::key::SEED;
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::read::DataFiles;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_filters::listed;
use alluvium_storage::extents::Extent;
use alluvium_storage::memory::ZeroedBuffer;
use alluvium_storage::{DiskLocation, Error, NodePointer, PageSize, Result};
use std::ops::Range;
use std::sync::Arc;

/// The filter of a run, which excludes most hashes that the run does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashRunFilter {
    /// Disjoint parts of the filter. A complete filter has a single part. Large parts are mapped
    /// memory rather than heap allocations: filters of several megabytes come and go frequently,
    /// and an allocator would retain several times the memory in use.
    parts: Arc<[listed::ListedFilter<ZeroedBuffer>]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDescription {
    /// Locations and checksums of the leaves.
    pages: PageList,
    pub(super) index: LeafIndex,
    pub(super) filter: Option<HashRunFilter>,
    /// Range deletes of the run.
    pub(super) deletes: Arc<RangeTombstoneIndex>,
    /// All extents and their live bytes, excluding the extents of the description.
    extents: Box<[(Extent, u64)]>,
    pub(super) records: u64,
    pub(super) tombstones: u64,
    pub(super) hashes: u64,
    /// Total size of all keys and values, in bytes.
    pub(super) bytes: u64,
    newest: SequenceNumber,
}

/// A run stored on the device.
#[derive(Clone, Debug)]
pub struct HashRun {
    meta: Arc<RunDescription>,
    /// Number to add to each relative sequence number in the leaves.
    base: SequenceNumber,
    /// Seed with which the keys were hashed.
    seed: u64,
    described: StoredDescription,
}

impl HashRunFilter {
    /// Builds a filter from ascending hashes.
    ///
    /// # Errors
    /// The same errors as [`listed::write`].
    pub(super) fn build(
        hashes: impl Iterator<Item = u64>,
        shape: listed::ListedShape,
    ) -> alluvium_filters::Result<HashRunFilter> {
        let mut bytes = ZeroedBuffer::zeroed(shape.most_bytes());
        let len = listed::write(shape, hashes, &mut bytes)?;
        bytes.truncate(len);
        Ok(HashRunFilter::of(listed::ListedFilter::open(bytes)?))
    }

    fn of(all: listed::ListedFilter<ZeroedBuffer>) -> HashRunFilter {
        HashRunFilter {
            parts: Arc::new([all]),
        }
    }

    /// Returns the complete filter, or `None` if some of its pages were dropped.
    fn whole(&self) -> Option<&listed::ListedFilter<ZeroedBuffer>> {
        self.parts.first().filter(|part| part.is_whole())
    }

    /// Returns whether the run may contain a hash. Always true if the page for the hash has been
    /// dropped.
    ///
    /// # Errors
    /// [`alluvium_filters::Error::Damaged`] if the filter is damaged.
    #[inline]
    pub fn may_hold(&self, hash: u64) -> alluvium_filters::Result<bool> {
        for part in &*self.parts {
            if !part.may_hold(hash)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns a filter with only the pages for `hashes`, which must be ascending inclusive ranges.
    /// Returns `None` if no page can be dropped.
    fn trimmed(&self, hashes: &[(u64, u64)]) -> Option<HashRunFilter> {
        let shape = self.parts.first()?.shape();
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for &(first, last) in hashes {
            let (first, end) = (shape.page_of(first), shape.page_of(last) + 1);
            match ranges.last_mut() {
                Some(before) if first <= before.end => before.end = end,
                _ => ranges.push(first..end),
            }
        }
        let kept: usize = self.parts.iter().map(|part| part.pages().len()).sum();
        let wanted: usize = ranges.iter().map(Range::len).sum();
        if wanted >= kept {
            return None;
        }
        let cut = |range: &Range<u32>| {
            let mut parts = self.parts.iter();
            parts.find_map(|part| part.part(range.clone(), ZeroedBuffer::zeroed))
        };
        let parts: Option<Vec<_>> = ranges.iter().map(cut).collect();
        Some(HashRunFilter { parts: parts?.into() })
    }

    fn memory_bytes(&self) -> usize {
        let bytes = self.parts.iter().map(|part| part.bytes().len());
        bytes.sum::<usize>() + size_of_val(&*self.parts)
    }
}

impl RunDescription {
    /// Returns the number of leaves.
    pub(super) fn leaves(&self) -> u64 {
        self.pages.len()
    }

    /// Returns the location of a leaf, or `None` if there is no leaf with this number.
    #[inline]
    #[must_use]
    pub fn leaf(&self, number: u64) -> Option<NodePointer> {
        self.pages.get(number)
    }

    /// Returns the size of the description in memory, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, HashRunFilter::memory_bytes);
        let rest = size_of_val(&*self.extents) + self.deletes.memory_bytes() + size_of::<RunDescription>();
        self.index.memory_bytes() + self.pages.memory_bytes() + (filter + rest) as u64
    }
}

impl HashRun {
    /// Opens a run by reading its description from the device, bypassing the cache.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the description is damaged; I/O errors.
    pub fn open(
        files: DataFiles<'_>,
        pointer: &ValuePointer,
        base: SequenceNumber,
        purpose: Purpose,
    ) -> Result<HashRun> {
        let (bytes, described) = StoredDescription::read(files, pointer, purpose)?;
        let meta = RunDescription::decode(&bytes, &pointer.node.place(), files.page_size)?;
        Ok(HashRun {
            meta: Arc::new(meta),
            base,
            seed: SEED,
            described,
        })
    }

    /// Replaces the description's extents with those at the same locations in the store's extent
    /// map.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the extent map has no extent at one of the locations.
    pub fn mapped(mut self, holding: impl Fn(u8, u64) -> Option<Extent>) -> Result<HashRun> {
        self.described = self.described.mapped(holding)?;
        Ok(self)
    }

    /// Sets the seed with which the run's keys were hashed.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> HashRun {
        self.seed = seed;
        self
    }

    /// Returns the seed with which the run's keys were hashed.
    #[must_use]
    #[inline]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Sets the number to add to each relative sequence number in the leaves.
    #[must_use]
    pub fn based(mut self, base: SequenceNumber) -> HashRun {
        self.base = base;
        self
    }

    /// Returns the run with its filter reduced to `hashes`, which must be ascending inclusive
    /// ranges. Returns `None` if no page of the filter can be dropped.
    pub(super) fn trimmed(&self, hashes: &[(u64, u64)]) -> Option<HashRun> {
        let filter = self.meta.filter.as_ref()?.trimmed(hashes)?;
        let meta = RunDescription {
            filter: Some(filter),
            ..RunDescription::clone(&self.meta)
        };
        Some(HashRun {
            meta: Arc::new(meta),
            ..self.clone()
        })
    }

    /// Returns the number to add to each relative sequence number in the leaves.
    #[must_use]
    pub fn base(&self) -> SequenceNumber {
        self.base
    }

    /// Returns the pointer to the run's description.
    #[must_use]
    pub fn pointer(&self) -> &ValuePointer {
        &self.described.pointer
    }

    /// Returns the location of the description, for error messages.
    #[must_use]
    pub fn place(&self) -> DiskLocation {
        self.described.place()
    }

    /// Returns the page size of the store.
    pub(in crate::hashed) fn page_size(&self) -> PageSize {
        self.meta.pages.page_size
    }

    /// Returns each extent of the run exactly once, with the number of its live bytes (N2).
    pub fn extents(&self) -> impl Iterator<Item = (Extent, u64)> + '_ {
        self.meta.extents.iter().chain(&*self.described.extents).copied()
    }

    /// Returns the newest absolute sequence number among the run's records and range deletes.
    #[must_use]
    pub fn newest(&self) -> SequenceNumber {
        let deleted = self.meta.deletes.sequences().next_back().unwrap_or(0);
        match self.meta.records {
            0 => deleted,
            _ => deleted.max(self.base + self.meta.newest),
        }
    }

    /// Returns the approximate total size of all keys and values, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.meta.bytes
    }

    /// Returns the number of records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.meta.records
    }

    /// Returns the number of tombstones in the run.
    #[must_use]
    pub fn tombstones(&self) -> u64 {
        self.meta.tombstones
    }

    /// Returns the number of leaves in the run.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        self.meta.leaves()
    }

    /// Returns the range deletes of the run.
    #[must_use]
    pub fn range_deletes(&self) -> &Arc<RangeTombstoneIndex> {
        &self.meta.deletes
    }

    /// Returns the size of the opened run in memory, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.meta.memory_bytes() + self.described.memory_bytes() + size_of::<HashRun>() as u64
    }

    /// Returns the total number of live bytes in the run's extents.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.extents().map(|(_, live)| live).sum()
    }

    /// Returns the numbers of the leaves that may contain a hash.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the index is damaged.
    #[inline]
    pub fn leaves_of(&self, hash: u64) -> Result<Range<u64>> {
        if self.meta.pages.is_empty() {
            return Ok(0..0);
        }
        self.meta.index.leaves(hash).map_err(|error| self.damaged(&error))
    }

    /// Returns whether the run has a filter.
    #[must_use]
    pub fn has_filter(&self) -> bool {
        self.meta.filter.is_some()
    }

    /// Returns whether the run may contain a hash. Without a filter, this is true if the run has
    /// any records.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the filter is damaged.
    #[inline]
    pub fn may_hold(&self, hash: u64) -> Result<bool> {
        match &self.meta.filter {
            Some(filter) => filter.may_hold(hash).map_err(|error| self.damaged(&error)),
            None => Ok(self.meta.records > 0),
        }
    }

    /// Returns the location of a leaf.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there is no leaf with this number.
    #[inline]
    pub fn leaf(&self, number: u64) -> Result<NodePointer> {
        self.meta.leaf(number).ok_or_else(|| self.no_leaf(number))
    }

    #[cold]
    fn no_leaf(&self, number: u64) -> Error {
        let expected = format!("an index of {} leaves", self.leaves());
        Error::corrupt(self.place(), expected, format!("leaf {number}"))
    }

    #[cold]
    fn damaged(&self, error: &alluvium_filters::Error) -> Error {
        Error::corrupt(self.place(), "an index or filter of a run", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: u64) -> Vec<u64> {
        let step = u64::MAX / count;
        (0..count).map(|at| at * step + at % 1000).collect()
    }

    #[test]
    fn a_filter_that_is_trimmed_says_the_same_of_hashes_that_are_asked() {
        let hashes = hashes(30_000);
        let shape = listed::ListedShape::new(hashes.len() as u64, 12).unwrap();
        let filter = HashRunFilter::build(hashes.iter().copied(), shape).unwrap();
        let quarter = u64::MAX / 4;
        let kept = [(0, quarter), (quarter * 3, u64::MAX)];
        let trimmed = filter.trimmed(&kept).expect("half of its pages go");
        assert!(trimmed.memory_bytes() * 2 < filter.memory_bytes() + 4 * 2048);
        assert!(trimmed.whole().is_none());
        let mut random = fastrand::Rng::with_seed(1);
        let others: Vec<u64> = (0..30_000).map(|_| random.u64(..)).collect();
        for &hash in hashes.iter().chain(&others) {
            let (whole, part) = (filter.may_hold(hash).unwrap(), trimmed.may_hold(hash).unwrap());
            let is_asked = kept.iter().any(|&(first, last)| (first..=last).contains(&hash));
            assert!(part || !whole, "a filter never says no in vain");
            assert!(!is_asked || part == whole);
        }
        assert_eq!(trimmed.trimmed(&kept), None, "nothing more goes");
        let none = trimmed.trimmed(&[]).expect("all of it goes");
        assert!(none.memory_bytes() == 0 && none.may_hold(hashes[0]).unwrap());
        assert_eq!(filter.trimmed(&[(0, u64::MAX)]), None);
        let less = trimmed.trimmed(&kept[1..]).expect("half of the rest goes");
        assert_eq!(Some(less), filter.trimmed(&kept[1..]));
    }
}
