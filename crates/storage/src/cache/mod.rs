//! Block cache for immutable nodes. Nothing in it is ever written back.
//!
//! *Scope*: the mapping from nodes to frames, the readers of a frame, the use of each node, and the
//! memory accounting.
//!
//! *Must not depend on*: the contents of a node, when it dies, which thread of the store calls.
//!
//! A lookup hashes the pointer and reads one line of the page table and one header. It takes no
//! lock and performs no shared write: the CLOCK bit is tested before it is set, and hits are
//! counted per thread. The resulting [`NodeRef`] is valid while the guard lives, because a frame is
//! reused only two epochs after it left the page table. This is SplinterDB's user-level clock cache
//! (Conway 2023, §3.4) with three changes: epochs instead of per-frame reader counters, nodes of
//! several sizes, and reads shared by all waiting readers.
//!
//! Invariants:
//!
//! - **C1** A frame holds one node from its publication until it is recycled; its bytes do not
//!   change in between.
//! - **C2** A frame is recycled only when it left the page table at an epoch below
//!   [`Epochs::safe`], and no [`FrameRef`] pins it.
//! - **C3** Every frame of a cut chunk is in exactly one place: a list of free frames, a read or
//!   insertion, the page table, or a list of retired frames. The frames of a draining chunk are in
//!   no list.
//! - **C4** A node is read by at most one read at a time.
//! - **C5** The memory charged is within the budget, except while a smaller budget takes effect, or
//!   while guards and references hold more private memory than the reserve.
//! - **C6** A node that failed verification or decoding is never in the page table.
//! - **C7** No thread waits for a device while holding a lock, and no read waits for another before
//!   its own is submitted.
//! - **C8** Bytes read from a copy match the checksum of the node's pointer; otherwise the node is
//!   read from its own tier.
//!
//! # What it costs
//!
//! On two shared virtual processors (`cargo bench -p alluvium-storage --bench cache`; medians): a
//! hit including the node's first word, among 1,000 nodes, 40 ns, or 47 ns including a new guard;
//! two threads on the same nodes 2.0 times one; a miss 0.9 µs above the read itself and its
//! verification; an insertion that evicts another node 0.73 µs. Outside the frames a cache spends 2
//! % of its budget on headers and 0.4 % on the page table, and reserves 3 % for reads in flight.

mod arena;
mod budget;
mod check;
mod chunks;
mod failure;
mod fetch;
mod frame;
mod frame_allocator;
mod frame_stock;
mod geometry;
mod ghost_queue;
mod in_flight;
#[cfg(all(test, alluvium_model_check))]
mod model_check;
mod node_ref;
mod page_table;
mod pending;
mod promoted;
mod read;
mod read_groups;
mod resizable_table;
mod single_flight;
mod stats;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod verify;

pub use budget::Reservation;
pub use check::CacheViolation;
pub use node_ref::{FrameRef, NodeRef};
pub use pending::{PendingReads, WatchedRead};
pub(crate) use promoted::BATCH_BYTES;
pub use promoted::CopyStats;
pub use stats::CacheStats;

