//! Statistics of a table.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

/// Event counters since a table was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    pub gets: u64,
    /// Number of lookups that found the key.
    pub hits: u64,
    /// Number of items written, including those that overwrote their previous value in place.
    pub sets: u64,
    pub updates_in_place: u64,
    pub deletes: u64,
    /// Number of items dropped at the head of a log, whether or not they could still be found.
    pub dropped: u64,
    /// Number of dropped items that could still be found and had not expired. Counted only under
    /// S3-FIFO.
    pub evicted: u64,
    /// Number of items copied to the tail of a log because they had been accessed.
    pub moved: u64,
    /// Number of items lost because the entry of another item replaced theirs.
    pub displaced: u64,
    /// Number of times that a key was set soon after its eviction. Counted only under S3-FIFO.
    pub returned: u64,
    /// Number of stale entries that sweeps cleared.
    pub swept: u64,
}

impl AddAssign for TableStats {
    fn add_assign(&mut self, other: TableStats) {
        self.gets += other.gets;
        self.hits += other.hits;
        self.sets += other.sets;
        self.updates_in_place += other.updates_in_place;
        self.deletes += other.deletes;
        self.dropped += other.dropped;
        self.evicted += other.evicted;
        self.moved += other.moved;
        self.displaced += other.displaced;
        self.returned += other.returned;
        self.swept += other.swept;
    }
}

/// The events that writers count.
#[derive(Clone, Copy, Debug)]
pub(super) enum TableEvent {
    Set,
    UpdateInPlace,
    Delete,
    Drop,
    Evict,
    Move,
    Displace,
    Return,
    Sweep,
}

const EVENTS: usize = TableEvent::Sweep as usize + 1;
/// Number of stripes of lookup counters. Each stripe has its own cache lines, so that threads do
/// not contend for one.
const STRIPES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(128))]
struct CounterStripe {
    gets: AtomicU64,
    hits: AtomicU64,
}

/// The event counters of a table.
#[derive(Debug, Default)]
pub struct TableCounters {
    events: [AtomicU64; EVENTS],
    reads: [CounterStripe; STRIPES],
}

/// Returns the index of the current thread's stripe.
fn stripe() -> usize {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) as usize % STRIPES;
    }
    STRIPE.with(|stripe| *stripe)
}

/// Adds to a counter that only one thread at a time writes.
#[inline(always)]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(count),
        Ordering::Relaxed,
    );
}

impl TableCounters {
    /// Counts an event. The caller must be a writer that has excluded other writers.
    #[inline(always)]
    pub(super) fn count(&self, event: TableEvent) {
        add(&self.events[event as usize], 1);
    }

    /// Counts lookups in a table that only one thread uses.
    #[inline(always)]
    pub(super) fn read_alone(&self, gets: u64, hits: u64) {
        add(&self.reads[0].gets, gets);
        add(&self.reads[0].hits, hits);
    }

    /// Counts lookups in a table that several threads use.
    #[inline]
    pub(super) fn read(&self, gets: u64, hits: u64) {
        let stripe = &self.reads[stripe()];
        stripe.gets.fetch_add(gets, Ordering::Relaxed);
        stripe.hits.fetch_add(hits, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> TableStats {
        let event = |event: TableEvent| self.events[event as usize].load(Ordering::Relaxed);
        let sum = |counter: fn(&CounterStripe) -> &AtomicU64| {
            self.reads
                .iter()
                .map(|stripe| counter(stripe).load(Ordering::Relaxed))
                .sum()
        };
        TableStats {
            gets: sum(|stripe| &stripe.gets),
            hits: sum(|stripe| &stripe.hits),
            sets: event(TableEvent::Set),
            updates_in_place: event(TableEvent::UpdateInPlace),
            deletes: event(TableEvent::Delete),
            dropped: event(TableEvent::Drop),
            evicted: event(TableEvent::Evict),
            moved: event(TableEvent::Move),
            displaced: event(TableEvent::Displace),
            returned: event(TableEvent::Return),
            swept: event(TableEvent::Sweep),
        }
    }
}
