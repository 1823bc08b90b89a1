//! The interface between a store and its structures.
//!
//! A store has several structures under one commit order, one log and one memory budget. It routes
//! each keyspace to one of them, seals memtables, and passes every structure its [`MemtableSlice`].
//! A checkpoint takes one [`CheckpointRoot`] of each structure.
//!
//! Operations that run once per memtable, step or checkpoint may be called through `dyn
//! Dictionary`. Operations that run for every lookup are in [`PointLookup`] and [`LookupReader`],
//! which are dispatched statically.
//!
//! Invariants:
//!
//! - **O1** A dictionary holds every commit about its keys up to its cut, and none above.
//! - **O2** A reader sees one state of the dictionary. Data that the state refers to stays readable
//!   while the reader lives.
//! - **O3** The effects of [`MemtableIncorporation::poll`] are invisible before
//!   [`MemtableIncorporation::publish`]; if it is dropped before that, it has no effect.
//! - **O4** A dictionary does not refer to superblocks: it returns a root and is opened from a
//!   root.

use crate::check_report::{CheckLevel, CheckProgress, StructureCheckReport};
use crate::checkpoint_root::CheckpointRoot;
use crate::key::LookupKey;
use crate::lookup_state::LookupState;
use crate::memtable_slice::MemtableSlice;
use crate::memtables::MemtableOwner;
use crate::merge::MergeDirection;
use crate::range::KeyRange;
use alluvium_base::{Message, SequenceNumber};
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use std::fmt;
use std::sync::Arc;

pub use crate::lookup::LookupReader;

/// Result of a bounded slice of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepProgress {
    More,
    Done,
}

/// Memory and pending work of a dictionary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingWork {
    /// Memory in bytes, without pages in the cache and without memtables.
    pub memory_bytes: u64,
    /// Maintenance steps that are due or in progress.
    pub steps: u64,
}

/// A structure that stores messages by key. All methods may be called from any thread.
pub trait Dictionary: fmt::Debug + Send + Sync {
    /// Returns the last commit that the dictionary contains (O1).
    fn cut(&self) -> SequenceNumber;

    /// Advances the cut to `cut`. No commit between the old and the new cut may concern the
    /// dictionary's keys.
    ///
    /// # Errors
    /// I/O errors; nothing has changed then.
    fn advance(&self, cut: SequenceNumber) -> Result<()>;

