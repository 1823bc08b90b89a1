//! The memory budget: a single limit for the entire store, and how it is divided among memory
//! consumers.
//!
//! Memtables and the log fill fast, so they keep the memory that they needed within the last few
//! seconds, plus some headroom. Without writes, their memory goes to the page cache and the record
//! cache. The tree's memory grows with the data. If it exceeds a sixteenth of the budget, the page
//! cache shrinks.

use super::Engine;
use super::balance::BalanceState;
use super::commit_record::{CommitRecord, too_long};
use super::policy::MOST_SEALED;
use super::record_cache::sizing;
use crate::error::{Error, Result};
use crate::options::store::RecordShare;
use alluvium_base::MIB;
use alluvium_dictionary::memtable::Memtable;
use alluvium_storage::{NodeCache, watermark};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Memory use of a store in bytes, by consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Limit of the total memory use.
    pub budget: u64,
    /// Memtables, whose data is not flushed to the tree yet.
    pub memtables: u64,
    /// Pages of the log that may be resident in memory.
    pub log: u64,
    /// Memory budget of the page cache.
    pub pages: u64,
    /// Memory budget of the record cache.
    pub records: u64,
    /// Memory of the tree: its trunk, open runs and maplets, memory held by iterators, and running
    /// ingests.
    pub tree: u64,
    /// Tables of allocated space, and the structure that tracks which commits are visible.
    pub tables: u64,
    /// Buffered writes and tracked reads of open transactions.
    pub transactions: u64,
    /// Memory that the application reports to use outside the store.
    pub external: u64,
}

impl MemoryUse {
    /// Returns the total memory of all consumers.
    #[must_use]
    pub fn total(&self) -> u64 {
        let own = self.memtables + self.log + self.pages + self.records + self.tree + self.tables;
        own + self.transactions + self.external
    }
}

/// The tree may use 1/`TREE_SHARE` of the memory budget. If it uses more, the page cache shrinks
/// accordingly.
const TREE_SHARE: u64 = 16;
/// Changes of the page cache's budget by less than 1/`WORTH` of the memory budget are ignored.
const WORTH: u64 = 64;

/// Between calls, all iterators together may retain at most 1/`SCANS_SHARE` of the memory budget.
const SCANS_SHARE: u64 = 16;

/// Memory reserved for memtables and the log.
#[derive(Debug, Default)]
pub(crate) struct WriteMemoryReservation {
    bytes: u64,
    /// The last time that the entire reservation was needed.
    needed: Option<Instant>,
}

/// How long to keep a reservation after it was last needed. Without this delay, a program that
/// writes in bursts, or fills a memtable within seconds, would evict cached pages during every
/// burst, only to read them back afterwards. The operating system would also have to supply fresh
/// memory for every burst.
const HOLD: Duration = Duration::from_secs(10);
/// Headroom of the reservation for writes that arrive before the next adjustment: 1/`AHEAD` of the
/// maximum is added to the memory in use.
const AHEAD: u64 = 16;

impl WriteMemoryReservation {
    /// Updates the reservation and returns it in bytes. `used` is the number of bytes in use, and
    /// `share` is the maximum reservation.
    fn update(&mut self, used: u64, share: u64, now: Instant) -> u64 {
        let wanted = (used + share / AHEAD).min(share);
        let is_held = self.needed.is_some_and(|needed| now < needed + HOLD);
        if wanted >= self.bytes {
            self.needed = Some(now);
            self.bytes = wanted;
        } else if !is_held {
            self.bytes = wanted;
        }
        self.bytes = self.bytes.min(share);
        self.bytes
    }
}

/// Number of memtable bytes that a single batch may use in addition to half of the memory budget,
/// so that even stores with little memory accept batches.
const BATCH_AT_LEAST: u64 = 16 * MIB;
/// Approximate memtable bytes that each write needs in addition to its data, for the record header
/// and a share of a node.
const PER_WRITE: u64 = 64;

/// Serialises commits that need a memtable of their own because of a long value or many writes.
/// Only one large commit at a time may be between its admission and its memtable, and it waits
/// there until the earlier memtables are flushed. Otherwise several large commits would be in
/// memory at once.
#[derive(Debug, Default)]
pub(crate) struct LargeCommitGate {
    turn: Mutex<()>,
    /// Number of memtable bytes that the current large commit will need.
    arriving: AtomicU64,
    /// The memtable of the previous large commit.
    before: Mutex<Weak<Memtable>>,
}

/// Maximum number of poll intervals that a large commit waits until the previous large commit's
/// memtable is freed. Readers may keep that memtable in memory for longer.
const MOST_NAPS: u32 = 50;

