//! The public type of an LSM tree, which can be created, opened, changed and checkpointed.

use super::defragment::DefragCounters;
use super::format::LevelsContents;
use super::options::LevelsOptions;
use super::skipped_tombstones::SkippedTombstones;
use super::state::{LevelMember, LevelRuns, LevelsVersion, LevelsWriterState, RunAge, groups, newest_first};
use crate::merge::runs::UnreadLeaves;
use crate::merge::stitch::StitchPolicy;
use crate::run_locations::{RunName, RunPlace};
use crate::segment_scan::ScanMemory;
use alluvium_base::SequenceNumber;
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::structure_context::{StructureContext, poison_on_error};
use alluvium_dictionary::versioned::{RootWriter, VersionCell, VersionStamp};
use alluvium_storage::{DiskLocation, OnDiskObject, Result};
use parking_lot::Mutex;
use std::fmt;
use std::iter::Sum;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Maximum size in bytes of encoded contents that are stored in the checkpoint root itself. Larger
/// contents are stored in separate nodes.
const INLINE: usize = 4 << 10;

/// A dictionary that stores its data in runs on levels. All methods may be called from any thread.
/// Clones refer to the same structure.
#[derive(Clone)]
pub struct LevelsDictionary {
    pub(super) shared: Arc<LevelsInner>,
}

pub(super) struct LevelsInner {
    pub(super) home: StructureContext,
    pub(super) options: LevelsOptions,
    pub(super) versions: VersionCell<LevelsVersion>,
    pub(super) kept: Mutex<LevelsWriterState>,
    /// Whether free space is scarce, so that every merge may use the space reserve.
    pub(super) is_scarce: AtomicBool,
    /// Estimated memory in bytes of all running merges.
    pub(super) merging_bytes: AtomicU64,
    /// The memory that scans keep between calls.
    pub(super) held: ScanMemory,
    /// The number of deleted or expired keys that scans have skipped.
    pub(super) skipped_tombstones: SkippedTombstones,
    /// Number of leaves that merges have adopted without reading them.
    pub(super) stitched: AtomicU64,
    /// Number of leaves that merges have dropped without reading them.
    pub(super) dropped_leaves: AtomicU64,
    /// Counts the bytes written by defragmentation, and by everything else.
    pub(super) ledger: DefragCounters,
}

/// Statistics of an LSM tree. Counters start at zero when the structure is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelsStats {
    pub levels: u64,
    /// Number of runs on all levels. Each part of a run counts separately.
    pub runs: u64,
    /// Number of leaves that merges have adopted without reading them.
    pub taken_over: u64,
    /// Number of leaves that merges have dropped unread because range deletes cover all their
    /// records.
    pub dropped_leaves: u64,
    /// Number of jumps that scans made in the current runs. A jump is a read that does not continue
    /// where the previous read ended.
    pub jumps: u64,
    /// Number of runs that defragmentation has rewritten.
    pub defragmented_runs: u64,
    pub defragmented_bytes: u64,
}

impl Sum for LevelsStats {
    /// Adds the statistics of several structures. The number of levels is the largest of them.
    fn sum<I: Iterator<Item = LevelsStats>>(all: I) -> LevelsStats {
        all.fold(LevelsStats::default(), |sum, one| LevelsStats {
            levels: sum.levels.max(one.levels),
            runs: sum.runs + one.runs,
            taken_over: sum.taken_over + one.taken_over,
            dropped_leaves: sum.dropped_leaves + one.dropped_leaves,
            jumps: sum.jumps + one.jumps,
            defragmented_runs: sum.defragmented_runs + one.defragmented_runs,
            defragmented_bytes: sum.defragmented_bytes + one.defragmented_bytes,
        })
    }
}

impl fmt::Debug for LevelsDictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.shared.versions.peek();
        let runs: Vec<usize> = version.levels.iter().map(Vec::len).collect();
        f.debug_struct("LevelsDictionary")
            .field("policy", &self.shared.options.policy)
            .field("runs", &runs)
            .field("cut", &version.stamp.cut)
            .finish_non_exhaustive()
    }
}

