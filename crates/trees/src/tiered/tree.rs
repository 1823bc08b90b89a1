//! The tree's public interface. All components of a tree share one trunk.

use super::compact::{CompactionJob, Compactor, MaintenanceLimits, TreeStep};
use super::disk::{self, Checkpointer, LostRange, TreeSalvage};
use super::incorporate::{TreeIncorporation, layer_writer};
use super::lookup::{self, PolledTreeLookup, RootFilterBuilder, TreeReader};
use super::scan::{ScanContext, TreeIter};
use super::show::{self, Outline, OutlineRun, RangeHoldings};
use super::trunk::{
    JobId, TreeDebt, TreeMemory, TreeOptions, TreeStats, TreeVersion, Trunk, TrunkExtents, TrunkNode,
    leaf_for, longest_path,
};
use crate::repair_result::RunRepairResult;
use crate::run::RangeWeight;
use crate::run_locations::RunPlace;
use alluvium_base::SequenceNumber;
use alluvium_dictionary::check_report::{CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::horizon::GcHorizon;
use alluvium_dictionary::lookup_state::LookupValue;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::LayerIngest;
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::store::Store;
use std::fmt;
use std::sync::Arc;

/// A size-tiered Bε-tree. All methods may be called from any thread. The tree starts no threads of
/// its own: it hands out background work as steps, and each step runs on the thread that polls it.
#[derive(Clone)]
pub struct TieredTree {
    pub(super) trunk: Arc<Trunk>,
    compactor: Compactor,
    checkpointer: Checkpointer,
    pub(super) scans: Arc<ScanContext>,
}

impl fmt::Debug for TieredTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TieredTree")
            .field("version", &self.trunk.peek().number())
            .field("options", self.options())
            .finish_non_exhaustive()
    }
}

/// Creation, opening and repair, and accessors.
impl TieredTree {
    /// Creates an empty tree in a store that has just been created, or whose payload records no
    /// tree.
    #[must_use]
    pub fn create(store: Arc<Store>, options: TreeOptions) -> TieredTree {
        let root = Arc::new(TrunkNode::leaf(KeyRange::everything()));
        TieredTree::over(Trunk::new(store, options, root, 0, 1, TrunkExtents::default()))
    }

    fn over(trunk: Trunk) -> TieredTree {
        let trunk = Arc::new(trunk);
        TieredTree {
            compactor: Compactor::new(&trunk),
            checkpointer: Checkpointer::new(&trunk),
            scans: Arc::new(ScanContext::new(&trunk)),
            trunk,
        }
    }

    /// Opens the tree with the given root, which [`CheckpointRoot`] returned when the checkpoint
    /// was written. The checkpoint contains every commit up to the sequence number `cut`.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt),
    /// [`Error::NewerFormat`](alluvium_storage::Error::NewerFormat), or I/O errors.
    pub fn open(
        store: Arc<Store>,
        options: TreeOptions,
        root: &[u8],
        cut: SequenceNumber,
    ) -> Result<TieredTree> {
        disk::open(store, options, root, cut).map(TieredTree::over)
    }

    /// Opens a damaged tree. The store's extents must be those that [`TreeSalvage::reached`]
    /// returned. Returns the tree, the key ranges that lost data, and descriptions of the repairs
    /// that lost none. The next checkpoint makes the repaired tree durable.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if the tree cannot be opened even
    /// without the damaged parts; an error if the disk is full; I/O errors.
    pub fn open_salvaged(
        store: &Arc<Store>,
        options: TreeOptions,
        salvage: TreeSalvage,
        root: &[u8],
        cut: SequenceNumber,
    ) -> Result<(TieredTree, Vec<LostRange>, Vec<String>)> {
        let (trunk, lost, mended) = salvage.open(store, options, root, cut)?;
        Ok((TieredTree::over(trunk), lost, mended))
    }

