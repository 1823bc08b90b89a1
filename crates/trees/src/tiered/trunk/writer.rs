//! The trunk as shared by readers and the writer: its current version, and how the single writer
//! publishes a new one.

use super::checkpoint_location::TrunkExtents;
use super::node::TrunkNode;
use super::root_filter::RootFilterCoverage;
use super::shape::{ReshapeCounts, TrunkShaper};
use super::state::{AdoptionPolicy, TreeOptions, TreeVersion, WriterState};
use super::statistics::{COPYING, StepCounters, TreeStats, TrunkTotals, UsageTracker};
use super::walk::{all_nodes, difference, longest_path};
use crate::maplet::MapletSpec;
use crate::run::{IndexedRun, RunOptions};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::horizon::GcHorizon;
use alluvium_dictionary::placement::{self, PlacementRequest};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::{VersionCell, VersionGuard, VersionStamp};
use alluvium_storage::extents::{AllocationClass, Extent, UNIT};
use alluvium_storage::store::Store;
use alluvium_storage::{EpochGuard, Result};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Number of free bytes that a compaction which copies values must leave for partly filled extents
/// and a maplet.
const COPY_SLACK: u64 = 4 * UNIT;

/// The trunk of a tree. Readers obtain the current version without a lock. All changes go through a
/// [`TrunkWriter`], of which only one exists at a time.
pub struct Trunk {
    pub(crate) store: Arc<Store>,
    pub(crate) options: TreeOptions,
    /// The horizon, below which old versions of keys may be dropped.
    pub(crate) horizon: Arc<GcHorizon>,
    pub(crate) versions: VersionCell<TreeVersion>,
    state: Mutex<WriterState>,
    next_group: AtomicU64,
    pub(crate) tallies: StepCounters,
    pub(crate) totals: TrunkTotals,
    pub(crate) usage: UsageTracker,
    /// Whether space is scarce. Compactions that free space may then use the whole space reserve,
    /// and other compactions part of it.
    scarce: AtomicBool,
    /// Number of consecutive compactions that did not find the space that seemed to be free.
    refusals: AtomicU32,
}