    /// Starts to incorporate a slice of a sealed memtable. Memtables are incorporated in order, one
    /// at a time. `class` determines whether the reserved space may be used.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    fn incorporate(
        &self,
        share: MemtableSlice,
        class: AllocationClass,
    ) -> Result<Box<dyn MemtableIncorporation>>;

    /// Starts an ingest: messages are written outside the dictionary until they are attached.
    /// `class` determines whether the reserved space may be used.
    ///
    /// # Errors
    /// I/O errors.
    fn ingest(&self, class: AllocationClass) -> Result<Box<dyn BulkIngest>>;

    /// Starts the next maintenance step, if one is due.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    fn next_step(&self) -> Result<Option<Box<dyn MaintenanceStep>>>;

    /// Requests the rewrite of the part that contains `key`, which discards old versions and
    /// deletes and applies compaction filters. The rewrite is executed as a maintenance step.
    ///
    /// # Errors
    /// I/O errors.
    fn compact_part(&self, key: &[u8]) -> Result<()>;

    /// Returns the end of the part that contains `key`, or `None` if it is the last part.
    fn next_boundary(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let _ = key;
        None
    }

    /// Sets the space class that maintenance allocates from. Any class other than
    /// [`AllocationClass::Normal`] means that space is scarce: steps that may use the reserve then
    /// allocate from [`AllocationClass::Freeing`].
    fn set_space_class(&self, class: AllocationClass) {
        let _ = class;
    }

    /// Returns whether a step is in progress, or is due and not known to need more space than is
    /// free. A caller may wait for the space that the step frees.
    fn has_pending_work(&self) -> bool {
        false
    }

    /// Returns the number of due steps, for writers that run steps themselves. Every writer calls
    /// this, so it must be cheap.
    fn overdue_steps(&self) -> usize {
        0
    }

    /// Returns the read amplification of a lookup in percent of its limit; above 100, maintenance
    /// does not keep up with writes. Every writer calls this, so it must be cheap.
    fn read_amplification_percent(&self) -> u64 {
        0
    }

    /// Writes most of the data that a checkpoint needs, while other steps continue. Only one
    /// checkpoint runs at a time.
    ///
    /// # Errors
    /// A full disk, which changes nothing; I/O errors.
    fn prepare(&self) -> Result<()> {
        // Data written here is useful only if it does not change before the cut. A dictionary with
        // little to write may leave all of it to the cut.
        Ok(())
    }

    /// Writes the remaining data and returns the root from which the dictionary is opened. The
    /// dictionary does not change until the root is dropped.
    ///
    /// # Errors
    /// The same as [`Dictionary::prepare`].
    fn checkpoint_root(&self) -> Result<CheckpointRoot<'_>>;

    /// Returns all errors found in the dictionary and the extents that it uses. No step may make
    /// progress during the call; `steps` are those that are in progress. `durable` is the root in
    /// the durable generation.
    ///
    /// # Errors
    /// I/O errors, and errors returned by `tell`. Damage is reported, not returned.
    fn check(
        &self,
        depth: CheckLevel,
        steps: &[&dyn MaintenanceStep],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport>;

    /// Returns the dictionary's memory use and pending work.
    fn pending_work(&self) -> PendingWork;

    /// Estimates the number of keys with a value in a range.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn approximate_len(&self, range: &KeyRange) -> Result<u64>;

    /// Estimates the number of distinct keys in the data files, including deleted ones. Most
    /// structures sample their data for this.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn distinct_keys(&self) -> Result<DistinctKeys> {
        let records = self.approximate_len(&KeyRange::everything())? as f64;
        Ok(DistinctKeys {
            keys: records,
            records,
        })
    }

    /// Estimates the bytes that a range occupies in the data files.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn size_on_disk(&self, range: &KeyRange) -> Result<u64>;
}

/// Number of distinct keys and of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DistinctKeys {
    pub keys: f64,
    /// Records of these keys, one for each stored version.
    pub records: f64,
}

/// The incorporation of a [`MemtableSlice`] into a dictionary.
pub trait MemtableIncorporation: fmt::Debug + Send {
    /// Processes about `records` messages. Returns [`StepProgress::Done`] when the slice can be
    /// published.
    ///
    /// # Errors
    /// A full disk; I/O errors. The incorporation must then be restarted.
    fn poll(&mut self, records: usize) -> Result<StepProgress>;

    /// Publishes the slice: afterwards the dictionary contains every commit up to the slice's cut.
    ///
    /// # Errors
    /// I/O errors. Nothing has changed then, and the incorporation must be restarted.
    fn publish(&mut self) -> Result<()>;

    /// Returns the number of messages processed.
    fn taken(&self) -> usize;
}

/// A maintenance step in progress.
pub trait MaintenanceStep: fmt::Debug + Send {
    /// Processes about `records` records.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    fn poll(&mut self, records: usize) -> Result<StepProgress>;

    /// Returns the step's number in its dictionary, if the step uses extents.
    fn number(&self) -> Option<u64>;
}

pub trait PointLookup: Dictionary {
    /// Reader of one state of the dictionary.
    type Reader<'d>: LookupReader
    where
        Self: 'd;

    /// Returns a reader of the current state. A caller that also reads memtables loads their list
    /// first.
    fn reader(&self) -> Self::Reader<'_>;
}

/// A dictionary whose keys have an order.
pub trait OrderedDictionary: Dictionary {
    type Scan: DictionaryScan;

