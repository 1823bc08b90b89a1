//! Statistics of the cache. A hit updates only a counter of its own thread, and writes to no shared
//! memory.

use crate::EpochGuard;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of stripes that belong to a single thread each. A thread whose epoch slot is below this
/// number has its own stripe; all other threads share one more.
const STRIPES: usize = 64;

#[derive(Debug, Default)]
struct StatsStripe {
    hits: AtomicU64,
    misses: AtomicU64,
    guides: AtomicU64,
    joined: AtomicU64,
    evictions: AtomicU64,
    private: AtomicU64,
    failures: AtomicU64,
}

/// Counters striped by thread, so that threads rarely write to the same cache line.
#[derive(Debug)]
pub(super) struct StripedCounters {
    stripes: Box<[CachePadded<StatsStripe>]>,
}

impl StripedCounters {
    pub(super) fn new() -> StripedCounters {
        StripedCounters {
            stripes: (0..=STRIPES).map(|_| CachePadded::default()).collect(),
        }
    }

    /// Returns the size of the counters in bytes.
    pub(super) fn bytes() -> u64 {
        ((STRIPES + 1) * size_of::<CachePadded<StatsStripe>>()) as u64
    }

    #[inline]
    fn add(&self, guard: &EpochGuard, counter: impl Fn(&StatsStripe) -> &AtomicU64, count: u64) {
        match guard.slot() {
            Some(slot) if slot < STRIPES => {
                // A load and a store suffice, because a slot belongs to one thread, and no other
                // thread writes to this stripe.
                let counter = counter(&self.stripes[slot]);
                counter.store(
                    counter.load(Ordering::Relaxed).wrapping_add(count),
                    Ordering::Relaxed,
                );
            }
            _ => {
                counter(&self.stripes[STRIPES]).fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    pub(super) fn hit(&self, guard: &EpochGuard) {
        self.add(guard, |stripe| &stripe.hits, 1);
    }

    pub(super) fn missed(&self, guard: &EpochGuard) {
        self.add(guard, |stripe| &stripe.misses, 1);
    }

    pub(super) fn count_index_misses(&self, guard: &EpochGuard, count: u64) {
        self.add(guard, |stripe| &stripe.guides, count);
    }

    pub(super) fn joined(&self, guard: &EpochGuard) {
        self.add(guard, |stripe| &stripe.joined, 1);
    }

    pub(super) fn evicted(&self, guard: &EpochGuard, count: u64) {
        self.add(guard, |stripe| &stripe.evictions, count);
    }

    pub(super) fn private(&self, guard: &EpochGuard) {
        self.add(guard, |stripe| &stripe.private, 1);
    }

    pub(super) fn failed(&self, guard: &EpochGuard) {
        self.add(guard, |stripe| &stripe.failures, 1);
    }

    fn sum(&self, counter: impl Fn(&StatsStripe) -> &AtomicU64) -> u64 {
        self.stripes
            .iter()
            .map(|stripe| counter(stripe).load(Ordering::Relaxed))
            .sum()
    }

    pub(super) fn fill(&self, stats: &mut CacheStats) {
        stats.hits = self.sum(|stripe| &stripe.hits);
        stats.misses = self.sum(|stripe| &stripe.misses);
        stats.index_misses = self.sum(|stripe| &stripe.guides);
        stats.joined = self.sum(|stripe| &stripe.joined);
        stats.evictions = self.sum(|stripe| &stripe.evictions);
        stats.private_reads = self.sum(|stripe| &stripe.private);
        stats.failures = self.sum(|stripe| &stripe.failures);
    }
}

/// Statistics of a cache. Counts are totals since the cache was created, and byte sizes are
/// current. The fields are read one after another, so they are not a consistent snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Number of lookups that found the node in the cache.
    pub hits: u64,
    /// Number of nodes that were read from a device.
    pub misses: u64,
    /// Number of lookups that missed an index or maplet node, as [reported by the
    /// caller](super::NodeCache::record_index_misses).
    pub index_misses: u64,
    /// Number of lookups that waited for a read started by another call.
    pub joined: u64,
    /// Number of nodes evicted to free frames for others.
    pub evictions: u64,
    /// Number of misses that read the node into private memory, because every frame was in use or
    /// could not be recycled until the epoch advanced.
    pub private_reads: u64,
    /// Number of failed reads, including nodes that failed verification or decoding.
    pub failures: u64,
    /// The memory budget in bytes.
    pub budget_bytes: u64,
    /// Bytes charged to the budget: the sum of the next five fields. They exceed the budget only
    /// while a reduction of the budget takes effect, and while guards and references keep more
    /// private memory alive than is reserved for it.
    pub charged_bytes: u64,
    /// Bytes of the chunks in use, including frame headers and free frames.
    pub arena_bytes: u64,
    /// Bytes of the page tables, including replaced tables that are not freed yet.
    pub table_bytes: u64,
    /// Bytes of lists, counters and other structures of fixed size.
    pub fixed_bytes: u64,
    /// Bytes of nodes in private memory that guards and references keep alive.
    pub private_bytes: u64,
    /// Bytes of scratch memory and of the bookkeeping of reads in flight.
    pub working_bytes: u64,
    /// Bytes of frames that contain a node. Included in `arena_bytes`.
    pub resident_bytes: u64,
    /// Bytes of frames pinned by a [`FrameRef`](super::FrameRef). Included in `arena_bytes`.
    pub pinned_bytes: u64,
    /// Number of chunks being emptied, either to be divided into frames of another size or to be
    /// returned to the system.
    pub draining_chunks: u64,
}