use crate::{EpochGuard, Epochs, Error, NodePointer, PageSize, Result, TierFiles};
use alluvium_base::Purpose;
use alluvium_device::MemoryRegion;
use arena::FrameArena;
use budget::CacheBudget;
use chunks::ChunkAllocator;
use crossbeam_utils::CachePadded;
use frame::{FrameHeader, FrameId, InitialHeat, NodeKey};
use frame_stock::{FrameHeaders, FrameStock};
use geometry::ArenaGeometry;
use ghost_queue::GhostQueue;
use in_flight::InFlightTable;
use parking_lot::Mutex;
use promoted::PromotedCopies;
use read::{BatchRead, NoFramePolicy};
use resizable_table::ResizablePageTable;
use stats::StripedCounters;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of lanes. Further threads share them.
const LANES: usize = 32;
/// The smallest budget, in pages.
const MIN_BUDGET_PAGES: u64 = 256;
/// Address space reserved for larger budgets: the maximum of `RESERVED_BYTES` and `RESERVED_TIMES`
/// the first budget.
const RESERVED_BYTES: u64 = 64 << 30;
const RESERVED_TIMES: u64 = 16;
/// Optional pins are allowed while less than 1/`PINNED_FRACTION` of the budget is pinned.
const PINNED_FRACTION: u64 = 8;
/// At most 1/`RESERVATION_FRACTION` of the budget is [lent](NodeCache::try_reserve) or in use for
/// reads.
const RESERVATION_FRACTION: u64 = 16;
const _: () = assert!(
    PINNED_FRACTION > 1 && RESERVATION_FRACTION > 1,
    "parts of the budget (C5)"
);
/// Number of epochs that `set_budget` lets pass to see chunks drained.
const ROUNDS_TO_SHRINK: usize = 8;

/// Whether nodes brought in by a read should stay in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheRetention {
    /// The node is cached normally.
    Keep,
    /// The node passes through: pass-through reads use a limited share of the frames, and beyond it
    /// evict only nodes that are about to die or that no other reader has used. Their eviction is
    /// not remembered. For scans and compactions.
    PassThrough,
}

/// The node cache. Clones share it.
///
/// ```
/// use alluvium_base::{Purpose, checksum};
/// use alluvium_device::{AlignedBuffer, Directory, memory::MemoryDirectory};
/// use alluvium_storage::{NodeCache, NodeCodec, Epochs, NodePointer, PageSize, TierFiles};
/// use std::sync::Arc;
///
/// let directory = MemoryDirectory::new();
/// let tiers = Arc::new(TierFiles::create(&[&directory])?);
/// let node = AlignedBuffer::padded(&[7; 4096]);
/// let pointer = NodePointer {
///     offset: 8192, birth: 1, checksum: checksum(&node), encoded_len: 4096, tier: 0, pages: 1,
///     codec: NodeCodec::None,
/// };
/// tiers.get(0)?.grow(1 << 20)?;
/// tiers.get(0)?.write_at(pointer.offset, node, Purpose::Other)?;
///
/// let cache = NodeCache::new(tiers, Epochs::new(), PageSize::default(), 1 << 20)?;
/// let guard = cache.epochs().pin();
/// assert!(cache.peek(&pointer, &guard).is_none());
/// assert_eq!(cache.get(&pointer, &guard, Purpose::Lookup)?[..], [7; 4096]);
/// let kept = cache.peek(&pointer, &guard).expect("it was just read").retain();
/// drop(guard);
/// assert_eq!(kept[0], 7);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Clone)]
pub struct NodeCache {
    shared: Arc<NodeCacheInner>,
}

pub(crate) struct NodeCacheInner {
    tables: ResizablePageTable,
    arena: Arc<FrameArena>,
    geometry: ArenaGeometry,
    page_size: PageSize,
    epochs: Epochs,
    tiers: Arc<TierFiles>,
    budget: Arc<CacheBudget>,
    counters: StripedCounters,
    lanes: Box<[CachePadded<Mutex<FrameStock>>]>,
    flights: InFlightTable,
    chunks: CachePadded<ChunkAllocator>,
    /// Cold frames, oldest first. The entries of frames used since are stale.
    cold: CachePadded<Mutex<VecDeque<FrameId>>>,
    /// Frames whose nodes are dead or about to die, oldest mark first. They are evicted before all
    /// others.
    demoted: CachePadded<Mutex<VecDeque<FrameId>>>,
    ghosts: GhostQueue,
    copies: PromotedCopies,
    /// Batches whose readers have dropped their [`PendingReads`].
    orphans: CachePadded<Mutex<Vec<Arc<BatchRead>>>>,
    resident_bytes: CachePadded<AtomicU64>,
    pinned_bytes: CachePadded<AtomicU64>,
    /// Decoded size of the nodes being read.
    reading_bytes: CachePadded<AtomicU64>,
    /// Number of nodes being read by pass-through reads.
    passing: CachePadded<AtomicU64>,
    /// Number of chunks offered for registration. Their memory is never given back.
    offered: CachePadded<AtomicU64>,
    /// Whether offered nodes are inserted even when others must be evicted for them.
    admits_written: AtomicBool,
    resizing: Mutex<()>,
}

