//! Statistics of a table.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since a table was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    pub gets: u64,
    /// Lookups that found the key.
    pub hits: u64,
    /// Items written, in place or not.
    pub sets: u64,
    pub updates_in_place: u64,
    pub deletes: u64,
    /// Items that left a log at its head, live or not.
    pub dropped: u64,
    /// Of these, items that were live until then. Counted only under S3-FIFO.
    pub evicted: u64,
    /// Items copied to the tail of a log because of accesses.
    pub moved: u64,
    /// Items whose index entry was replaced by another.
    pub displaced: u64,
    /// Sets of keys that were evicted recently (S3-FIFO).
    pub returned: u64,
    /// Stale entries cleared by sweeps.
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

/// An event counted by a writer.
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
/// Number of read counters. Threads use different cache lines, so that they do not contend for one.
const STRIPES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(128))]
struct CounterStripe {
    gets: AtomicU64,
    hits: AtomicU64,
}

/// The counters of a table.
#[derive(Debug, Default)]
pub struct TableCounters {
    events: [AtomicU64; EVENTS],
    reads: [CounterStripe; STRIPES],
}

/// Returns the index of this thread's stripe.
fn stripe() -> usize {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) as usize % STRIPES;
    }
    STRIPE.with(|stripe| *stripe)
}

/// Adds to a counter that has a single writer at a time.
#[inline(always)]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(count),
        Ordering::Relaxed,
    );
}

impl TableCounters {
    /// Counts an event of a writer that excludes other writers.
    #[inline(always)]
    pub(super) fn count(&self, event: TableEvent) {
        add(&self.events[event as usize], 1);
    }

    /// Counts lookups of the only thread.
    #[inline(always)]
    pub(super) fn read_alone(&self, gets: u64, hits: u64) {
        add(&self.reads[0].gets, gets);
        add(&self.reads[0].hits, hits);
    }

    /// Counts lookups of one of several threads.
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