    /// Repairs the tree: reads all of it, and compacts every range whose compaction fails because
    /// of a damaged leaf, index node or value. The compaction omits the damaged data, which is
    /// lost. The caller must prevent all other changes to the tree until this returns. The next
    /// checkpoint makes the result durable.
    ///
    /// # Errors
    /// I/O errors. Ranges repaired before the error stay repaired.
    pub fn repair(&self) -> Result<RunRepairResult> {
        disk::repair(&self.trunk, &self.compactor)
    }

    /// Returns the store that contains the tree.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.trunk.store
    }

    /// Returns the options that the tree was opened with.
    #[must_use]
    pub fn options(&self) -> &TreeOptions {
        &self.trunk.options
    }

    /// Returns the horizon. Versions of a key that are older than the horizon may be dropped.
    #[must_use]
    pub fn horizon(&self) -> &GcHorizon {
        &self.trunk.horizon
    }

    /// Returns the current version of the trunk. The caller must pin a guard before the call, and
    /// keep it while it reads the version's data.
    #[must_use]
    pub fn version(&self) -> Arc<TreeVersion> {
        self.trunk.version()
    }

    /// Returns the cut: the sequence number up to which the tree contains every commit.
    #[must_use]
    pub fn cut(&self) -> SequenceNumber {
        self.trunk.peek().cut()
    }

    /// Returns the height of the trunk. A trunk that is a single leaf has height 1.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.trunk.peek().root.height + 1
    }

    /// Returns the largest number of runs that a single lookup may have to search, over all paths
    /// from the root to a leaf.
    #[must_use]
    pub fn longest_path(&self) -> usize {
        longest_path(&self.version().root).0
    }

    /// Returns the key range of the leaf that contains `key` in the current version.
    #[must_use]
    pub fn leaf_range(&self, key: &[u8]) -> KeyRange {
        leaf_for(&self.version().root, key).range.clone()
    }
}

/// Writes: flushes of memtables, and ingests.
impl TieredTree {
    /// Starts to flush a sealed memtable. The memtable must contain every commit after the
    /// previously flushed memtable, up to and including the sequence number `cut`, and memtables
    /// must be flushed in that order. `class` determines whether the flush may use the space
    /// reserve, which only memtables with nothing but deletes should do.
    ///
    /// # Errors
    /// See [`RunBuilder::new`](crate::run::RunBuilder::new).
    pub fn incorporate(
        &self,
        memtable: Arc<Memtable>,
        cut: SequenceNumber,
        class: AllocationClass,
    ) -> Result<TreeIncorporation> {
        self.incorporate_share(MemtableSlice::whole(memtable, cut), class)
    }

    /// Like [`TieredTree::incorporate`], but flushes only a slice of a memtable.
    ///
    /// # Errors
    /// See [`RunBuilder::new`](crate::run::RunBuilder::new).
    pub fn incorporate_share(
        &self,
        share: MemtableSlice,
        class: AllocationClass,
    ) -> Result<TreeIncorporation> {
        TreeIncorporation::new(&self.trunk, share, class)
    }

