//! The interface between a store and its dictionaries, which store its data.
//!
//! All dictionaries of a store share one commit order, one log and one memory budget. The store
//! assigns each keyspace to one dictionary. When it seals a memtable, it passes each dictionary its
//! own part, a [`MemtableSlice`]. At a checkpoint, it obtains a [`CheckpointRoot`] from each
//! dictionary.
//!
//! Operations that run once per memtable, maintenance step or checkpoint may be called through `dyn
//! Dictionary`. Operations that run for every lookup are in [`PointLookup`] and [`LookupReader`],
//! which are statically dispatched.
//!
//! Invariants:
//!
//! - **O1** A dictionary's cut is a sequence number. The dictionary contains every commit to its
//!   keys up to the cut, and no later one.
//! - **O2** A reader sees a single version of the dictionary. All data that belongs to the version
//!   remains readable until the reader is dropped.
//! - **O3** What [`MemtableIncorporation::poll`] does becomes visible only with
//!   [`MemtableIncorporation::publish`]. An incorporation that is dropped before it is published
//!   has no effect.
//! - **O4** A dictionary does not know about superblocks. It hands its root to the store, and the
//!   store opens the dictionary from that root.

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

/// Whether a task that runs in small increments is done or has more work to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepProgress {
    More,
    Done,
}

/// The memory use and the pending maintenance work of a dictionary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingWork {
    /// Memory that the dictionary uses, in bytes, excluding cached pages and memtables.
    pub memory_bytes: u64,
    /// Number of maintenance steps that are due or in progress.
    pub steps: u64,
}

/// A structure that stores messages by key. Any thread may call any method at any time.
pub trait Dictionary: fmt::Debug + Send + Sync {
    /// Returns the cut: the sequence number of the last commit that the dictionary contains (O1).
    fn cut(&self) -> SequenceNumber;

    /// Advances the cut to `cut` without adding messages. The caller guarantees that no commit
    /// between the old cut and the new one changes a key of this dictionary.
    ///
    /// # Errors
    /// I/O errors, after which the dictionary is unchanged.
    fn advance(&self, cut: SequenceNumber) -> Result<()>;

    /// Starts adding the messages of `share`, a slice of a sealed memtable, to the dictionary.
    /// Memtables must be incorporated in order, one at a time. `class` determines whether the
    /// incorporation may allocate from the reserved space.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    fn incorporate(
        &self,
        share: MemtableSlice,
        class: AllocationClass,
    ) -> Result<Box<dyn MemtableIncorporation>>;

    /// Starts an ingest. Its messages are written outside the dictionary and become part of the
    /// dictionary only when the ingest is attached. `class` determines whether the ingest may
    /// allocate from the reserved space.
    ///
    /// # Errors
    /// I/O errors.
    fn ingest(&self, class: AllocationClass) -> Result<Box<dyn BulkIngest>>;

    /// Starts and returns the next maintenance step. Returns `None` if no step is due.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    fn next_step(&self) -> Result<Option<Box<dyn MaintenanceStep>>>;

    /// Requests a compaction of the part of the dictionary that contains `key`. The compaction runs
    /// as a maintenance step. It drops old versions and tombstones, and applies compaction filters.
    ///
    /// # Errors
    /// I/O errors.
    fn compact_part(&self, key: &[u8]) -> Result<()>;

    /// Returns the exclusive upper bound of the part of the dictionary that contains `key`, or
    /// `None` for the last part.
    fn next_boundary(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let _ = key;
        None
    }

    /// Sets the class with which maintenance allocates space. Any class other than
    /// [`AllocationClass::Normal`] means that space is scarce. Maintenance steps that may use the
    /// reserved space then allocate with [`AllocationClass::Freeing`].
    fn set_space_class(&self, class: AllocationClass) {
        let _ = class;
    }

    /// Returns whether a maintenance step is in progress or can start, so that a caller that needs
    /// space may wait for a step to free some. A step that is known to need more space than is free
    /// does not count.
    fn has_pending_work(&self) -> bool {
        false
    }

    /// Returns the number of maintenance steps that are due, so that a writer can decide whether to
    /// run one itself. Must be cheap, because every writer calls it.
    fn overdue_steps(&self) -> usize {
        0
    }

    /// Returns the read amplification of a lookup as a percentage of its limit. Above 100,
    /// maintenance cannot keep up with the writes. Must be cheap, because every writer calls it.
    fn read_amplification_percent(&self) -> u64 {
        0
    }

    /// Writes most of what the next checkpoint needs while maintenance continues. Only one
    /// checkpoint may run at a time.
    ///
    /// # Errors
    /// A full disk, after which the dictionary is unchanged; I/O errors.
    fn prepare(&self) -> Result<()> {
        // Writing ahead pays off only for data that does not change before the checkpoint. A
        // dictionary with little data may therefore write all of it in `checkpoint_root`.
        Ok(())
    }

    /// Writes whatever `prepare` has not written, and returns a root from which the dictionary can
    /// be opened. The dictionary does not change until the returned value is dropped.
    ///
    /// # Errors
    /// The same errors as [`Dictionary::prepare`].
    fn checkpoint_root(&self) -> Result<CheckpointRoot<'_>>;

    /// Checks the dictionary and returns all errors found and the extents that the dictionary uses.
    /// `steps` are the maintenance steps in progress, which must not be polled during the call.
    /// `durable` is the dictionary's root in the durable generation. `tell` receives the progress
    /// of the check.
    ///
    /// # Errors
    /// I/O errors, and errors returned by `tell`. Damage is not an error: the report lists it.
    fn check(
        &self,
        depth: CheckLevel,
        steps: &[&dyn MaintenanceStep],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport>;

    /// Returns the memory use and the pending maintenance work of the dictionary.
    fn pending_work(&self) -> PendingWork;

    /// Estimates the number of live keys in a range, which are the keys that have a value.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn approximate_len(&self, range: &KeyRange) -> Result<u64>;

    /// Estimates the number of distinct keys in the data files, including deleted keys. Most
    /// dictionaries sample their data for this.
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

    /// Estimates how many bytes the records of a key range occupy in the data files.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn size_on_disk(&self, range: &KeyRange) -> Result<u64>;
}