/// The store's memory budget, and the state that determines how it is divided.
#[derive(Debug)]
pub(super) struct StoreMemoryBudget {
    /// Memory limit of the entire store, in bytes. Zero in simulations.
    total: AtomicU64,
    /// Bytes that the application uses outside the store. They count towards the same limit.
    beside: AtomicU64,
    claim: Mutex<WriteMemoryReservation>,
    long: LargeCommitGate,
    pub(super) seen: Mutex<BalanceState>,
    share: Mutex<RecordShare>,
}

impl StoreMemoryBudget {
    /// Creates the budget of a store that is being opened.
    pub(super) fn new(total: u64, records: RecordShare) -> StoreMemoryBudget {
        StoreMemoryBudget {
            total: AtomicU64::new(total),
            beside: AtomicU64::new(0),
            claim: Mutex::default(),
            long: LargeCommitGate::default(),
            seen: Mutex::default(),
            share: Mutex::new(records),
        }
    }
}

/// Permission for one large commit to proceed. Dropping the permit releases it.
pub(super) struct LargeCommitPermit<'e> {
    long: &'e LargeCommitGate,
    _turn: MutexGuard<'e, ()>,
}

impl LargeCommitPermit<'_> {
    /// Waits until the memtable of the previous large commit is freed. The operating system needs a
    /// while to free it after its last use. The wait is limited to [`MOST_NAPS`] poll intervals.
    pub(super) fn wait_for_memory(&self, engine: &Engine) {
        let mut naps = 0;
        while engine.plan.workers > 0 && naps < MOST_NAPS && self.long.before.lock().strong_count() > 0 {
            engine.throttle.wait_for_progress();
            naps += 1;
        }
    }

    /// Remembers this large commit's memtable, so that the next large commit can wait until it is
    /// freed.
    pub(super) fn takes(&self, memtable: &Arc<Memtable>) {
        *self.long.before.lock() = Arc::downgrade(memtable);
    }
}

impl Drop for LargeCommitPermit<'_> {
    fn drop(&mut self) {
        self.long.arriving.store(0, Ordering::Relaxed);
    }
}

