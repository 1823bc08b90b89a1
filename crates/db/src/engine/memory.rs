//! One number for the memory: who takes what of it, and what is left for pages.
//!
//! Memtables and the log have their shares whether they use them or not, for they fill within seconds. What the tree keeps in memory grows with
//! the data: as soon as it needs more than its sixteenth, the cache of pages gives way.

use super::Engine;
use super::policy::MOST_SEALED;
use crate::{Error, Result};
use alluvium_storage::{Cache, watermark};
use std::sync::atomic::Ordering;

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
    /// The trunk, open runs and maplets, and what is being ingested.
    pub tree: u64,
    /// Which space is in use, and what orders commits.
    pub tables: u64,
}

impl MemoryUse {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.memtables + self.log + self.pages + self.records + self.tree + self.tables
    }
}

/// The tree's share of the budget before pages give way to it.
const TREE_SHARE: u64 = 16;
/// A change of the cache's budget by less than this part of the whole is not worth its work.
const WORTH: u64 = 64;

impl Engine {
    /// Who takes how much.
    pub(crate) fn memory_use(&self) -> MemoryUse {
        let (usage, log) = self.store.usage();
        MemoryUse {
            budget: self.memory.load(Ordering::Relaxed),
            memtables: self.queue.memory_bytes(),
            log: log.resident_bytes,
            pages: self.store.cache().stats().budget_bytes,
            records: self.records.budget_bytes(),
            tree: self.tree.memory().total() + self.ingests.memory_bytes(),
            tables: usage.memory_bytes + watermark::BYTES,
        }
    }

    /// What is there for pages when everybody else has its share.
    fn left_for_pages(&self, budget: u64) -> u64 {
        let now = self.memory_use();
        let scale = &self.plan.scale;
        let memtables = (MOST_SEALED as u64 + 1) * scale.memtable;
        let grown = (now.tree + now.tables).max(budget / TREE_SHARE);
        budget.saturating_sub(memtables + scale.log.limit_bytes + now.records + grown)
    }

    /// The cache of pages takes what the others leave.
    pub(crate) fn fit_memory(&self) -> Result<()> {
        let budget = self.memory.load(Ordering::Relaxed);
        if budget == 0 {
            return Ok(());
        }
        let cache = self.store.cache();
        let least = Cache::least_budget(self.plan.page_size).max(budget / TREE_SHARE);
        let (now, wanted) = (cache.stats().budget_bytes, self.left_for_pages(budget).max(least));
        if now.abs_diff(wanted) > budget / WORTH {
            cache.set_budget(wanted)?;
        }
        Ok(())
    }

    /// From now on all of it together takes so many bytes. Memtables and log stay as large as they are until the next opening.
    pub(crate) fn set_memory(&self, bytes: u64) -> Result<()> {
        let least = self.plan.scale.memtable * (MOST_SEALED as u64 + 1) + self.plan.scale.log.limit_bytes;
        let least = least + least / 4;
        if bytes < least || self.memory.load(Ordering::Relaxed) == 0 {
            let why = format!(
                "{bytes} bytes is less than {least}, which memtables and log take until the next opening"
            );
            return Err(Error::BadOption {
                option: "memory",
                why,
            });
        }
        self.memory.store(bytes, Ordering::Relaxed);
        self.fit_memory()
    }
}