    /// Starts a scan of a range, merged from the memtables and the dictionary, for a reader at
    /// `at`. Puts that expire at or before `now_ms` are invisible to it.
    fn scan(
        &self,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> Self::Scan;
}

/// An iterator over the keys of a range that have a value.
pub trait DictionaryScan: fmt::Debug + Send {
    /// Positions the scan before the first key at or after `key` in scan direction.
    fn seek(&mut self, key: &[u8]);

    /// Returns empty values instead of long ones from now on. Long values outside leaves are not
    /// read, unless merge operands apply to them.
    fn leave_out_long_values(&mut self);

    /// Returns the next key that has a value, and its value.
    ///
    /// # Errors
    /// I/O errors; damage. A further call retries.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
}

/// Messages that are written outside a dictionary and become part of it atomically. If the ingest
/// is dropped before it is attached, it has no effect.
///
/// Messages come in layers, each newer than the previous ones. A layer contains either messages in
/// ascending key order or deleted ranges. A layer becomes readable when it ends.
pub trait BulkIngest: fmt::Debug + Send + Sync {
    /// Adds a message to the newest layer, in ascending key order. Its sequence number is ignored.
    ///
    /// # Errors
    /// A full disk; I/O errors. The ingest can then only be dropped.
    fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()>;

    /// Adds the deleted range `start..end` to the newest layer.
    fn delete_range(&mut self, start: &[u8], end: &[u8]);

    /// Ends the newest layer and starts a newer one.
    ///
    /// # Errors
    /// The same as [`BulkIngest::push`].
    fn end_layer(&mut self) -> Result<()>;

    /// Returns the number of ended layers.
    fn layers(&self) -> u64;

    /// Drops all but the `layers` oldest layers.
    fn keep(&mut self, layers: u64);

    /// Passes the messages of a key in ended layers to `gather`, newest first. Layer `n`, counted
    /// from 0, has the sequence number `n + 1`. If a deleted range covers the key, `gather` is
    /// decided, because data below the ingest is then irrelevant.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn gather(&self, key: LookupKey<'_>, gather: &mut LookupState<'_>) -> Result<()>;

    /// Returns an iterator over the keys of a range that have messages in ended layers.
    fn walk(&self, range: &KeyRange, direction: MergeDirection) -> Box<dyn IngestKeyScan>;

    /// Returns the number of messages added.
    fn records(&self) -> u64;

    /// Returns the bytes of keys and values added.
    fn bytes(&self) -> u64;

    /// Returns the memory used, in bytes.
    fn memory_bytes(&self) -> u64;

    /// Writes all pending data and reserves the space that [`BulkIngest::attach`] needs. All
    /// ingests of a commit are prepared before the first of them is attached.
    ///
    /// # Errors
    /// A full disk; I/O errors. Nothing has changed then.
    fn prepare(&mut self, first: SequenceNumber) -> Result<()> {
        let _ = first;
        Ok(())
    }

    /// Makes the layers part of the dictionary as the commits from `first` on, oldest layer first.
    /// `first` is the commit after the dictionary's cut.
    ///
    /// # Errors
    /// The same as [`BulkIngest::prepare`], if that was not called.
    fn attach(self: Box<Self>, first: SequenceNumber) -> Result<()>;
}

/// An iterator over the keys that have messages in an [`BulkIngest`].
pub trait IngestKeyScan: fmt::Debug + Send {
    /// Advances to the next key in the iterator's direction and returns it. Passes the ingest's
    /// messages of the key to `gather`, newest first.
    ///
    /// # Errors
    /// I/O errors; damage. A further call retries.
    fn next(&mut self, gather: &mut LookupState<'_>) -> Result<Option<&[u8]>>;

    /// Returns whether a deleted range covers a key that has no message in the ingest.
    fn is_deleted(&self, key: &[u8]) -> bool;
}
