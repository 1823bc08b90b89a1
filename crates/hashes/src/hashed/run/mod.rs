//! Runs: records in the order of their keys' hashes, in leaves that an index finds.
//!
//! *Knows*: where a run's leaves and values are; which leaf has a hash; how a run is written and
//! read in order.
//!
//! *Does not know*: which runs a structure has, and which are newer.
//!
//! *Read in this order*: this file, `format.rs`, `build.rs`, `gathered.rs`, `find.rs`,
//! `records.rs`, `cursor.rs`, `window.rs`, `check.rs`.
//!
//! Invariants:
//!
//! - **N1** Leaves of a run ascend (R1 across them), and each but the first begins with a record
//!   that names its key.
//! - **N2** Every extent of a run belongs to it alone.
//! - **N3** Every hash of a run is in its filter, if it has one. In memory, a filter may have only
//!   the pages of some hashes: those that are still asked.

mod build;
mod check;
mod cursor;
mod find;
mod format;
mod gathered;
mod records;
mod window;

pub use build::{Builder, Message, RunOptions, Written};
pub use cursor::Cursor;
pub use find::{Group, Wanted, find, find_in_group};
pub use records::{Owned, Records};
pub use window::{read_keys, read_window, window_end};

use super::index::Index;
use super::pages::{Described, Pages};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::deletes::RangeDeletes;
use alluvium_dictionary::key::SEED;
use alluvium_dictionary::read::Files;
use alluvium_dictionary::values::ValuePointer;
use alluvium_filters::listed;
use alluvium_storage::extents::Extent;
use alluvium_storage::memory::Bytes;
use alluvium_storage::{Error, NodePointer, PageSize, Place, Result};
use std::ops::Range;
use std::sync::Arc;

/// Says of most hashes that are not in a run that they are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Parts that do not touch. All of it is one part. They come and go by megabytes, so that what
    /// an allocator keeps of them would be a multiple of what is there.
    parts: Arc<[listed::Filter<Bytes>]>,
}

/// What a run consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Its leaves.
    pages: Pages,
    pub(super) index: Index,
    pub(super) filter: Option<Filter>,
    /// Keys that the run says are deleted.
    pub(super) deletes: Arc<RangeDeletes>,
    /// All but those of the description, each with its live bytes.
    extents: Box<[(Extent, u64)]>,
    pub(super) records: u64,
    pub(super) tombstones: u64,
    pub(super) hashes: u64,
    /// Bytes of keys and values.
    pub(super) bytes: u64,
    newest: Sequence,
}

/// A run on the device.
#[derive(Clone, Debug)]
pub struct Run {
    meta: Arc<Meta>,
    /// What sequence numbers in its leaves are counted from.
    base: Sequence,
    /// What its keys are hashed with.
    seed: u64,
    /// Where its description is.
    described: Described,
}

impl Filter {
    /// Builds the filter of hashes that ascend.
    ///
    /// # Errors
    /// As [`listed::write`].
    pub(super) fn build(
        hashes: impl Iterator<Item = u64>,
        shape: listed::Shape,
    ) -> alluvium_filters::Result<Filter> {
        let mut bytes = Bytes::zeroed(shape.most_bytes());
        let len = listed::write(shape, hashes, &mut bytes)?;
        bytes.truncate(len);
        Ok(Filter::of(listed::Filter::open(bytes)?))
    }

    fn of(all: listed::Filter<Bytes>) -> Filter {
        Filter {
            parts: Arc::new([all]),
        }
    }

    /// Returns all of it; none where some pages are gone.
    fn whole(&self) -> Option<&listed::Filter<Bytes>> {
        self.parts.first().filter(|part| part.is_whole())
    }

    /// Returns whether a hash may be there: always where the page is gone that would tell.
    ///
    /// # Errors
    /// [`alluvium_filters::Error::Damaged`] when its bytes are not those of a filter.
    #[inline]
    pub fn may_hold(&self, hash: u64) -> alluvium_filters::Result<bool> {
        for part in &*self.parts {
            if !part.may_hold(hash)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the same filter with only those of its pages that tell of some hashes: ranges from
    /// the first hash to the last, in order. None where no page would go.
    fn trimmed(&self, hashes: &[(u64, u64)]) -> Option<Filter> {
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
            parts.find_map(|part| part.part(range.clone(), Bytes::zeroed))
        };
        let parts: Option<Vec<_>> = ranges.iter().map(cut).collect();
        Some(Filter { parts: parts?.into() })
    }

    fn memory_bytes(&self) -> usize {
        let bytes = self.parts.iter().map(|part| part.bytes().len());
        bytes.sum::<usize>() + size_of_val(&*self.parts)
    }
}

impl Meta {
    /// Returns how many leaves there are.
    pub(super) fn leaves(&self) -> u64 {
        self.pages.len()
    }

    /// Returns where a leaf is; none if there is no such leaf.
    #[inline]
    #[must_use]
    pub fn leaf(&self, number: u64) -> Option<NodePointer> {
        self.pages.get(number)
    }