    /// Starts an ingest of sorted records. `class` determines whether the ingest may use the space
    /// reserve.
    ///
    /// ```
    /// use alluvium_base::Message;
    /// use alluvium_dictionary::contract::BulkIngest;
    /// use alluvium_base::message::MAX_SEQUENCE;
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_storage::extents::AllocationClass;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_trees::tiered::{TieredTree, TreeOptions};
    /// use std::sync::Arc;
    /// let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// let tree = TieredTree::create(Arc::new(store), TreeOptions::default());
    /// let mut ingest = tree.ingest(AllocationClass::Normal)?;
    /// ingest.push(b"lake", Message::put(0, b"Como"))?;
    /// ingest.push(b"river", Message::put(0, b"Oder"))?;
    /// assert!(ingest.push(b"pond", Message::put(0, b"")).is_err(), "out of order");
    /// ingest.end_layer()?;
    /// ingest.push(b"lake", Message::delete(0))?;
    /// ingest.end_layer()?;
    /// assert_eq!(tree.get(b"river", MAX_SEQUENCE, 0)?, None);
    /// ingest.attach(1)?;
    /// assert_eq!(tree.get(b"river", MAX_SEQUENCE, 0)?, Some(b"Oder".to_vec()));
    /// assert_eq!(tree.get(b"lake", 1, 0)?, Some(b"Como".to_vec()));
    /// assert_eq!(tree.get(b"lake", 2, 0)?, None);
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`](alluvium_storage::Error::Poisoned) if the store refuses changes.
    pub fn ingest(&self, class: AllocationClass) -> Result<LayerIngest<TieredTree>> {
        let writer = layer_writer(&self.trunk, class)?;
        Ok(LayerIngest::new(self.clone(), writer))
    }

    /// Records that the tree contains all commits up to `cut`, without adding data. The caller must
    /// ensure that none of the newly covered commits writes to this tree.
    pub(super) fn advance(&self, cut: SequenceNumber) -> Result<()> {
        self.trunk
            .change(Some(cut), |_, _, root| Ok(Some(root.draft())))?;
        Ok(())
    }
}

/// Reads: lookups, scans, and the root filter.
impl TieredTree {
    /// Returns a reader of the current version of the tree.
    ///
    /// ```
    /// # use alluvium_base::{Message, message::MAX_SEQUENCE};
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::extents::AllocationClass;
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// # use std::sync::Arc;
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_trees::tiered::{TieredTree, TreeOptions};
    /// use alluvium_dictionary::contract::LookupReader;
    /// use alluvium_dictionary::lookup_state::LookupState;
    /// use alluvium_dictionary::key::LookupKey;
    /// use alluvium_dictionary::lookup;
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let tree = TieredTree::create(Arc::new(store), TreeOptions::default());
    /// # let older = Memtable::new(1 << 20);
    /// # older.insert(b"river", Message::put(1, b"Elbe")).unwrap();
    /// # tree.incorporate(Arc::new(older), 1, AllocationClass::Normal)?.poll(usize::MAX)?;
    /// let (memtable, base) = (Memtable::new(1 << 20), 1); // it has the commits above 1
    /// memtable.insert(b"lake", Message::put(2, b"Bodensee")).unwrap();
    /// let reader = tree.reader();
    /// let get = |key: &[u8]| {
    ///     let key = LookupKey::new(key);
    ///     let mut gather = LookupState::new(MAX_SEQUENCE, 0, None);
    ///     if base >= reader.cut() {
    ///         gather.memtable(&memtable, key);
    ///     }
    ///     lookup::gather(&reader, key, &mut gather)?;
    ///     Ok::<_, alluvium_storage::Error>(gather.finish())
    /// };
    /// assert_eq!(get(b"lake")?, Some(b"Bodensee".to_vec()));
    /// assert_eq!(get(b"river")?, Some(b"Elbe".to_vec()));
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn reader(&self) -> TreeReader<'_> {
        TreeReader::new(&self.trunk)
    }

    /// Returns the value of a key as of sequence number `at`.
    ///
    /// ```
    /// use alluvium_base::{Message, message::MAX_SEQUENCE};
    /// use alluvium_device::{Directory, memory::MemoryDirectory};
    /// use alluvium_storage::extents::AllocationClass;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_trees::tiered::{TieredTree, TreeOptions};
    /// use std::sync::Arc;
    ///
    /// let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    /// let store = Arc::new(Store::create(directory, &StoreOptions::default(), b"")?);
    /// let tree = TieredTree::create(store, TreeOptions::default());
    /// let memtable = Memtable::new(1 << 20);
    /// memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
    /// tree.incorporate(Arc::new(memtable), 1, AllocationClass::Normal)?.poll(usize::MAX)?;
    /// assert_eq!(tree.get(b"river", MAX_SEQUENCE, 0)?, Some(b"Elbe".to_vec()));
    /// assert_eq!(tree.get(b"lake", MAX_SEQUENCE, 0)?, None);
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// I/O errors, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn get(&self, key: &[u8], at: SequenceNumber, now_ms: u64) -> Result<LookupValue> {
        lookup::get(&self.trunk, key, at, now_ms)
    }

    /// Returns the values of many keys as of sequence number `at`, in the order of `keys`. Reads
    /// all required leaves concurrently.
    ///
    /// # Errors
    /// See [`TieredTree::get`].
    pub fn multi_get(&self, keys: &[&[u8]], at: SequenceNumber, now_ms: u64) -> Result<Vec<LookupValue>> {
        lookup::multi_get(&self.trunk, keys, at, now_ms)
    }

    /// Returns a lookup of a key at sequence number `at`. The caller polls it, and it does not
    /// block on I/O.
    #[must_use]
    pub fn lookup(&self, key: &[u8], at: SequenceNumber, now_ms: u64) -> PolledTreeLookup {
        PolledTreeLookup::new(&self.trunk, None, key, at, now_ms)
    }

    /// Like [`TieredTree::lookup`], but also searches the memtables, whose messages are newer than
    /// those in the tree.
    #[must_use]
    pub fn lookup_with(
        &self,
        memtables: Arc<dyn MemtableOwner>,
        key: &[u8],
        at: SequenceNumber,
        now_ms: u64,
    ) -> PolledTreeLookup {
        PolledTreeLookup::new(&self.trunk, Some(memtables), key, at, now_ms)
    }

    /// Returns an iterator over `range` in the given direction, as of sequence number `at`. Puts
    /// that expire at or before `now_ms` are invisible.
    #[must_use]
    pub fn iter(
        &self,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> TreeIter {
        TreeIter::new(&self.scans, None, range, direction, at, now_ms)
    }

    /// Like [`TieredTree::iter`], but also iterates over the memtables, whose messages are newer
    /// than those in the tree.
    ///
    /// ```
    /// # use alluvium_base::Message;
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_dictionary::merge::MergeDirection;
    /// use alluvium_dictionary::range::KeyRange;
    /// use alluvium_trees::tiered::{TieredTree, TreeOptions};
    /// use alluvium_dictionary::memtables::{MemtableEntry, MemtableList, MemtableOwner};
    /// use std::sync::Arc;
    ///
    /// #[derive(Debug)]
    /// struct One(MemtableList);
    /// impl MemtableOwner for One {
    ///     fn newest_first(&self) -> MemtableList {
    ///         Arc::clone(&self.0)
    ///     }
    /// }
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let tree = TieredTree::create(Arc::new(store), TreeOptions::default());
    /// let memtable = Arc::new(Memtable::new(1 << 20));
    /// memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
    /// let above = One(Arc::new(vec![MemtableEntry { memtable, base: 0 }]));
    /// let mut iter = tree.iter_with(Arc::new(above), KeyRange::everything(), MergeDirection::Forward, 1, 0);
    /// assert_eq!(iter.next()?, Some((&b"river"[..], &b"Elbe"[..])));
    /// assert_eq!(iter.next()?, None);
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn iter_with(
        &self,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> TreeIter {
        TreeIter::new(&self.scans, Some(memtables), range, direction, at, now_ms)
    }

    /// Sets the maximum number of bytes that all scans together may retain between calls. On top of
    /// that, each scan may always retain a small minimum.
    pub fn limit_scans(&self, bytes: u64) {
        self.scans.limit(bytes);
    }

    /// Returns the number of bytes that scans retain between calls.
    #[must_use]
    pub fn scans_hold(&self) -> u64 {
        self.scans.hold_bytes()
    }

    /// Starts to build a root filter if it is worth its cost, and returns `None` otherwise. It is
    /// worth its cost once lookups have probed enough maplets of the root's bundles.
    ///
    /// ```
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// # use alluvium_trees::tiered::{TieredTree, TreeOptions};
    /// # use std::sync::Arc;
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let tree = TieredTree::create(Arc::new(store), TreeOptions::default());
    /// assert!(tree.digest_due().is_none()); // there was no lookup
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn digest_due(&self) -> Option<RootFilterBuilder> {
        RootFilterBuilder::due(&self.trunk)
    }

    /// Starts to build a root filter regardless of its cost. Returns `None` if one already exists
    /// or none can be built.
    #[must_use]
    pub fn digest(&self) -> Option<RootFilterBuilder> {
        RootFilterBuilder::begin(&self.trunk)
    }
}

/// Background work: compactions, merges of small neighbours, and checkpoints.
impl TieredTree {
    /// Returns the next due background step, or `None` if nothing is due. Compactions come before
    /// merges of small neighbouring nodes.
    ///
    /// # Errors
    /// I/O errors, or [`Error::Full`](alluvium_storage::Error::Full).
    pub fn next_step(&self) -> Result<Option<TreeStep>> {
        self.compactor.next_step()
    }

    /// Returns the due compaction with the highest priority according to `policy::priority`, or
    /// `None` if none is due.
    ///
    /// # Errors
    /// I/O errors, or [`Error::Full`](alluvium_storage::Error::Full). After an error the compaction
    /// is due again.
    pub fn next_job(&self) -> Result<Option<CompactionJob>> {
        self.compactor.next_job()
    }

    /// Returns whether a compaction is running, or is due and may have enough free space to run.
    #[must_use]
    pub fn may_compact(&self) -> bool {
        self.compactor.may_compact()
    }

    /// Requests a full compaction of the leaf that benefits most. Returns `false` if no leaf is
    /// worth compacting or the budget is exhausted. The compaction itself runs as a later step.
    ///
    /// # Errors
    /// I/O errors.
    pub fn maintain(&self, maintenance: &mut MaintenanceLimits) -> Result<bool> {
        self.compactor.maintain(maintenance)
    }

    /// Requests a full compaction of the leaf that contains `key`: a flush of all data from the
    /// nodes above down to the leaf, and then a compaction of the leaf into one run. The compaction
    /// itself runs as a later step.
    ///
    /// # Errors
    /// I/O errors.
    pub fn compact_fully(&self, key: &[u8]) -> Result<()> {
        self.compactor.compact_fully(key)
    }

    /// Returns whether any compaction is due or running.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.trunk.lock().inflight.len() > 0
    }

    /// Writes most of a checkpoint while other steps continue, to leave little work for
    /// [`TieredTree::checkpoint_root`]. Only one checkpoint may run at a time.
    ///
    /// # Errors
    /// If the disk is full, returns an error and leaves the tree unchanged. After a failed write,
    /// the store refuses changes.
    pub fn prepare(&self) -> Result<()> {
        self.checkpointer.prepare()
    }

    /// Writes the rest of a checkpoint and returns the root to pass to [`TieredTree::open`]. The
    /// trunk cannot change while the returned value exists, so the caller can record the extents in
    /// the matching state.
    ///
    /// # Errors
    /// See [`TieredTree::prepare`].
    pub fn checkpoint_root(&self) -> Result<CheckpointRoot<'_>> {
        self.checkpointer.checkpoint_root()
    }
}

