//! Block cache for immutable nodes. The cache never writes a node back to a device.
//!
//! *Scope*: the mapping from nodes to frames, references to frames, the recency of use of each
//! node, and memory accounting.
//!
//! *Must not depend on*: the contents of a node, when a node dies, which thread of the store calls.
//!
//! A lookup hashes the node pointer, and then reads one cache line of the page table and one frame
//! header. A hit takes no lock and writes to no shared memory: the CLOCK bit is tested before it is
//! set, and hits are counted per thread. The resulting [`NodeRef`] is valid while the epoch guard
//! lives, because a frame is reused only two epochs after its removal from the page table. The
//! design is SplinterDB's user-level clock cache (Conway 2023, §3.4) with three changes: epochs
//! replace per-frame reader counts, nodes have several sizes, and all readers that miss a node
//! share one read.
//!
//! Invariants:
//!
//! - **C1** From publication until recycling, a frame contains one node, whose bytes do not change.
//! - **C2** A frame is recycled only if it was removed from the page table at an epoch below
//!   [`Epochs::safe`] and no [`FrameRef`] pins it.
//! - **C3** Once a chunk is divided into frames, each frame is in exactly one place: a list of free
//!   frames, a read or insertion, the page table, or a list of retired frames. The only exceptions
//!   are free frames of a draining chunk, which are in no list.
//! - **C4** A node is never being read twice at the same time.
//! - **C5** The memory charged to the budget does not exceed the budget, except while a reduction
//!   of the budget takes effect, and while guards and references keep more private memory alive
//!   than is reserved for it.
//! - **C6** The page table never contains a node that failed verification or decoding.
//! - **C7** No thread waits for a device while it holds a lock. A thread submits its own reads
//!   before it waits for another thread's read.
//! - **C8** Bytes read from a promoted copy are used only if they match the checksum in the node's
//!   pointer; otherwise the node is read from its own tier.
//!
//! # What it costs
//!
//! The following costs are medians, measured on two shared virtual processors with
//! `cargo bench -p alluvium-storage --bench cache`. A hit among 1,000 nodes takes 40 ns, including
//! a read of the node's first word, and 47 ns if a new guard is created too. Two threads that read
//! the same nodes achieve 2.0 times the throughput of one. A miss adds 0.9 µs to the device read
//! and the verification. An insertion that evicts another node takes 0.73 µs. Of its budget, a
//! cache uses 2 % for frame headers and 0.4 % for the page table, and reserves 3 % for reads in
//! flight.

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

/// Number of frame stocks, each with its own lock. If there are more threads, they share stocks.
const LANES: usize = 32;
/// Minimum budget of a cache, in pages.
const MIN_BUDGET_PAGES: u64 = 256;
/// Address space in bytes that is reserved so that the budget can grow: `RESERVED_BYTES`, or
/// `RESERVED_TIMES` times the first budget, whichever is larger.
const RESERVED_BYTES: u64 = 64 << 30;
const RESERVED_TIMES: u64 = 16;
/// Optional pins are allowed only while pinned frames occupy less than 1/`PINNED_FRACTION` of the
/// budget.
const PINNED_FRACTION: u64 = 8;
/// At most 1/`RESERVATION_FRACTION` of the budget may be used as working memory of reads in flight
/// or [reserved](NodeCache::try_reserve) by readers that bypass the cache.
const RESERVATION_FRACTION: u64 = 16;
const _: () = assert!(
    PINNED_FRACTION > 1 && RESERVATION_FRACTION > 1,
    "parts of the budget (C5)"
);
/// Maximum number of maintenance rounds in which `set_budget` waits for draining chunks to empty.
/// Each round tries to advance the epoch.
const ROUNDS_TO_SHRINK: usize = 8;

/// Whether the nodes that a read loads should stay in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheRetention {
    /// The node is cached like any node read for a lookup.
    Keep,
    /// The node is expected to be used once, as in scans and compactions. Pass-through reads get a
    /// limited share of the frames. Beyond that share, they may evict only nodes that will soon be
    /// dead or that no other reader has used. An evicted pass-through node leaves no ghost entry.
    PassThrough,
}

/// A cache of nodes. Clones of this handle refer to the same cache.
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
    /// Queue of cold frames, oldest first. An entry is stale if its frame has been used since.
    cold: CachePadded<Mutex<VecDeque<FrameId>>>,
    /// Queue of frames whose nodes are or will soon be dead, in the order in which they were
    /// marked. These frames are evicted before all others.
    demoted: CachePadded<Mutex<VecDeque<FrameId>>>,
    ghosts: GhostQueue,
    copies: PromotedCopies,
    /// Batches in flight whose [`PendingReads`] was dropped before the reads completed.
    orphans: CachePadded<Mutex<Vec<Arc<BatchRead>>>>,
    resident_bytes: CachePadded<AtomicU64>,
    pinned_bytes: CachePadded<AtomicU64>,
    /// Total decoded size in bytes of the nodes that are being read.
    reading_bytes: CachePadded<AtomicU64>,
    /// Number of nodes being loaded by pass-through reads.
    passing: CachePadded<AtomicU64>,
    /// Number of chunks, counted from the first, that were offered for registration with the
    /// kernel. Their memory is never returned to the system.
    offered: CachePadded<AtomicU64>,
    /// Whether [`NodeCache::offer`] inserts a node even if another node must be evicted to free a
    /// frame for it.
    admits_written: AtomicBool,
    resizing: Mutex<()>,
}

