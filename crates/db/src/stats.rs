//! What the store is doing, in numbers.

use crate::MemoryUse;
use crate::engine::{Engine, RecordStats};
use alluvium_device::counters;
use alluvium_storage::CacheStats;
use alluvium_storage::extents::TierUsage;
use alluvium_storage::log::LogUsage;
use alluvium_trees::tiered;

/// What was done since the store was opened, and what there is now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Writes that were acknowledged: puts, deletes, merges, range deletes.
    pub writes: u64,
    /// Bytes of them: keys, values and what tells them apart.
    pub written_bytes: u64,
    /// Checkpoints that were made.
    pub checkpoints: u64,
    /// How often a writer came to a stop because the background was behind.
    pub waits: u64,
    /// Microseconds that writers were held back in all, a little at a time, so that they need not stop.
    pub delayed_us: u64,
    /// Who takes how much memory.
    pub memory: MemoryUse,
    /// Memtables that wait to be written out.
    pub sealed_memtables: usize,
    /// Places in the commit order that someone reads at.
    pub snapshots: usize,
    /// The data files.
    pub space: TierUsage,
    /// The log.
    pub log: LogUsage,
    /// The cache of pages.
    pub cache: CacheStats,
    /// The cache of records.
    pub records: RecordStats,
    /// The tree.
    pub tree: tiered::Stats,
    /// Compactions of it that are due or under way.
    pub compactions: usize,
    /// The most runs that lie on the way of a lookup.
    pub tree_runs: usize,
    /// How high it is: 1 when all of it is one leaf.
    pub tree_height: u8,
    /// What the device was asked for, by purpose.
    pub device: counters::Snapshot,
}

impl Engine {
    /// What was done, and what there is.
    pub(crate) fn stats(&self) -> Stats {
        let (usage, log) = self.store.usage();
        let work = self.counts();
        Stats {
            writes: work.writes,
            written_bytes: work.written_bytes,
            checkpoints: work.checkpoints,
            waits: work.waits,
            delayed_us: work.delayed_us,
            memory: self.memory_use(),
            sealed_memtables: work.sealed,
            snapshots: work.snapshots,
            space: usage.total(),
            log,
            cache: self.store.cache().stats(),
            records: self.record_stats(),
            tree: self.tree.stats(),
            compactions: self.tree.due(),
            tree_runs: self.tree.longest_path(),
            tree_height: self.tree.height(),
            device: self.store.directory().counters().snapshot(),
        }
    }
}