impl LevelsDictionary {
    /// Creates an empty structure that counts as containing all commits up to `cut`. None of these
    /// commits may have written to the structure.
    ///
    /// ```
    /// use alluvium_base::{Message, message::MAX_SEQUENCE};
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_dictionary::contract::{Dictionary, PointLookup, StepProgress};
    /// use alluvium_dictionary::key::LookupKey;
    /// use alluvium_dictionary::lookup;
    /// use alluvium_dictionary::lookup_state::LookupState;
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_dictionary::memtable_slice::MemtableSlice;
    /// use alluvium_dictionary::rules::OneKeyspace;
    /// use alluvium_storage::extents::AllocationClass;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_trees::levels::{LevelsDictionary, LevelsOptions};
    /// use alluvium_trees::map::StructureContext;
    /// use std::sync::Arc;
    ///
    /// let store = Store::create(
    ///     Arc::new(MemoryDirectory::new()),
    ///     &StoreOptions::default(),
    ///     b"",
    /// )?;
    /// let home = StructureContext {
    ///     store: Arc::new(store),
    ///     schema: Arc::new(OneKeyspace::default()),
    ///     horizon: Arc::default(),
    /// };
    /// let options = LevelsOptions::default().with_policy("samt,k=4".parse()?);
    /// let levels = LevelsDictionary::create(home.clone(), options.clone(), 0)?;
    /// for at in 1..=5 {
    ///     let memtable = Memtable::new(1 << 20);
    ///     memtable
    ///         .insert(b"Elbe", Message::put(at, b"1094 km"))
    ///         .unwrap();
    ///     let mut taking = levels.incorporate(
    ///         MemtableSlice::whole(Arc::new(memtable), at),
    ///         AllocationClass::Normal,
    ///     )?;
    ///     while taking.poll(1000)? == StepProgress::More {}
    ///     taking.publish()?;
    /// }
    /// assert_eq!(levels.runs(), [5]);
    /// let mut merge = levels
    ///     .next_step()?
    ///     .expect("four of five runs are to become one");
    /// while merge.poll(1000)? == StepProgress::More {}
    /// let root = levels.checkpoint_root()?.root;
    /// let levels = LevelsDictionary::open(home, &options, &root, 5)?;
    /// let mut gather = LookupState::new(MAX_SEQUENCE, 0, None);
    /// lookup::gather(&levels.reader(), LookupKey::new(b"Elbe"), &mut gather)?;
    /// assert_eq!(gather.finish().unwrap(), b"1094 km");
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`](alluvium_storage::Error::BadOption) if the policy or the stitching
    /// options are invalid.
    pub fn create(
        home: StructureContext,
        options: LevelsOptions,
        cut: SequenceNumber,
    ) -> Result<LevelsDictionary> {
        options.policy.validate()?;
        options.stitching.validate()?;
        let version = LevelsVersion::new(VersionStamp::first(cut), LevelRuns::new(), 0);
        Ok(LevelsDictionary::assemble(
            home,
            options,
            version,
            LevelsWriterState::default(),
        ))
    }

    /// Opens the structure that a checkpoint root refers to. The checkpoint contains all commits up
    /// to `cut`. The policy and the fingerprint length come from the checkpoint, and the
    /// corresponding fields of `options` are ignored.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if the root or a run is damaged; I/O
    /// errors.
    pub fn open(
        home: StructureContext,
        options: &LevelsOptions,
        root: &[u8],
        cut: SequenceNumber,
    ) -> Result<LevelsDictionary> {
        let page_size = home.store.page_size();
        let (root, contents) = RootWriter::open(&home.store, root, &place(), |bytes, place| {
            LevelsContents::decode(bytes, place, page_size)
        })?;
        let options = LevelsOptions {
            policy: contents.policy.clone(),
            fingerprint_bits: contents.fingerprint_bits,
            // A function that compares keys cannot be stored, so the caller provides it.
            stitching: match contents.stitching.is_on() {
                true => contents.stitching,
                false => StitchPolicy {
                    moves_values: contents.stitching.moves_values,
                    defragment_percent: contents.stitching.defragment_percent,
                    ..options.stitching
                },
            },
            ..options.clone()
        };
        let levels = contents.open(&home.store)?;
        let version = LevelsVersion::new(VersionStamp::first(cut), levels, contents.next_age);
        let kept = LevelsWriterState {
            root,
            ..LevelsWriterState::default()
        };
        Ok(LevelsDictionary::assemble(home, options, version, kept))
    }

    fn assemble(
        home: StructureContext,
        options: LevelsOptions,
        version: LevelsVersion,
        kept: LevelsWriterState,
    ) -> LevelsDictionary {
        assert!(options.unit_bytes > 0, "a memtable has bytes");
        LevelsDictionary {
            shared: Arc::new(LevelsInner {
                home,
                options,
                versions: VersionCell::new(version),
                kept: Mutex::new(kept),
                is_scarce: AtomicBool::new(false),
                merging_bytes: AtomicU64::new(0),
                held: ScanMemory::default(),
                skipped_tombstones: SkippedTombstones::default(),
                stitched: AtomicU64::new(0),
                dropped_leaves: AtomicU64::new(0),
                ledger: DefragCounters::default(),
            }),
        }
    }

    /// Returns the options of the structure.
    #[must_use]
    pub fn options(&self) -> &LevelsOptions {
        &self.shared.options
    }

    /// Returns the number of runs of each level. All parts of a run count as one.
    #[must_use]
    pub fn runs(&self) -> Vec<usize> {
        let version = self.version();
        version.levels.iter().map(|level| groups(level).count()).collect()
    }

    /// Returns whether the structure has no runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.versions.peek().newest_first.is_empty()
    }

    /// Returns the current statistics of the structure.
    #[must_use]
    pub fn stats(&self) -> LevelsStats {
        let version = self.version();
        let (defragmented_runs, defragmented_bytes) = self.defragmented();
        LevelsStats {
            levels: version.levels.len() as u64,
            runs: version.newest_first.len() as u64,
            taken_over: self.stitched(),
            dropped_leaves: self.shared.dropped_leaves.load(Ordering::Relaxed),
            jumps: self.jumps(),
            defragmented_runs,
            defragmented_bytes,
        }
    }

    /// Returns the storage tiers of all runs, ordered by level, and within a level from the oldest
    /// to the newest run.
    #[must_use]
    pub fn places(&self) -> Vec<RunPlace> {
        let version = self.version();
        let mut places = Vec::new();
        for (level, runs) in version.levels.iter().enumerate() {
            for (place, member) in runs.iter().enumerate() {
                let name = RunName::Level { level, place };
                places.push(RunPlace::of(name, &member.run, Some(&member.maplet)));
            }
        }
        places
    }

    /// Returns how many leaves merges have adopted without reading them since the structure was
    /// opened.
    #[must_use]
    pub fn stitched(&self) -> u64 {
        self.shared.stitched.load(Ordering::Relaxed)
    }

    /// Counts the leaves that a merge has not read.
    pub(super) fn note_unread(&self, leaves: &UnreadLeaves) {
        let shared = &self.shared;
        shared.stitched.fetch_add(leaves.adopted, Ordering::Relaxed);
        shared.dropped_leaves.fetch_add(leaves.dropped, Ordering::Relaxed);
    }

    /// Limits the memory in bytes that all scans together may keep between their calls. A small
    /// fixed amount per scan is not included.
    pub fn limit_scans(&self, bytes: u64) {
        self.shared.held.limit(bytes);
    }

    pub(super) fn version(&self) -> Arc<LevelsVersion> {
        self.shared.versions.load()
    }

    pub(super) fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        poison_on_error(&self.shared.home.store, result)
    }

    /// Publishes a version with the runs `levels`, and releases the extents of runs that only the
    /// previous version had. `_kept` proves that the caller has locked the writer state.
    pub(super) fn publish(
        &self,
        _kept: &mut LevelsWriterState,
        levels: LevelRuns,
        cut: SequenceNumber,
        next_age: RunAge,
    ) {
        let gone = self.replace_version(levels, cut, next_age);
        let store = &self.shared.home.store;
        let epoch = store.epochs().current();
        for extent in gone.iter().flat_map(|member| member.extents()) {
            store.extents().release(extent, epoch);
        }
    }

    /// Publishes a version with the runs `levels`. Returns the runs that only the previous version
    /// had, whose extents the caller must release.
    pub(super) fn replace_version(
        &self,
        levels: LevelRuns,
        cut: SequenceNumber,
        next_age: RunAge,
    ) -> Vec<Arc<LevelMember>> {
        let old = self.version();
        assert!(next_age >= old.next_age, "ages rise (V2)");
        let mut levels = levels;
        while levels.last().is_some_and(Vec::is_empty) {
            levels.pop();
        }
        let version = LevelsVersion {
            stamp: old.stamp.changed(cut),
            newest_first: newest_first(&levels),
            levels,
            next_age,
        };
        assert!(version.is_ordered(), "newer runs stand above older ones (V2)");
        let stays = |gone: &Arc<LevelMember>| {
            version
                .newest_first
                .iter()
                .any(|member| Arc::ptr_eq(member, gone))
        };
        let gone: Vec<Arc<LevelMember>> = old
            .newest_first
            .iter()
            .filter(|member| !stays(member))
            .cloned()
            .collect();
        self.shared.versions.publish(version);
        gone
    }

    pub(super) fn raise(&self, cut: SequenceNumber) {
        let _kept = self.shared.kept.lock();
        let old = self.version();
        self.shared.versions.publish(LevelsVersion {
            stamp: old.stamp.advanced(cut),
            ..(*old).clone()
        });
    }

    /// Writes the checkpoint root of the current version, unless it has already been written. The
    /// returned [`CheckpointRoot`] keeps the writer state locked, so the runs cannot change until
    /// the returned value is dropped.
    pub(super) fn write_checkpoint_root(&self) -> Result<CheckpointRoot<'_>> {
        let LevelsInner { home, options, .. } = &*self.shared;
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let encode = || LevelsContents::of(&version, options).encode();
        let root = kept
            .root
            .write(&home.store, &version.stamp, INLINE, encode)?
            .to_vec();
        Ok(CheckpointRoot::new(root, version.stamp.cut, kept))
    }
}

/// The location of the structure's root for error messages. The owner of the structure stores the
/// root.
pub(super) fn place() -> DiskLocation {
    DiskLocation::new(OnDiskObject::Node, "the root of levels", 0)
}