impl NodeCacheInner {
    #[inline]
    fn header(&self, frame: FrameId) -> &FrameHeader {
        self.arena.at(self.geometry.header_at(frame))
    }

    /// Returns the offset in the arena at which the frame's node begins.
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
        // Read the size before dropping the reference, because the frame may then be reused for
        // another size class.
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
    /// Finishes every read that the device has completed, including reads whose [`PendingReads`]
    /// was dropped or not polled. An unfinished read prevents the epoch from advancing, so a thread
    /// that waits for the epoch must call this.
    pub fn finish_arrived(&self) {
        let guard = self.shared.epochs.pin();
        self.shared.finish_orphans(&guard);
        self.shared.settle_all(&guard);
    }

    /// Returns the minimum budget in bytes of a cache with this page size.
    #[must_use]
    pub fn least_budget(page_size: PageSize) -> u64 {
        MIN_BUDGET_PAGES * page_size.bytes() as u64
    }

    /// Creates an empty cache. Address space is reserved so that the budget can grow later; memory
    /// is committed only when it is first used.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the budget is below [`NodeCache::least_budget`], or if the operating
    /// system cannot reserve the address space.
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

    /// Returns the epochs of this cache. A guard of these epochs keeps nodes valid that are found
    /// under it.
    #[must_use]
    pub fn epochs(&self) -> &Epochs {
        &self.shared.epochs
    }