/// An estimate of the number of distinct keys, and the number of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DistinctKeys {
    pub keys: f64,
    /// Number of records of these keys. Each stored version of a key is one record.
    pub records: f64,
}

/// A task that adds the messages of a [`MemtableSlice`] to a dictionary.
pub trait MemtableIncorporation: fmt::Debug + Send {
    /// Adds about `records` more messages. Returns [`StepProgress::Done`] once the whole slice has
    /// been processed and can be published.
    ///
    /// # Errors
    /// A full disk; I/O errors. After an error, the caller must start a new incorporation.
    fn poll(&mut self, records: usize) -> Result<StepProgress>;

    /// Makes the messages of the slice visible, so that the dictionary contains every commit up to
    /// the slice's cut. [`MemtableIncorporation::poll`] must have returned [`StepProgress::Done`].
    ///
    /// # Errors
    /// I/O errors. After an error, the dictionary is unchanged and the caller must start a new
    /// incorporation.
    fn publish(&mut self) -> Result<()>;

    /// Returns the number of messages that have been processed so far.
    fn taken(&self) -> usize;
}

/// A maintenance step in progress.
pub trait MaintenanceStep: fmt::Debug + Send {
    /// Continues the step with about `records` more records.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    fn poll(&mut self, records: usize) -> Result<StepProgress>;

    /// Returns a number that identifies the step within its dictionary, or `None` if the step uses
    /// no extents.
    fn number(&self) -> Option<u64>;
}

pub trait PointLookup: Dictionary {
    /// A reader of a single version of the dictionary (O2).
    type Reader<'d>: LookupReader
    where
        Self: 'd;

    /// Returns a reader of the current version. A caller that also reads memtables must load the
    /// list of memtables first, because a memtable may move into the dictionary in between.
    fn reader(&self) -> Self::Reader<'_>;
}

/// A dictionary that stores its keys in order and therefore supports scans.
pub trait OrderedDictionary: Dictionary {
    type Scan: DictionaryScan;

    /// Starts a scan of `range` that merges the memtables with the dictionary. The scan sees the
    /// commits up to the sequence number `at`, and no value that expires at or before `now_ms`.
    fn scan(
        &self,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> Self::Scan;
}

/// An iterator over the live keys of a range, in either direction.
pub trait DictionaryScan: fmt::Debug + Send {
    /// Positions the scan so that it next returns the first key at or after `key` in scan
    /// direction.
    fn seek(&mut self, key: &[u8]);

    /// Makes the scan return an empty value in place of each long one from now on. If a long value
    /// is stored outside its leaf, it is not even read, unless merge operands apply to it.
    fn leave_out_long_values(&mut self);

    /// Announces that the caller will read about `bytes` bytes of keys and values from here on. The
    /// scan may read them from the device together. Only a hint.
    fn expect_bytes(&mut self, _bytes: usize) {}

    /// Advances to the next live key and returns it with its value. Returns `None` at the end of
    /// the range.
    ///
    /// # Errors
    /// I/O errors; damage. After an error, the next call retries the same key.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
}

/// Messages that are written outside a dictionary and then become part of it atomically. An ingest
/// that is dropped before it is attached has no effect.
///
/// The messages are organised in layers, from oldest to newest. A layer contains either messages in
/// ascending key order or range deletes, and becomes readable once it is ended.
pub trait BulkIngest: fmt::Debug + Send + Sync {
    /// Adds a message to the newest layer. Within a layer, keys must be added in ascending order.
    /// The message's sequence number is ignored.
    ///
    /// # Errors
    /// A full disk; I/O errors. After an error, the ingest can only be dropped.
    fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()>;

    /// Deletes the key range `start..end` in the newest layer.
    fn delete_range(&mut self, start: &[u8], end: &[u8]);

    /// Ends the newest layer, which makes its messages readable, and starts a newer one.
    ///
    /// # Errors
    /// The same errors as [`BulkIngest::push`].
    fn end_layer(&mut self) -> Result<()>;