impl fmt::Debug for Trunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trunk")
            .field("version", &self.peek().stamp.number)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Trunk {
    /// Creates a trunk with the given root, which contains every commit up to `cut`. `next_group`
    /// is the number of the next group to be created. `extents` lists the extents of the nodes that
    /// are already on disk.
    pub(crate) fn new(
        store: Arc<Store>,
        options: TreeOptions,
        root: Arc<TrunkNode>,
        cut: SequenceNumber,
        next_group: u64,
        extents: TrunkExtents,
    ) -> Trunk {
        assert_eq!(root.range, KeyRange::everything(), "the root has every key");
        let mut state = WriterState::new(options.shape, Arc::clone(store.tiers()), extents);
        let nodes = all_nodes(&root);
        for node in &nodes {
            state.acquire_node(node);
        }
        state.uses.begin();
        state.plan(&nodes, &root);
        let version = TreeVersion {
            stamp: VersionStamp::first(cut),
            root,
            digest: None,
        };
        let horizon = options.horizon.clone().unwrap_or_default();
        let trunk = Trunk {
            store,
            options,
            horizon,
            versions: VersionCell::new(version),
            state: Mutex::new(state),
            next_group: AtomicU64::new(next_group),
            tallies: StepCounters::default(),
            totals: TrunkTotals::default(),
            usage: UsageTracker::default(),
            scarce: AtomicBool::new(false),
            refusals: AtomicU32::new(0),
        };
        let mut writer = trunk.lock();
        writer.add_up_memory();
        let root = Arc::clone(&trunk.peek().root);
        writer.note_crowding(&root);
        drop(writer);
        trunk
    }

    /// Sets the space class that compactions allocate from. Any class other than
    /// [`AllocationClass::Normal`] means that space is scarce. Compactions that free space may then
    /// use the whole space reserve, and other compactions part of it.
    pub(crate) fn compact_from(&self, class: AllocationClass) {
        let scarce = class != AllocationClass::Normal;
        self.scarce.store(scarce, Ordering::Relaxed);
    }

    /// Returns whether compactions must draw on the space reserve because no other space is left.
    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce.load(Ordering::Relaxed)
    }

    /// Returns the maximum number of bytes of values that a compaction may copy to free sparsely
    /// used extents. This is 0 unless space is scarce. It is also 0 if there are several tiers,
    /// because another tier may have space. Copies get at most half of the free space, so that the
    /// other half is left for the rest of the compaction's output. Each consecutive compaction that
    /// runs out of space halves the limit again.
    pub(crate) fn copied_bytes(&self) -> u64 {
        if !self.is_scarce() || self.store.tiers().count() > 1 {
            return 0;
        }
        let free = self.store.extents().usage().total().backed_bytes;
        let most = (free / 2).saturating_sub(COPY_SLACK);
        most.checked_shr(self.refusals.load(Ordering::Relaxed))
            .unwrap_or(0)
    }

    /// Records whether a compaction found the space that seemed to be free.
    pub(crate) fn note_space(&self, was_found: bool) {
        match was_found {
            true => self.refusals.store(0, Ordering::Relaxed),
            false => _ = self.refusals.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Returns the current version. The caller must already hold a pinned guard (T2).
    pub(crate) fn version(&self) -> Arc<TreeVersion> {
        self.versions.load()
    }

    /// Borrows the current version for a short time, without touching a reference count.
    #[inline]
    pub(crate) fn peek(&self) -> VersionGuard<TreeVersion> {
        self.versions.peek()
    }

    /// Returns the tree's counters, which start at zero when the store is opened.
    pub(crate) fn stats(&self) -> TreeStats {
        let state = self.state.lock();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tallies = &self.tallies;
        TreeStats {
            shape: state.counts,
            edges: state.inflight.edges().clone(),
            incorporations: read(&tallies.incorporations),
            compacted: (read(&tallies.read), read(&tallies.written)),
            rewritten: read(&tallies.rewritten),
            compacted_bytes: read(&tallies.compacted_bytes),
            incorporated_bytes: read(&tallies.incorporated_bytes),
            adopted: (read(&tallies.adopted_leaves), read(&tallies.adopted_bytes)),
            dropped_leaves: read(&tallies.dropped_leaves),
            gathered_bytes: read(&tallies.gathered_bytes),
        }
    }

    /// Returns a group number that has not been used before.
    pub(crate) fn next_group(&self) -> u64 {
        self.next_group.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of the next group, which is higher than all numbers in use.
    pub(crate) fn group_numbers(&self) -> u64 {
        self.next_group.load(Ordering::Relaxed)
    }

    /// Returns the crowding of the current version, in percent: the number of runs on its longest
    /// path relative to the maximum. It was computed by the last change to the trunk.
    pub(crate) fn crowding(&self) -> u64 {
        self.totals.crowding.load(Ordering::Relaxed)
    }

    /// Waits for exclusive write access to the trunk, and returns the writer. Dropping the writer
    /// ends the access.
    pub(crate) fn lock(&self) -> TrunkWriter<'_> {
        TrunkWriter {
            trunk: self,
            state: self.state.lock(),
        }
    }

    /// Changes the trunk and publishes the result. `change` returns the new root, or `None` to
    /// leave the trunk unchanged. `change` must also install the extents of its new data, but only
    /// after the last operation that can fail. Returns whether the trunk was changed.
    pub(crate) fn change(
        &self,
        cut: Option<SequenceNumber>,
        change: impl FnOnce(&mut WriterState, &mut TrunkShaper<'_>, &TrunkNode) -> Result<Option<TrunkNode>>,
    ) -> Result<bool> {
        let guard = self.store.epochs().pin();
        let mut writer = self.lock();
        let old = self.version();
        let busy: HashSet<(u8, Box<[u8]>)> = writer.inflight.pivots().collect();
        let is_busy = |height: u8, low: &[u8]| busy.contains(&(height, low.into()));
        let mut shaper = self.shaper(&guard, &is_busy, writer.flush_count);
        let Some(root) = change(&mut writer.state, &mut shaper, &old.root)? else {
            return Ok(false);
        };
        assert!(shaper.flush_count >= writer.flush_count, "flushes are counted up");
        writer.flush_count = shaper.flush_count;
        writer.counts.add(&shaper.counts);
        let flushed = std::mem::take(&mut shaper.flushed);
        writer.publish(&old, root, cut.unwrap_or(old.stamp.cut), &flushed);
        Ok(true)
    }

    fn shaper<'a>(
        &'a self,
        guard: &'a EpochGuard,
        is_busy: &'a dyn Fn(u8, &[u8]) -> bool,
        turn: u64,
    ) -> TrunkShaper<'a> {
        TrunkShaper {
            shape: self.options.shape,
            victim: self.options.victim,
            cache: self.store.cache(),
            guard,
            is_busy,
            flush_count: turn,
            flushed: Vec::new(),
            counts: ReshapeCounts::default(),
        }
    }

    /// Returns `result` unchanged. If a write failed, also notifies the store, which then refuses
    /// further changes. A failed read has changed nothing, and the work that needed the data
    /// becomes due again.
    pub(crate) fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        alluvium_dictionary::structure_context::poison_on_error(&self.store, result)
    }

    /// Returns the options for writing a run to a tier.
    pub(crate) fn run_options(&self, purpose: Purpose, class: AllocationClass, tier: u8) -> RunOptions {
        RunOptions {
            class,
            tier,
            value_tier: tier,
            ..RunOptions::new(purpose)
        }
    }

    /// Returns the options for writing a maplet to a tier.
    pub(crate) fn maplet_spec(&self, purpose: Purpose, class: AllocationClass, tier: u8) -> MapletSpec {
        MapletSpec {
            fingerprint_bits: self.options.fingerprint_bits,
            purpose,
            class,
            tier,
        }
    }

    /// Returns the storage tier for `bytes` bytes of new data.
    pub(crate) fn incoming_tier(&self, bytes: u64) -> u8 {
        match self.options.compacted_tier {
            Some(_) => 0,
            None => placement::tier(&self.store, &PlacementRequest::newest(bytes)),
        }
    }

    /// Returns the storage tier for a maplet of `bytes` bytes that a compaction writes for a run on
    /// the tier `beside`. Every lookup reads maplets, so they are placed like the newest data.
    pub(crate) fn maplet_tier(&self, bytes: u64, beside: u8) -> u8 {
        match self.options.compacted_tier {
            Some(_) => beside,
            None => placement::tier(&self.store, &PlacementRequest::newest(bytes)),
        }
    }

    /// Returns whether compactions may write to the given tier.
    pub(crate) fn may_compact_to(&self, tier: u8) -> bool {
        match self.options.compacted_tier {
            Some(only) => tier == only,
            None => self.store.takes_extents(tier),
        }
    }

    /// Returns whether a compaction should adopt leaves. `is_rewrite` is set if the purpose of the
    /// compaction is to rewrite all data. Under [`AdoptionPolicy::WhereCheaper`], such a compaction
    /// always copies. Under the same policy, after a compaction has found no leaf to adopt, the
    /// next [`COPYING`] compactions copy without searching.
    pub(crate) fn adoption(&self, is_rewrite: bool) -> AdoptionPolicy {
        let copying = &self.tallies.copying;
        let less = |left: u64| left.checked_sub(1);
        let is_copying = || {
            copying
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .is_ok()
        };
        match self.options.adoption {
            AdoptionPolicy::WhereCheaper if is_rewrite || is_copying() => AdoptionPolicy::Never,
            adoption => adoption,
        }
    }

    /// Records the number of leaves that a compaction did not read, if it was allowed to adopt
    /// leaves.
    pub(crate) fn note_adoption(&self, leaves: u64) {
        assert!(
            self.options.adoption != AdoptionPolicy::Never,
            "nothing looks for leaves then"
        );
        let copying = if leaves == 0 { COPYING } else { 0 };
        self.tallies.copying.store(copying, Ordering::Relaxed);
    }

    /// Returns the extents of a run whose values a compaction to `tier` must rewrite, because the
    /// extents are on another tier.
    pub(crate) fn left_behind<'r>(
        &self,
        run: &'r IndexedRun,
        tier: u8,
    ) -> impl Iterator<Item = Extent> + use<'r, '_> {
        let places = self.options.compacted_tier.is_none();
        let extents = run.extents().iter().map(|used| used.extent);
        extents.filter(move |extent| places && placement::is_left(&self.store, extent, tier))
    }

    /// Returns the storage tier for `bytes` bytes that a compaction at the given height writes.
    pub(crate) fn compacted_tier(&self, height: u8, bytes: u64) -> u8 {
        let fanout = self.options.shape.fanout as u64;
        let place = |all_bytes| PlacementRequest::of_height(height, fanout, all_bytes, bytes);
        match self.options.compacted_tier {
            Some(tier) => tier,
            None => placement::tier_among(&self.store, place),
        }
    }

    /// Adds the extents of a step's output to the generation that is being built.
    pub(crate) fn install_extents(&self, run: &IndexedRun, own: &[(Extent, u64)], maplet: &[(Extent, u64)]) {
        let extents = self.store.extents();
        extents.install(own);
        extents.install(maplet);
        for used in run.extents().iter().filter(|used| used.inherited) {
            extents.retain(used.extent);
        }
    }
}