impl Engine {
    /// Waits until no other large commit is in progress, and shrinks the caches to free memory for
    /// this one. Fails if the commit is a batch that is too large for the memory budget.
    #[cold]
    pub(super) fn acquire_large_commit(&self, commit: &CommitRecord<'_>) -> Result<LargeCommitPermit<'_>> {
        let beside = u64::from(commit.count) * PER_WRITE;
        let budget = self.budget.total.load(Ordering::Relaxed);
        let most = (budget / 2 + BATCH_AT_LEAST).saturating_sub(beside);
        // The caller can split a batch of several writes. A single value cannot be split, so it is
        // not limited here.
        if budget > 0 && commit.count > 1 && commit.len() > most {
            return Err(too_long(commit, most));
        }
        let turn = LargeCommitPermit {
            _turn: self.budget.long.turn.lock(),
            long: &self.budget.long,
        };
        self.budget
            .long
            .arriving
            .store(commit.len() + beside, Ordering::Relaxed);
        self.fit_memory()?;
        Ok(turn)
    }

    /// Returns the memory use of the store, by consumer.
    pub(crate) fn memory_use(&self) -> MemoryUse {
        let (usage, log) = self.store.usage();
        MemoryUse {
            budget: self.budget.total.load(Ordering::Relaxed),
            memtables: self.queue.memory_bytes(),
            log: log.resident_bytes,
            pages: self.store.cache().stats().budget_bytes,
            records: self.records.budget_bytes(),
            tree: self.dictionaries.memory_bytes()
                + self.ingests.memory_bytes()
                + self.committed_keys.memory_bytes(),
            tables: usage.memory_bytes + watermark::BYTES,
            transactions: self.transaction_memory(),
            external: self.budget.beside.load(Ordering::Relaxed),
        }
    }

    /// Returns the memory limit of the store in bytes. Zero in simulations.
    pub(crate) fn memory_budget(&self) -> u64 {
        self.budget.total.load(Ordering::Relaxed)
    }

    /// Returns the maximum number of bytes that memtables and the log may use.
    fn share_of_writes(&self) -> u64 {
        let scale = &self.plan.scale;
        (MOST_SEALED as u64 + 1) * scale.memtable + scale.log.limit_bytes
    }

    /// Divides the memory not used by other consumers between the page cache and the record cache.
    pub(crate) fn fit_memory(&self) -> Result<()> {
        let budget = self.budget.total.load(Ordering::Relaxed);
        if budget == 0 {
            return Ok(());
        }
        let now = self.memory_use();
        self.dictionaries.limit_scans(budget / SCANS_SHARE);
        let share = self.share_of_writes();
        let used = now.memtables + now.log;
        let writes = match self.plan.workers {
            // Without worker threads, the memory is not divided again later, so reserve the
            // maximum.
            0 => share,
            _ => (self.budget.claim.lock()).update(used, share, Instant::now()),
        };
        // Memory that large commits' memtables use beyond the ordinary maximum.
        let beyond = (used + self.budget.long.arriving.load(Ordering::Relaxed)).saturating_sub(share);
        let writes = writes + beyond;
        let grown = (now.tree + now.tables).max(budget / TREE_SHARE);
        let caches = budget.saturating_sub(writes + grown + now.transactions + now.external);
        let both = now.records + now.pages;
        let records = match *self.budget.share.lock() {
            RecordShare::Balanced => (self.budget.seen.lock()).share_of_records(now.records, both, caches),
            RecordShare::Bytes(bytes) => bytes,
            RecordShare::Fixed(share) => {
                let wanted = (caches as f64 * share) as u64;
                match sizing::is_a_step(now.records.abs_diff(wanted), caches) {
                    true => wanted,
                    false => now.records.min(caches),
                }
            }
        };
        if records < now.records {
            self.records.set_budget(records);
        }
        let cache = self.store.cache();
        let pages = caches.saturating_sub(records).max(self.least_pages());
        if now.pages.abs_diff(pages) > budget / WORTH {
            cache.set_budget(pages)?;
        }
        if records > now.records {
            self.records.set_budget(records);
        }
        Ok(())
    }

    /// Returns whether the store itself decides how to divide memory between the page cache and the
    /// record cache.
    pub(super) fn balances(&self) -> bool {
        *self.budget.share.lock() == RecordShare::Balanced
    }

    /// Returns how the record cache's share of both caches is determined, and its current value.
    pub(crate) fn record_share(&self) -> (RecordShare, f64) {
        let memory = self.memory_use();
        let both = (memory.records + memory.pages).max(1);
        let decides = *self.budget.share.lock();
        (decides, memory.records as f64 / both as f64)
    }

    /// Changes how the record cache's share of both caches is determined. A fixed share takes
    /// effect immediately.
    pub(crate) fn set_record_share(&self, share: RecordShare) -> Result<()> {
        let cache = self.store.cache();
        let (records, pages) = (self.records.budget_bytes(), cache.stats().budget_bytes);
        let both = records + pages;
        let wanted = match share {
            RecordShare::Balanced => records,
            RecordShare::Bytes(bytes) => bytes,
            RecordShare::Fixed(share) => (both as f64 * share) as u64,
        };
        let wanted = wanted.min(both.saturating_sub(self.least_pages()));
        *self.budget.share.lock() = share;
        self.budget.seen.lock().decide(wanted, both);
        // Shrink one cache before growing the other, so that their sum never exceeds the budget.
        if wanted < records {
            self.records.set_budget(wanted);
        }
        cache.set_budget(both - wanted)?;
        if wanted > records {
            self.records.set_budget(wanted);
        }
        self.fit_memory()
    }

    /// Frees flushed memtables that have not been reused during the last `calls` calls of this
    /// function.
    pub(crate) fn give_back_memtables(&self, calls: u64) {
        self.queue.free_retired(calls);
    }

    /// Returns the minimum size of the page cache, in bytes.
    pub(super) fn least_pages(&self) -> u64 {
        let budget = self.budget.total.load(Ordering::Relaxed);
        NodeCache::least_budget(self.plan.page_size).max(budget / TREE_SHARE)
    }

    /// Sets the number of bytes that the application uses outside the store. They count towards the
    /// memory limit, so the caches shrink accordingly.
    pub(crate) fn set_external_memory(&self, bytes: u64) -> Result<()> {
        self.budget.beside.store(bytes, Ordering::Relaxed);
        self.fit_memory()
    }

    /// Sets the memory limit to `bytes`. Fails if memtables and log would not fit, because their
    /// sizes do not change until the store is opened again.
    pub(crate) fn set_memory(&self, bytes: u64) -> Result<()> {
        let writes = self.share_of_writes();
        let least = writes + writes / 4;
        if bytes < least || self.memory_budget() == 0 {
            let why = format!(
                "{bytes} bytes is below the minimum of {least}, because memtables and log keep their sizes until the next opening"
            );
            return Err(Error::BadOption {
                option: "memory",
                why,
            });
        }
        self.budget.total.store(bytes, Ordering::Relaxed);
        self.fit_memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_writes_need_is_theirs_at_once_and_a_while_longer() {
        let (start, mut claim) = (Instant::now(), WriteMemoryReservation::default());
        let mut at = |seconds, used| claim.update(used, 400, start + Duration::from_secs(seconds));
        assert_eq!(at(0, 0), 25, "room for what may come");
        assert_eq!(at(1, 150), 175);
        assert_eq!(at(2, 390), 400, "never more than their share");
        assert_eq!(at(3, 0), 400);
        assert_eq!(at(6, 380), 400, "needed again");
        assert_eq!(at(15, 0), 400);
        assert_eq!(at(16, 20), 45);
        assert_eq!(at(17, 30), 55);
    }
}