impl NodeCacheInner {
    #[inline]
    fn header(&self, frame: FrameId) -> &FrameHeader {
        self.arena.at(self.geometry.header_at(frame))
    }

    /// Returns the offset of a frame's bytes in the arena.
    fn data_at(&self, frame: FrameId) -> usize {
        self.geometry.data_at(frame, self.header(frame).class())
    }

    fn headers(&self) -> FrameHeaders<'_> {
        FrameHeaders {
            arena: &self.arena,
            geometry: &self.geometry,
        }
    }

    fn is_offered(&self, chunk: u32) -> bool {
        u64::from(chunk) < self.offered.load(Ordering::Relaxed)
    }

    fn frame_bytes(&self, frame: FrameId) -> u64 {
        self.geometry.cut(self.header(frame).class()).frame_bytes as u64
    }

    fn pin(&self, frame: FrameId) {
        if self.header(frame).pin() {
            self.pinned_bytes
                .fetch_add(self.frame_bytes(frame), Ordering::Relaxed);
        }
    }

    fn unpin(&self, frame: FrameId) {
        // Read before the last reference is dropped: afterwards the frame may belong to another
        // class.
        let bytes = self.frame_bytes(frame);
        if self.header(frame).unpin() {
            self.pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn finish_orphans(&self, guard: &EpochGuard) {
        if let Some(mut orphans) = self.orphans.try_lock() {
            orphans.retain(|reading| !self.try_finish(reading, guard));
        }
    }
}

impl NodeCache {
    /// Finishes every read that has completed, including those whose [`PendingReads`] was dropped
    /// or has not been polled. A thread that waits for an epoch to pass calls this, because an
    /// unfinished read holds an epoch.
    pub fn finish_arrived(&self) {
        let guard = self.shared.epochs.pin();
        self.shared.finish_orphans(&guard);
        self.shared.settle_all(&guard);
    }

    /// Returns the smallest budget of a cache with this page size.
    #[must_use]
    pub fn least_budget(page_size: PageSize) -> u64 {
        MIN_BUDGET_PAGES * page_size.bytes() as u64
    }

    /// Creates an empty cache. Address space is reserved for larger budgets; memory is committed as
    /// it is used.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the budget is below [`NodeCache::least_budget`], or if the system
    /// refuses the address space.
    pub fn new(
        tiers: Arc<TierFiles>,
        epochs: Epochs,
        page_size: PageSize,
        budget_bytes: u64,
    ) -> Result<NodeCache> {
        let least = Self::least_budget(page_size);
        if budget_bytes < least {
            return Err(Self::bad_budget(format!(
                "{budget_bytes} bytes is below the minimum of {least}"
            )));
        }
        let geometry = ArenaGeometry::new(page_size, budget_bytes);
        let wanted = RESERVED_BYTES.max(budget_bytes.saturating_mul(RESERVED_TIMES));
        let wanted = wanted.min(geometry.max_chunks() * geometry.chunk_bytes as u64);
        let arena = FrameArena::reserve(wanted as usize, budget_bytes as usize)?;
        assert!(arena.len() >= geometry.chunk_bytes, "an arena holds a chunk");
        let fixed = Self::fixed_bytes();
        let (_, frames) = CacheBudget::shape(budget_bytes, fixed, &geometry);
        let ghosts = GhostQueue::new(frames);
        let fixed = fixed + ghosts.bytes();
        let shared = NodeCacheInner {
            tables: ResizablePageTable::new(frames)?,
            arena,
            geometry,
            page_size,
            epochs,
            tiers,
            budget: CacheBudget::new(budget_bytes, fixed),
            counters: StripedCounters::new(),
            lanes: (0..LANES)
                .map(|_| CachePadded::new(Mutex::new(FrameStock::new())))
                .collect(),
            flights: InFlightTable::new(),
            chunks: CachePadded::new(ChunkAllocator::new()),
            cold: CachePadded::default(),
            demoted: CachePadded::default(),
            ghosts,
            copies: PromotedCopies::default(),
            orphans: CachePadded::default(),
            resident_bytes: CachePadded::default(),
            pinned_bytes: CachePadded::default(),
            reading_bytes: CachePadded::default(),
            passing: CachePadded::default(),
            offered: CachePadded::default(),
            admits_written: AtomicBool::new(false),
            resizing: Mutex::default(),
        };
        Ok(NodeCache {
            shared: Arc::new(shared),
        })
    }

    fn fixed_bytes() -> u64 {
        let lanes = LANES * size_of::<CachePadded<Mutex<FrameStock>>>();
        StripedCounters::bytes() + InFlightTable::bytes() + (lanes + size_of::<NodeCacheInner>()) as u64
    }

    fn bad_budget(why: String) -> Error {
        Error::BadOption {
            option: "cache budget",
            why,
        }
    }

    pub(crate) fn copies(&self) -> &PromotedCopies {
        &self.shared.copies
    }

    /// Returns the epochs whose guards protect this cache's nodes.
    #[must_use]
    pub fn epochs(&self) -> &Epochs {
        &self.shared.epochs
    }

    /// Returns the size of this cache's pages.
    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.shared.page_size
    }

    /// Returns a node if it is cached.
    ///
    /// # Panics
    /// If the guard belongs to other epochs.
    #[inline]
    pub fn peek<'g>(&'g self, pointer: &NodePointer, guard: &'g EpochGuard) -> Option<NodeRef<'g>> {
        let shared = &self.shared;
        assert!(
            guard.is_of(&shared.epochs),
            "the guard is of other epochs than the cache"
        );
        let key = NodeKey::of(pointer);
        let frame = shared.find_frame(&key, key.hash(), guard)?;
        shared.header(frame).touch();
        shared.counters.hit(guard);
        Some(shared.node_ref(frame, pointer, guard))
    }

    /// Prefetches the cache line that [`NodeCache::peek`] reads first, for a reader that is about
    /// to look up several nodes. This is a hint.
    #[inline]
    pub fn prefetch(&self, pointer: &NodePointer, guard: &EpochGuard) {
        self.shared.tables.prefetch(NodeKey::of(pointer).hash(), guard);
    }

    /// Prefetches the header that [`NodeCache::peek`] reads next, once [`NodeCache::prefetch`] has
    /// completed.
    #[inline]
    pub fn prefetch_header(&self, pointer: &NodePointer, guard: &EpochGuard) {
        let shared = &self.shared;
        // The first frame with the tag is almost always the right one.
        let _ = shared.tables.find(NodeKey::of(pointer).hash(), guard, |frame| {
            alluvium_base::prefetch_line(shared.header(frame));
            true
        });
    }

    /// Like [`NodeCache::peek`], but does not count as a use of the node. For a reader that read
    /// the node ahead and uses it once.
    ///
    /// # Panics
    /// If the guard belongs to other epochs.
    pub fn peek_untracked<'g>(&'g self, pointer: &NodePointer, guard: &'g EpochGuard) -> Option<NodeRef<'g>> {
        let shared = &self.shared;
        assert!(
            guard.is_of(&shared.epochs),
            "the guard is of other epochs than the cache"
        );
        let key = NodeKey::of(pointer);
        let frame = shared.find_frame(&key, key.hash(), guard)?;
        shared.counters.hit(guard);
        Some(shared.node_ref(frame, pointer, guard))
    }

    /// Returns a node, from the cache or from its tier. If several threads miss the same node, one
    /// of them reads it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the node does not match the pointer; [`Error::Device`] if it cannot be
    /// read. Nothing is cached then, and every waiting reader gets the error.
    ///
    /// # Panics
    /// If the guard belongs to other epochs.
    #[inline]
    pub fn get<'g>(
        &'g self,
        pointer: &NodePointer,
        guard: &'g EpochGuard,
        purpose: Purpose,
    ) -> Result<NodeRef<'g>> {
        match self.peek(pointer, guard) {
            Some(node) => Ok(node),
            None => self.miss(pointer, guard, purpose),
        }
    }

    #[cold]
    fn miss<'g>(
        &'g self,
        pointer: &NodePointer,
        guard: &'g EpochGuard,
        purpose: Purpose,
    ) -> Result<NodeRef<'g>> {
        self.shared
            .fetch_one(pointer, guard, purpose, CacheRetention::Keep)
    }

    /// Returns many nodes, in the order of their pointers. All misses of a tier are submitted to
    /// the device together.
    ///
    /// # Errors
    /// The first error, in the order of the pointers.
    ///
    /// # Panics
    /// If the guard belongs to other epochs.
    pub fn get_many<'g>(
        &'g self,
        pointers: &[NodePointer],
        guard: &'g EpochGuard,
        purpose: Purpose,
        residence: CacheRetention,
    ) -> Result<Vec<NodeRef<'g>>> {
        assert!(
            guard.is_of(&self.shared.epochs),
            "the guard is of other epochs than the cache"
        );
        self.shared.fetch(pointers, guard, purpose, residence)
    }

    /// Starts reading the nodes that are not cached, without waiting. The caller must hold a guard
    /// or otherwise ensure that the pointers are live. This is a hint: nodes for which no frame is
    /// available are skipped.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for an invalid pointer. No read was started then.
    pub fn request(
        &self,
        pointers: &[NodePointer],
        purpose: Purpose,
        residence: CacheRetention,
    ) -> Result<PendingReads> {
        let guard = self.shared.epochs.pin();
        self.shared.finish_orphans(&guard);
        let joined = self
            .shared
            .begin(pointers, &guard, purpose, residence, NoFramePolicy::Skip)?;
        Ok(PendingReads::new(self, joined))
    }

    /// Reads the nodes that are not cached, and waits for the reads. Skips nodes for which no frame
    /// is available, and ignores failed reads: a reader that looks up such a node reads it again
    /// and gets the error.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for an invalid pointer. Nothing was read then.
    ///
    /// # Panics
    /// If the guard belongs to other epochs.
    pub fn read_through(
        &self,
        pointers: &[NodePointer],
        guard: &EpochGuard,
        purpose: Purpose,
        residence: CacheRetention,
    ) -> Result<()> {
        assert!(
            guard.is_of(&self.shared.epochs),
            "the guard is of other epochs than the cache"
        );
        self.shared.read_through(pointers, guard, purpose, residence)
    }

    /// Like [`NodeCache::request`] for several readers, each of which waits only for its own nodes.
    /// All reads of a tier are submitted together, which is cheaper.
    ///
    /// # Errors
    /// As [`NodeCache::request`].
    pub fn request_each(
        &self,
        wanted: &[&[NodePointer]],
        purpose: Purpose,
        residence: CacheRetention,
    ) -> Result<Vec<PendingReads>> {
        let guard = self.shared.epochs.pin();
        self.shared.finish_orphans(&guard);
        let all = self.shared.begin_each(wanted, &guard, purpose, residence)?;
        Ok(all
            .into_iter()
            .map(|joined| PendingReads::new(self, joined))
            .collect())
    }

    /// Returns whether optional [pins](NodeRef::retain) are allowed: less than an eighth of the
    /// budget is pinned.
    #[must_use]
    pub fn may_pin(&self) -> bool {
        self.shared.pinned_bytes.load(Ordering::Relaxed) < self.shared.budget.limit() / PINNED_FRACTION
    }

    /// Lends bytes of the budget to a reader that bypasses the cache. Returns `None` while the
    /// cache is not full, because it could hold the nodes itself, and if the loans and reads in
    /// flight would exceed a sixteenth of the budget.
    #[must_use]
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        let budget = &self.shared.budget;
        let is_full = self.shared.chunks.assigned() >= self.shared.allowed_chunks();
        let is_there = budget.working() + bytes <= budget.limit() / RESERVATION_FRACTION;
        (is_full && is_there).then(|| Reservation::new(budget, bytes))
    }

    /// Inserts a newly written node, if a frame is available.
    ///
    /// # Panics
    /// If `node` does not have the pointer's number of pages.
    pub fn insert(&self, pointer: &NodePointer, node: &[u8]) {
        self.put(pointer, node, InitialHeat::Proven);
    }

    /// Offers a newly written node that may or may not be read soon. It is inserted only while the
    /// cache is not full, so that it evicts nothing, unless [`NodeCache::set_admit_written`] is
    /// set.
    ///
    /// # Panics
    /// As [`NodeCache::insert`].
    pub fn offer(&self, pointer: &NodePointer, node: &[u8]) {
        if self.shared.admits_written.load(Ordering::Relaxed) {
            self.put(pointer, node, InitialHeat::Proven);
        } else if self.shared.chunks.assigned() < self.shared.allowed_chunks() {
            self.put(pointer, node, InitialHeat::Trial);
        }
    }

    /// Sets whether offered nodes are always inserted, even if others must be evicted for them. In
    /// a cache large enough for all live nodes, the evicted ones are dead.
    pub fn set_admit_written(&self, keeps: bool) {
        self.shared.admits_written.store(keeps, Ordering::Relaxed);
    }

    fn put(&self, pointer: &NodePointer, node: &[u8], manner: InitialHeat) {
        assert!(
            pointer.check(&pointer.place(), self.shared.page_size).is_ok()
                && node.len() == self.shared.page_size.node_bytes(pointer.pages),
            "a node of {} bytes is put into the cache for {pointer:?}",
            node.len()
        );
        let guard = self.shared.epochs.pin();
        self.shared.insert(pointer, node, manner, &guard);
    }

    /// Drops a node that will not be read again, so that its frame is free sooner. This is a hint:
    /// a node dropped by mistake is simply read again.
    pub fn discard(&self, pointer: &NodePointer) {
        let guard = self.shared.epochs.pin();
        let key = NodeKey::of(pointer);
        if let Some(frame) = self.shared.find_frame(&key, key.hash(), &guard)
            && self.shared.unmap(frame, &guard)
        {
            self.shared.retire(&[frame], &guard);
        }
    }

    /// Marks a node that is being replaced and dies once its replacement is published. It is
    /// evicted before any other, and remains available to readers of the old version until then.
    /// This is a hint, as [`NodeCache::discard`] is.
    pub fn demote(&self, pointer: &NodePointer) {
        let guard = self.shared.epochs.pin();
        let key = NodeKey::of(pointer);
        if let Some(frame) = self.shared.find_frame(&key, key.hash(), &guard)
            && self.shared.header(frame).demote()
        {
            self.shared.push_demoted(frame);
        }
    }

    /// Changes the budget. A larger budget takes effect at once. A smaller one evicts the excess.
    /// Chunks with nodes held by guards or references are given back after these are dropped, by
    /// later misses or by [`NodeCache::maintain`].
    ///
    /// # Errors
    /// [`Error::BadOption`] if the budget is below [`NodeCache::least_budget`] or above the
    /// reserved address space; nothing has changed then. Also if there is no memory for the new
    /// page table; the new budget is in effect then.
    pub fn set_budget(&self, bytes: u64) -> Result<()> {
        let shared = &self.shared;
        let _resizing = shared.resizing.lock();
        let (least, most) = (Self::least_budget(shared.page_size), shared.arena.len() as u64);
        if bytes < least || bytes > most {
            return Err(Self::bad_budget(format!(
                "{bytes} bytes are not between {least} and {most}"
            )));
        }
        let before = shared.budget.limit();
        let (_, frames) = CacheBudget::shape(bytes, shared.budget.fixed(), &shared.geometry);
        shared.budget.set_limit(bytes);
        if bytes < before {
            self.drain();
        }
        let mut without_room = Vec::new();
        let hash_of = |frame| shared.header(frame).key().hash();
        let guard = shared.epochs.pin();
        let replaced = shared
            .tables
            .replace(frames, &shared.epochs, hash_of, |frame| without_room.push(frame));
        shared.retire(&without_room, &guard);
        drop(guard);
        replaced?;
        self.drain();
        Ok(())
    }

    /// Gives back chunks beyond the budget, as far as guards and references allow.
    fn drain(&self) {
        for _ in 0..ROUNDS_TO_SHRINK {
            self.maintain();
            if self.shared.chunks.draining() == 0
                && self.shared.chunks.assigned() <= self.shared.allowed_chunks()
            {
                return;
            }
        }
    }

    /// Performs bounded background work: finishes completed reads, starts and continues draining
    /// chunks, and advances the epoch. Optional for correctness.
    pub fn maintain(&self) {
        let guard = self.shared.epochs.pin();
        self.shared.finish_orphans(&guard);
        self.shared.settle_all(&guard);
        self.shared.shrink();
        self.shared.continue_draining(&guard);
        drop(guard);
        self.shared.epochs.try_advance();
        self.shared.tables.drop_replaced(&self.shared.epochs);
    }

    /// Returns the memory that the current budget may use, for
    /// [`Directory::register_memory`](alluvium_device::Directory::register_memory).
    ///
    /// Registered memory is pinned by the kernel, so this region is never given back to the system,
    /// even when the budget shrinks (it is merely unused then). Offer it only if the budget is
    /// meant to stay or grow.
    #[must_use]
    pub fn memory_region(&self) -> MemoryRegion {
        let chunks = self.shared.allowed_chunks();
        self.shared.offered.fetch_max(chunks, Ordering::Relaxed);
        let len = chunks as usize * self.shared.geometry.chunk_bytes;
        self.shared.arena.prefer_huge_pages(0, len);
        self.shared.arena.region(len)
    }

    /// Counts lookups that missed index or maplet pages. The cache does not know the contents of a
    /// node. The caller does, and uses the count to divide memory between the caches.
    pub fn record_index_misses(&self, count: u64, guard: &EpochGuard) {
        self.shared.counters.count_index_misses(guard, count);
    }

    /// Returns the statistics of the cache.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        Self::stats_of(&self.shared)
    }

    fn stats_of(shared: &NodeCacheInner) -> CacheStats {
        let mut stats = CacheStats {
            budget_bytes: shared.budget.limit(),
            arena_bytes: shared.chunks.assigned() * shared.geometry.chunk_cost(),
            table_bytes: shared.tables.bytes(),
            fixed_bytes: shared.budget.fixed(),
            private_bytes: shared.budget.private(),
            working_bytes: shared.budget.working(),
            resident_bytes: shared.resident_bytes.load(Ordering::Relaxed),
            pinned_bytes: shared.pinned_bytes.load(Ordering::Relaxed),
            draining_chunks: shared.chunks.draining() as u64,
            ..CacheStats::default()
        };
        stats.charged_bytes = stats.arena_bytes
            + stats.table_bytes
            + stats.fixed_bytes
            + stats.private_bytes
            + stats.working_bytes;
        shared.counters.fill(&mut stats);
        stats
    }
}

impl fmt::Debug for NodeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("page_size", &self.shared.page_size)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
