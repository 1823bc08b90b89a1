//! Statistics of the cache, without a shared write in the path of a hit.

use crate::EpochGuard;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads whose slot is below this have their own counters. The others share the last stripe.
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

/// Counters in stripes, so that threads rarely share a cache line.
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

    /// Returns the memory of the counters in bytes.
    pub(super) fn bytes() -> u64 {
        ((STRIPES + 1) * size_of::<CachePadded<StatsStripe>>()) as u64
    }

    #[inline]
    fn add(&self, guard: &EpochGuard, counter: impl Fn(&StatsStripe) -> &AtomicU64, count: u64) {
        match guard.slot() {
            Some(slot) if slot < STRIPES => {
                // This stripe has no other writer: a slot belongs to one thread.
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

/// Statistics of a cache. Counts are totals since its creation, bytes are current. The values are
/// read one after another, so they are not a consistent snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Lookups that found their node.
    pub hits: u64,
    /// Nodes read from the device.
    pub misses: u64,
    /// Misses of index or maplet nodes, as [reported by the
    /// caller](super::NodeCache::record_index_misses).
    pub index_misses: u64,
    /// Lookups that waited for a read started by another call.
    pub joined: u64,
    /// Number of nodes removed from their frames to make space.
    pub evictions: u64,
    /// Misses served from private memory, because every frame was in use or waited for an epoch.
    pub private_reads: u64,
    /// Failed reads, including failures of verification and decoding.
    pub failures: u64,
    /// The memory budget in bytes.
    pub budget_bytes: u64,
    /// Bytes charged to the budget: the sum of the five fields below. It exceeds the budget only
    /// while a smaller budget takes effect, or while guards and references hold more private memory
    /// than the reserve.
    pub charged_bytes: u64,
    /// Chunks of the arena, including headers and free frames.
    pub arena_bytes: u64,
    /// Memory of the page tables.
    pub table_bytes: u64,
    /// Lists, counters and other structures of fixed size.
    pub fixed_bytes: u64,
    /// Nodes in private memory, which guards and references hold.
    pub private_bytes: u64,
    /// Scratch memory, and the records of reads in flight.
    pub working_bytes: u64,
    /// Frames that hold a node; a part of `arena_bytes`.
    pub resident_bytes: u64,
    /// Frames with a [`FrameRef`](super::FrameRef); a part of `arena_bytes`.
    pub pinned_bytes: u64,
    /// Chunks that are moving from one node size to another, or being given back.
    pub draining_chunks: u64,
}