    /// Returns the page size of this cache.
    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.shared.page_size
    }

    /// Returns the node if it is cached, and marks it as used. Otherwise returns `None` without
    /// starting a read.
    ///
    /// # Panics
    /// If the guard does not belong to the epochs of this cache.
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

    /// Prefetches the first cache line that [`NodeCache::peek`] will read, for a caller that is
    /// about to look up several nodes. This is only a hint.
    #[inline]
    pub fn prefetch(&self, pointer: &NodePointer, guard: &EpochGuard) {
        self.shared.tables.prefetch(NodeKey::of(pointer).hash(), guard);
    }

    /// Prefetches the frame header that [`NodeCache::peek`] will read. This function itself reads
    /// the cache line requested by [`NodeCache::prefetch`], so call it only after that line has
    /// arrived.
    #[inline]
    pub fn prefetch_header(&self, pointer: &NodePointer, guard: &EpochGuard) {
        let shared = &self.shared;
        // The first frame with a matching tag is almost always the right one, so skip comparing the
        // key.
        let _ = shared.tables.find(NodeKey::of(pointer).hash(), guard, |frame| {
            alluvium_base::prefetch_line(shared.header(frame));
            true
        });
    }

    /// Like [`NodeCache::peek`], but does not mark the node as used in the replacement policy. It
    /// serves readers that have read the node ahead and use it only once.
    ///
    /// # Panics
    /// If the guard does not belong to the epochs of this cache.
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

    /// Returns a node from the cache, or reads it from its tier. If several threads miss the same
    /// node, one of them reads it while the others wait.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the node does not match the checksum in its pointer or cannot be
    /// decoded; [`Error::Device`] if it cannot be read. A failed node is not cached, and every
    /// reader that waited for it gets the error.
    ///
    /// # Panics
    /// If the guard does not belong to the epochs of this cache.
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

    /// Returns the nodes of all `pointers`, in the same order. Nodes that are not cached are
    /// submitted to the device in one batch per tier.
    ///
    /// # Errors
    /// The error of the first pointer, in the order of `pointers`, whose node cannot be returned.
    ///
    /// # Panics
    /// If the guard does not belong to the epochs of this cache.
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

    /// Starts reading the nodes that are not cached, and returns without waiting for the reads. The
    /// caller must hold a guard or otherwise ensure that the pointers stay valid. This is only a
    /// hint: a node for which no frame is available is skipped.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a pointer is invalid, in which case no read is started.
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

    /// Reads the nodes that are not cached into the cache, and waits for the reads to complete. A
    /// node for which no frame is available is skipped, and failed reads are ignored: a later
    /// lookup of such a node reads it again and returns the error.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a pointer is invalid, in which case no node is read.
    ///
    /// # Panics
    /// If the guard does not belong to the epochs of this cache.
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

    /// Like [`NodeCache::request`], but for several readers at once: returns one [`PendingReads`]
    /// for each list of pointers, so that a reader waits only for its own nodes. All reads of a
    /// tier are submitted to the device together, which costs less than separate submissions.
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

    /// Returns whether optional [pins](NodeRef::retain) are allowed, which requires that less than
    /// an eighth of the budget is pinned.
    #[must_use]
    pub fn may_pin(&self) -> bool {
        self.shared.pinned_bytes.load(Ordering::Relaxed) < self.shared.budget.limit() / PINNED_FRACTION
    }

    /// Reserves `bytes` of the budget for a reader that bypasses the cache. Returns `None` while
    /// the cache is not full, because the reader can then load its nodes into free frames instead.
    /// Also returns `None` if all reservations and in-flight reads would together use more than a
    /// sixteenth of the budget.
    #[must_use]
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        let budget = &self.shared.budget;
        let is_full = self.shared.chunks.assigned() >= self.shared.allowed_chunks();
        let is_there = budget.working() + bytes <= budget.limit() / RESERVATION_FRACTION;
        (is_full && is_there).then(|| Reservation::new(budget, bytes))
    }

    /// Inserts a newly written node into the cache if a frame is available, and otherwise does
    /// nothing.
    ///
    /// # Panics
    /// If the pointer is invalid, or if the length of `node` is not the pointer's number of pages.
    pub fn insert(&self, pointer: &NodePointer, node: &[u8]) {
        self.put(pointer, node, InitialHeat::Proven);
    }

    /// Offers a newly written node that may or may not be read soon. The node is inserted only
    /// while the cache is not full, so that no other node is evicted for it.
    /// [`NodeCache::set_admit_written`] lifts this restriction.
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

    /// Sets whether [`NodeCache::offer`] inserts the node even if another node must be evicted.
    /// This is right for a cache with frames for all live nodes, in which evicted nodes are dead.
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

    /// Removes a node that will not be read again from the cache, so that its frame can be reused
    /// sooner. This is only a hint: a node that is still needed is simply read again.
    pub fn discard(&self, pointer: &NodePointer) {
        let guard = self.shared.epochs.pin();
        let key = NodeKey::of(pointer);
        if let Some(frame) = self.shared.find_frame(&key, key.hash(), &guard)
            && self.shared.unmap(frame, &guard)
        {
            self.shared.retire(&[frame], &guard);
        }
    }

    /// Marks a cached node that is about to be replaced and will be dead once its replacement is
    /// published. The node is evicted before all unmarked nodes, but until then it stays available
    /// to readers of the old version. Like [`NodeCache::discard`], this is only a hint.
    pub fn demote(&self, pointer: &NodePointer) {
        let guard = self.shared.epochs.pin();
        let key = NodeKey::of(pointer);
        if let Some(frame) = self.shared.find_frame(&key, key.hash(), &guard)
            && self.shared.header(frame).demote()
        {
            self.shared.push_demoted(frame);
        }
    }

    /// Changes the memory budget to `bytes`. An increase takes effect immediately. A decrease
    /// evicts nodes until the cache fits the new budget. A chunk cannot be returned to the system
    /// yet if guards or references keep nodes in it alive. It is returned by a later miss or
    /// [`NodeCache::maintain`], once those guards and references have been dropped.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the budget is below [`NodeCache::least_budget`] or above the
    /// reserved address space, in which case nothing has changed. Also an error if there is not
    /// enough memory for the new page table; the new budget is in effect nevertheless.
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

    /// Returns chunks beyond the budget to the system, except those whose nodes are kept alive by
    /// guards or references.
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

    /// Performs a bounded amount of background work: finishes completed reads, starts and continues
    /// draining of chunks, and tries to advance the epoch. Correctness does not depend on it.
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

    /// Returns the memory region that the current budget may use, for
    /// [`Directory::register_memory`](alluvium_device::Directory::register_memory).
    ///
    /// The kernel pins registered memory, so chunks in this region are never returned to the
    /// system: if the budget shrinks later, they stay resident but unused. Register the region only
    /// if the budget is expected to stay the same or grow.
    #[must_use]
    pub fn memory_region(&self) -> MemoryRegion {
        let chunks = self.shared.allowed_chunks();
        self.shared.offered.fetch_max(chunks, Ordering::Relaxed);
        let len = chunks as usize * self.shared.geometry.chunk_bytes;
        self.shared.arena.prefer_huge_pages(0, len);
        self.shared.arena.region(len)
    }

    /// Adds `count` to the number of lookups that missed an index or maplet node. The cache cannot
    /// count these misses itself, because it does not know the contents of nodes. The caller uses
    /// the count to divide memory between caches.
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
        f.debug_struct("NodeCache")
            .field("page_size", &self.shared.page_size)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