/// Statistics, estimates for key ranges, outlines and checks.
impl TieredTree {
    /// Returns the tree's counters, which start at zero when the store is opened.
    #[must_use]
    pub fn stats(&self) -> TreeStats {
        self.trunk.stats()
    }

    /// Returns the tree's memory usage. The call costs only a few memory loads, so it may be made
    /// frequently.
    ///
    /// ```
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// # use alluvium_trees::tiered::{TieredTree, TreeOptions};
    /// # use std::sync::Arc;
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let tree = TieredTree::create(Arc::new(store), TreeOptions::default());
    /// assert!(tree.memory().total() < 4096); // an empty tree
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn memory(&self) -> TreeMemory {
        let memory = self.trunk.totals.memory();
        TreeMemory {
            tables: memory.tables + self.trunk.usage.memory_bytes(),
            ..memory
        }
    }

    /// Returns the number and size of the due and running compactions. Acquires the trunk's lock
    /// once.
    #[must_use]
    pub fn debt(&self) -> TreeDebt {
        self.trunk.lock().inflight.debt()
    }

    /// Returns the approximate number of bytes, records and deletes in a key range, including
    /// superseded versions. Each run contributes an error of at most one leaf at each end of the
    /// range. Reads only index nodes.
    ///
    /// # Errors
    /// I/O errors, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn weigh(&self, range: &KeyRange) -> Result<RangeWeight> {
        show::weigh(&self.trunk, range)
    }

    /// Returns the approximate number of bytes on disk that a key range occupies, including a
    /// proportional share of the maplets.
    ///
    /// # Errors
    /// See [`TieredTree::weigh`].
    pub fn size_on_disk(&self, range: &KeyRange) -> Result<u64> {
        show::size_on_disk(&self.trunk, range)
    }

    /// Returns the approximate number of keys in a range, which is the number of records that are
    /// not deletes. A key with several retained versions or merge operands is counted once for each
    /// of them.
    ///
    /// # Errors
    /// See [`TieredTree::weigh`].
    pub fn approximate_len(&self, range: &KeyRange) -> Result<u64> {
        show::approximate_len(&self.trunk, range)
    }

    /// Returns the approximate contents of a key range, grouped by purpose. It is as accurate as
    /// [`TieredTree::weigh`].
    ///
    /// # Errors
    /// See [`TieredTree::weigh`].
    pub fn holdings(&self, range: &KeyRange) -> Result<RangeHoldings> {
        show::holdings(&self.trunk, range)
    }

    /// Returns a plain-text drawing of the current version.
    #[must_use]
    pub fn draw(&self) -> String {
        self.version().to_string()
    }

    /// Returns an outline of the current version. Copies the keys of the trunk and performs no I/O.
    #[must_use]
    pub fn outline(&self) -> Outline {
        Outline::of(&self.trunk)
    }

    /// Returns the storage tier of each run in the current version. Performs no I/O.
    #[must_use]
    pub fn places(&self) -> Vec<RunPlace> {
        show::places(&self.version())
    }

    /// Returns the run at the given place of the given group, numbered as in
    /// [`OutlineLayer`](super::OutlineLayer), or `None` if the tree does not contain it. Performs
    /// no I/O.
    #[must_use]
    pub fn outline_run(&self, group: u64, place: usize) -> Option<OutlineRun> {
        OutlineRun::of(&self.version(), group, place)
    }

    /// Checks the tree, and returns all errors found and the extents that the tree uses. No step
    /// may run during the call. `jobs` lists the jobs that have started but not finished, because
    /// they use extents too. `durable` is the root of the durable generation, if there is one.
    /// `tell` is called with the progress after each run or maplet, and may abort the check by
    /// returning an error.
    ///
    /// # Errors
    /// I/O errors and errors of `tell`. Damage is part of the result, not an error.
    pub fn examine(
        &self,
        depth: CheckLevel,
        jobs: &[&CompactionJob],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport> {
        let jobs: Vec<JobId> = jobs.iter().map(|job| job.id()).collect();
        self.examine_with(depth, &jobs, durable, tell)
    }

    /// Like [`TieredTree::examine`], but takes job numbers instead of jobs.
    pub(super) fn examine_with(
        &self,
        depth: CheckLevel,
        jobs: &[JobId],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport> {
        disk::examine(&self.trunk, depth, jobs, durable, tell)
    }

    /// Returns the estimated and the actual number of records for each pivot whose stack is not
    /// empty. The actual number is found by reading every record.
    ///
    /// # Errors
    /// I/O errors, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn count_records(&self) -> Result<Vec<(u64, u64)>> {
        disk::count_records(&self.trunk)
    }
}
