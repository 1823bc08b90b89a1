//! One number for the memory: who takes what of it, and what is left for pages.
//!
//! Memtables and the log have what they have needed within the last seconds, and some more, for
//! they fill fast; without writes, pages and records have that memory. What the tree keeps in
//! memory grows with the data: as soon as it needs more than its sixteenth, the cache of pages
//! gives way.

use super::Engine;
use super::balance::Seen;
use super::policy::MOST_SEALED;
use super::record::{Commit, too_long};
use super::records::share;
use crate::options::RecordShare;
use crate::{Error, Result};
use alluvium_base::MIB;
use alluvium_dictionary::memtable::Memtable;
use alluvium_storage::{Cache, watermark};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Bytes of memory that a store takes, by what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// What all of it together may take.
    pub budget: u64,
    /// What is written and not yet in the tree.
    pub memtables: u64,
    /// Pages of the log that may be resident.
    pub log: u64,
    /// The cache of pages.
    pub pages: u64,
    /// The cache of records.
    pub records: u64,
    /// The trunk, open runs and maplets, what iterators hold, and what is being ingested.
    pub tree: u64,
    /// Which space is in use, and what orders commits.
    pub tables: u64,
    /// What open transactions have written and read.
    pub transactions: u64,
    /// What the program holds beside the store, as it says itself.
    pub beside: u64,
}

impl MemoryUse {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        let own = self.memtables + self.log + self.pages + self.records + self.tree + self.tables;
        own + self.transactions + self.beside
    }
}

/// The tree's share of the budget before pages give way to it.
const TREE_SHARE: u64 = 16;
/// A change of the cache's budget by less than this part of the whole is not worth its work.
const WORTH: u64 = 64;

/// The part of the budget that iterators may hold between their calls, all of them together.
const SCANS_SHARE: u64 = 16;

/// What memtables and log keep to themselves.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    bytes: u64,
    /// When so much was needed last.
    needed: Option<Instant>,
}

/// How long they keep what they have needed. Otherwise a program that writes in bursts, or fills a
/// memtable in a few seconds, would have pages read again after each burst, and the system asked
/// for their memory again.
const HOLD: Duration = Duration::from_secs(10);
/// They have so large a part of their shares beyond what they use: some of what may be written
/// before anybody looks again.
const AHEAD: u64 = 16;

impl Claim {
    /// Returns what they keep when they use `used` bytes, of `share` that they may.
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

/// What a batch may take in a memtable beside half of the budget: a store with little memory takes
/// batches, too.
const BATCH_AT_LEAST: u64 = 16 * MIB;
/// What each of its writes takes there beside its bytes, about: a record's header, and its share of
/// a node.
const PER_WRITE: u64 = 64;

/// Commits that need a memtable of their own, for a long value or many writes. One at a time is
/// between its admission and its memtable: each waits there until the memtables of those before are
/// written out. Otherwise all of them would be in memory at once.
#[derive(Debug, Default)]
pub(crate) struct Long {
    turn: Mutex<()>,
    /// Bytes that the memtable of the one whose turn it is will take.
    arriving: AtomicU64,
    /// The memtable of the one before.
    before: Mutex<Weak<Memtable>>,
}

/// How many naps a long commit waits for the memory of the one before, once that is written out:
/// readers may hold it a while longer.
const MOST_NAPS: u32 = 50;

/// The one budget of a store's memory, and what decides who has how much of it.
#[derive(Debug)]
pub(super) struct Budget {
    /// What all of the store together may take; zero in simulations.
    total: AtomicU64,
    /// What the program holds beside it, within the same budget.
    beside: AtomicU64,
    claim: Mutex<Claim>,
    long: Long,
    pub(super) seen: Mutex<Seen>,
    share: Mutex<RecordShare>,
}

impl Budget {
    /// Returns the budget of a store that has just been opened.
    pub(super) fn new(total: u64, records: RecordShare) -> Budget {
        Budget {
            total: AtomicU64::new(total),
            beside: AtomicU64::new(0),
            claim: Mutex::default(),
            long: Long::default(),
            seen: Mutex::default(),
            share: Mutex::new(records),
        }
    }
}

/// The turn of a long commit.
pub(super) struct Turn<'e> {
    long: &'e Long,
    _turn: MutexGuard<'e, ()>,
}

impl Turn<'_> {
    /// Waits until the memtable of the commit before is gone, which takes the system a while once
    /// it is not needed any more.
    pub(super) fn wait_for_memory(&self, engine: &Engine) {
        let mut naps = 0;
        while engine.plan.workers > 0 && naps < MOST_NAPS && self.long.before.lock().strong_count() > 0 {
            engine.pressure.nap();
            naps += 1;
        }
    }

    /// The next one waits for this memtable.
    pub(super) fn takes(&self, memtable: &Arc<Memtable>) {
        *self.long.before.lock() = Arc::downgrade(memtable);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.long.arriving.store(0, Ordering::Relaxed);
    }
}