    /// Returns the bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, Filter::memory_bytes);
        let rest = size_of_val(&*self.extents) + self.deletes.memory_bytes() + size_of::<Meta>();
        self.index.memory_bytes() + self.pages.memory_bytes() + (filter + rest) as u64
    }
}

impl Run {
    /// Reads the description of a run past the cache.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is damaged; as the device says.
    pub fn open(files: Files<'_>, pointer: &ValuePointer, base: Sequence, purpose: Purpose) -> Result<Run> {
        let (bytes, described) = Described::read(files, pointer, purpose)?;
        let meta = Meta::decode(&bytes, &pointer.node.place(), files.page_size)?;
        Ok(Run {
            meta: Arc::new(meta),
            base,
            seed: SEED,
            described,
        })
    }

    /// Returns the same run with the extents that a store's map has for its description.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when no extent is in use there.
    pub fn mapped(mut self, holding: impl Fn(u8, u64) -> Option<Extent>) -> Result<Run> {
        self.described = self.described.mapped(holding)?;
        Ok(self)
    }

    /// Returns the same run, whose keys are hashed with `seed`.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Run {
        self.seed = seed;
        self
    }

    /// Returns what its keys are hashed with.
    #[must_use]
    #[inline]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the same run, whose sequence numbers are counted from `base`.
    #[must_use]
    pub fn based(mut self, base: Sequence) -> Run {
        self.base = base;
        self
    }

    /// Returns the same run, whose filter has only what it says of some hashes, each range from the
    /// first hash to the last, in order. None where the filter would stay as it is.
    pub(super) fn trimmed(&self, hashes: &[(u64, u64)]) -> Option<Run> {
        let filter = self.meta.filter.as_ref()?.trimmed(hashes)?;
        let meta = Meta {
            filter: Some(filter),
            ..Meta::clone(&self.meta)
        };
        Some(Run {
            meta: Arc::new(meta),
            ..self.clone()
        })
    }

    /// Returns what sequence numbers are counted from.
    #[must_use]
    pub fn base(&self) -> Sequence {
        self.base
    }

    /// Returns where its description is.
    #[must_use]
    pub fn pointer(&self) -> &ValuePointer {
        &self.described.pointer
    }

    /// Returns where it is, for errors.
    #[must_use]
    pub fn place(&self) -> Place {
        self.described.place()
    }

    /// Returns the page size of its store.
    pub(in crate::hashed) fn page_size(&self) -> PageSize {
        self.meta.pages.page_size
    }

    /// Returns the extents that it uses, each once, with its live bytes (N2).
    pub fn extents(&self) -> impl Iterator<Item = (Extent, u64)> + '_ {
        self.meta.extents.iter().chain(&*self.described.extents).copied()
    }

    /// Returns the newest sequence number in it.
    #[must_use]
    pub fn newest(&self) -> Sequence {
        let deleted = self.meta.deletes.sequences().next_back().unwrap_or(0);
        match self.meta.records {
            0 => deleted,
            _ => deleted.max(self.base + self.meta.newest),
        }
    }

    /// Returns the bytes of keys and values, about.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.meta.bytes
    }

    /// Returns how many records it has.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.meta.records
    }

    /// Returns how many of them delete a key.
    #[must_use]
    pub fn tombstones(&self) -> u64 {
        self.meta.tombstones
    }

    /// Returns how many leaves it has.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        self.meta.leaves()
    }

    /// Returns the keys that it says are deleted.
    #[must_use]
    pub fn range_deletes(&self) -> &Arc<RangeDeletes> {
        &self.meta.deletes
    }

    /// Returns the bytes of memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.meta.memory_bytes() + self.described.memory_bytes() + size_of::<Run>() as u64
    }

    /// Returns the bytes that it takes of its extents.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.extents().map(|(_, live)| live).sum()
    }

    /// Returns the leaves that may have a hash.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the index has no answer.
    #[inline]
    pub fn leaves_of(&self, hash: u64) -> Result<Range<u64>> {
        if self.meta.pages.is_empty() {
            return Ok(0..0);
        }
        self.meta.index.leaves(hash).map_err(|error| self.damaged(&error))
    }

    /// Returns whether it has a filter of its own.
    #[must_use]
    pub fn has_filter(&self) -> bool {
        self.meta.filter.is_some()
    }

    /// Returns whether a hash may be in it: always without a filter.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the filter has no answer.
    #[inline]
    pub fn may_hold(&self, hash: u64) -> Result<bool> {
        match &self.meta.filter {
            Some(filter) => filter.may_hold(hash).map_err(|error| self.damaged(&error)),
            None => Ok(self.meta.records > 0),
        }
    }

    /// Returns where a leaf is.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when there is no such leaf.
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

    /// Hashes that ascend.
    fn hashes(count: u64) -> Vec<u64> {
        let step = u64::MAX / count;
        (0..count).map(|at| at * step + at % 1000).collect()
    }

    #[test]
    fn a_filter_that_is_trimmed_says_the_same_of_hashes_that_are_asked() {
        let hashes = hashes(30_000);
        let shape = listed::Shape::new(hashes.len() as u64, 12).unwrap();
        let filter = Filter::build(hashes.iter().copied(), shape).unwrap();
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