    /// Returns the number of ended layers that the ingest has now. It is also the number of commits
    /// that [`BulkIngest::attach`] needs, if no layer is open.
    fn layers(&self) -> u64;

    /// Returns a mark of the newest ended layer, to which [`BulkIngest::keep`] can return.
    fn mark(&self) -> u64;

    /// Declares to which marks the ingest may be rolled back from now on, besides the current one.
    /// Layers on both sides of such a mark are not merged. The default has no effect, for ingests
    /// that never merge layers.
    fn protect(&mut self, marks: &[u64]) {
        let _ = marks;
    }

    /// Removes all layers that were added after the mark was taken, and ends the merges of these
    /// layers.
    fn keep(&mut self, mark: u64);

    /// Returns whether [`BulkIngest::arrange_merges`] would start a merge or install a result.
    fn is_merge_due(&self) -> bool {
        false
    }

    /// Installs the results of completed merges, and starts the merge of layers that is due. A
    /// merge keeps lookups fast, and changes no result.
    ///
    /// # Errors
    /// A full disk; I/O errors. The layers are unchanged after an error.
    fn arrange_merges(&mut self) -> Result<()> {
        Ok(())
    }

    /// Installs the results of completed merges, and ends all others. Waits for slices in progress.
    fn end_merges(&mut self) {}

    /// Returns the running merge that should make progress next.
    fn running_merge(&self) -> Option<Arc<dyn IngestMerge>> {
        None
    }

    /// Adds the messages of `key` in all ended layers to `gather`, newest first. Messages of newer
    /// layers have higher sequence numbers. If a range delete of the ingest covers the key, the
    /// lookup is resolved, because older data below the ingest cannot change its result.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn gather(&self, key: LookupKey<'_>, gather: &mut LookupState<'_>) -> Result<()>;

    /// Returns an iterator over the keys of a range that have messages in ended layers.
    fn walk(&self, range: &KeyRange, direction: MergeDirection) -> Box<dyn IngestKeyScan>;

    /// Returns the number of messages that have been added to the ingest.
    fn records(&self) -> u64;

    /// Returns the total size, in bytes, of the keys and values that have been added to the ingest.
    fn bytes(&self) -> u64;

    /// Returns the memory used, in bytes. Running merges are not included.
    fn memory_bytes(&self) -> u64;

    /// Returns the estimated memory that the running merges use, in bytes.
    fn merging_bytes(&self) -> u64 {
        0
    }

    /// Reads the nodes that [`BulkIngest::attach`] will need into the cache, so that it takes less
    /// time while other commits wait.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn rehearse_attach(&self) -> Result<()> {
        Ok(())
    }

    /// Writes all pending data of the ingest and reserves the space that [`BulkIngest::attach`]
    /// needs. `first` is the sequence number that will be passed to `attach`. A commit that
    /// attaches several ingests prepares all of them before it attaches the first.
    ///
    /// # Errors
    /// A full disk; I/O errors. After an error, the dictionary is unchanged.
    fn prepare(&mut self, first: SequenceNumber) -> Result<()> {
        let _ = first;
        Ok(())
    }

    /// Adds the layers to the dictionary. The oldest layer becomes the commit `first`, and each
    /// newer layer becomes the commit after that. `first` must follow the dictionary's cut.
    ///
    /// # Errors
    /// The same errors as [`BulkIngest::prepare`], unless `prepare` was called before.
    fn attach(self: Box<Self>, first: SequenceNumber) -> Result<()>;
}

/// A running merge of layers of an ingest. Any thread may run a slice of it.
pub trait IngestMerge: fmt::Debug + Send + Sync {
    /// Runs one slice of the merge, which consumes about `records` records. If another thread is
    /// running a slice, it waits for the end of that slice. When it returns
    /// [`StepProgress::Done`], the result can be installed with [`BulkIngest::arrange_merges`].
    ///
    /// # Errors
    /// A full disk; I/O errors; damage. The merge has then ended without a result. It is started
    /// again after the next layer.
    fn step(&self, records: usize) -> Result<StepProgress>;
}

/// An iterator over the keys that have messages in a [`BulkIngest`]. It reads the layers that had
/// ended when it was created, even if the ingest adds, merges or removes layers.
pub trait IngestKeyScan: fmt::Debug + Send {
    /// Advances to the next key and adds its messages in the ingest to `gather`, newest first.
    /// Returns the key, or `None` at the end.
    ///
    /// # Errors
    /// I/O errors; damage. The next call retries.
    fn next(&mut self, gather: &mut LookupState<'_>) -> Result<Option<&[u8]>>;

    /// Adds the messages of `key`, which must be in the iterator's range, to `gather`, like
    /// [`BulkIngest::gather`].
    ///
    /// # Errors
    /// I/O errors; damage.
    fn gather(&self, key: LookupKey<'_>, gather: &mut LookupState<'_>) -> Result<()>;

    /// Returns whether a range delete of the ingest covers `key`, which must have no message of its
    /// own in the ingest.
    fn is_deleted(&self, key: &[u8]) -> bool;
}