/// The single writer of a trunk. It holds the lock on the writer's state, which must always match
/// the current version.
#[derive(Debug)]
pub(crate) struct TrunkWriter<'t> {
    trunk: &'t Trunk,
    state: MutexGuard<'t, WriterState>,
}

impl Deref for TrunkWriter<'_> {
    type Target = WriterState;

    fn deref(&self) -> &WriterState {
        &self.state
    }
}

impl DerefMut for TrunkWriter<'_> {
    fn deref_mut(&mut self) -> &mut WriterState {
        &mut self.state
    }
}

impl TrunkWriter<'_> {
    /// Publishes a version with the given root in place of `old`. Also counts the uses of new
    /// nodes, ends those of nodes that are gone, and plans the compactions that have become due.
    pub(crate) fn publish(
        &mut self,
        old: &TreeVersion,
        root: TrunkNode,
        cut: SequenceNumber,
        flushed: &[(u8, KeyRange)],
    ) {
        debug_assert_eq!(root.range, KeyRange::everything(), "the root has every key");
        let (store, state) = (&self.trunk.store, &mut *self.state);
        let root = Arc::new(root);
        let version = TreeVersion {
            stamp: old.stamp.changed(cut),
            root: Arc::clone(&root),
            digest: state.digest_for(&root),
        };
        let (gone, made) = difference(&old.root, &root);
        for node in &made {
            state.acquire_node(node);
        }
        self.trunk.versions.publish(version);
        self.note_crowding(&root);
        let state = &mut *self.state;
        state.transfer_full_compactions(&gone, &made);
        state.abandon_overtaken(&root, flushed, store.epochs());
        for node in &gone {
            state.release_node(node, store);
        }
        state.plan(&made, &root);
        self.sweep();
    }

    /// Publishes a copy of the current version, which must be `version`, with the trunk's root
    /// filter attached (D1).
    pub(crate) fn publish_digest(&mut self, version: &TreeVersion) {
        let version = TreeVersion {
            stamp: version.stamp.advanced(version.stamp.cut),
            root: Arc::clone(&version.root),
            digest: self.state.digest_for(&version.root),
        };
        self.trunk.versions.publish(version);
        self.add_up_memory();
    }

    /// Releases the extents that are no longer in use, together with the current epoch (T5).
    pub(crate) fn sweep(&mut self) {
        let epoch = self.trunk.store.epochs().current();
        for extent in self.state.uses.sweep() {
            self.trunk.store.extents().release(extent, epoch);
        }
        self.add_up_memory();
    }

    /// Computes and stores the crowding of the version with this root.
    fn note_crowding(&mut self, root: &TrunkNode) {
        let levels = u64::from(root.height) + 1;
        let most = levels * self.trunk.options.shape.most_runs() as u64;
        assert!(most > 0, "a pivot may hold a run (T3)");
        let crowding = 100 * longest_path(root).0 as u64 / most;
        self.trunk.totals.crowding.store(crowding, Ordering::Relaxed);
        self.state.crowding = crowding;
    }

    /// Updates the memory totals, which can be read without a lock.
    fn add_up_memory(&self) {
        let (state, totals) = (&*self.state, &self.trunk.totals);
        let held = state.uses.memory();
        let tables = held.counts + state.inflight.memory_bytes() + state.extents.memory_bytes();
        totals.trunk.store(state.memory, Ordering::Relaxed);
        totals.runs.store(held.runs, Ordering::Relaxed);
        totals.maplets.store(held.maplets, Ordering::Relaxed);
        totals.tables.store(tables, Ordering::Relaxed);
        let digest = state.digest.as_ref().map_or(0, RootFilterCoverage::bytes);
        totals.digest.store(digest, Ordering::Relaxed);
        totals.due.store(state.inflight.len() as u64, Ordering::Relaxed);
    }
}