impl Engine {
    /// Waits for the turn of a long commit, and has the caches give memory back for it.
    #[cold]
    pub(super) fn turn_of_long(&self, commit: &Commit<'_>) -> Result<Turn<'_>> {
        let beside = u64::from(commit.count) * PER_WRITE;
        let budget = self.budget.total.load(Ordering::Relaxed);
        let most = (budget / 2 + BATCH_AT_LEAST).saturating_sub(beside);
        // A single value cannot be divided; a batch of many writes can.
        if budget > 0 && commit.count > 1 && commit.len() > most {
            return Err(too_long(commit, most));
        }
        let turn = Turn {
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

    /// Who takes how much.
    pub(crate) fn memory_use(&self) -> MemoryUse {
        let (usage, log) = self.store.usage();
        MemoryUse {
            budget: self.budget.total.load(Ordering::Relaxed),
            memtables: self.queue.memory_bytes(),
            log: log.resident_bytes,
            pages: self.store.cache().stats().budget_bytes,
            records: self.records.budget_bytes(),
            tree: self.dictionaries.memory_bytes() + self.ingests.memory_bytes(),
            tables: usage.memory_bytes + watermark::BYTES,
            transactions: self.transaction_memory(),
            beside: self.budget.beside.load(Ordering::Relaxed),
        }
    }

    /// What all of it together may take; zero in simulations.
    pub(crate) fn memory_budget(&self) -> u64 {
        self.budget.total.load(Ordering::Relaxed)
    }

    /// What memtables and log may take at most.
    fn share_of_writes(&self) -> u64 {
        let scale = &self.plan.scale;
        (MOST_SEALED as u64 + 1) * scale.memtable + scale.log.limit_bytes
    }

    /// The caches of pages and of records take what the others leave, each its share of it.
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
            // There are no workers that would look again.
            0 => share,
            _ => (self.budget.claim.lock()).update(used, share, Instant::now()),
        };
        // Memtables of long commits.
        let beyond = (used + self.budget.long.arriving.load(Ordering::Relaxed)).saturating_sub(share);
        let writes = writes + beyond;
        let grown = (now.tree + now.tables).max(budget / TREE_SHARE);
        let caches = budget.saturating_sub(writes + grown + now.transactions + now.beside);
        let both = now.records + now.pages;
        let records = match *self.budget.share.lock() {
            RecordShare::Balanced => (self.budget.seen.lock()).share_of_records(now.records, both, caches),
            RecordShare::Bytes(bytes) => bytes,
            RecordShare::Fixed(share) => {
                let wanted = (caches as f64 * share) as u64;
                match share::is_a_step(now.records.abs_diff(wanted), caches) {
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

    /// Returns whether the store itself moves memory between the caches.
    pub(super) fn balances(&self) -> bool {
        *self.budget.share.lock() == RecordShare::Balanced
    }

    /// Returns who decides about the part of records, and their share of both caches now.
    pub(crate) fn record_share(&self) -> (RecordShare, f64) {
        let memory = self.memory_use();
        let both = (memory.records + memory.pages).max(1);
        let decides = *self.budget.share.lock();
        (decides, memory.records as f64 / both as f64)
    }

    /// Has another decide about the part of records from now on. Memory moves at once where the
    /// part is a certain one.
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
        // One side gives before the other takes.
        if wanted < records {
            self.records.set_budget(wanted);
        }
        cache.set_budget(both - wanted)?;
        if wanted > records {
            self.records.set_budget(wanted);
        }
        self.fit_memory()
    }

    /// Gives back the memory of memtables that has waited for the next one for this many calls.
    pub(crate) fn give_back_memtables(&self, calls: u64) {
        self.queue.give_back(calls);
    }

    /// What the cache of pages has at least.
    pub(super) fn least_pages(&self) -> u64 {
        let budget = self.budget.total.load(Ordering::Relaxed);
        Cache::least_budget(self.plan.page_size).max(budget / TREE_SHARE)
    }

    /// Notes that this many bytes are held beside the store, and count within its budget: the
    /// caches give way.
    pub(crate) fn count_memory_beside(&self, bytes: u64) -> Result<()> {
        self.budget.beside.store(bytes, Ordering::Relaxed);
        self.fit_memory()
    }

    /// Limits all of it together to `bytes` bytes from now on. Memtables and log stay as large as
    /// they are until the next opening.
    pub(crate) fn set_memory(&self, bytes: u64) -> Result<()> {
        let writes = self.share_of_writes();
        let least = writes + writes / 4;
        if bytes < least || self.memory_budget() == 0 {
            let why = format!(
                "{bytes} bytes is less than {least}, which memtables and log take until the next opening"
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
        let (start, mut claim) = (Instant::now(), Claim::default());
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
