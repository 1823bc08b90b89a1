//! Statistics of a store.
//!
//! *Scope*: the sources of all counters, the sampling of latencies, the names of the figures.
//!
//! *Must not depend on*: how to interpret the figures, which is left to people and exporters.
//!
//! Latencies are sampled in `engine/latencies.rs`.

mod forecast;
mod list;
#[cfg(feature = "metrics")]
mod publish;
mod register;
mod tier_outline;
mod tiers;

pub use list::StatsMetric;
pub use register::{StatsMetricKind, StatsMetricUnit};
pub use tier_outline::{TierOutline, TierRun};
pub use tiers::TierStats;

use crate::db::Db;
use crate::engine::distribution::LatencyDistributions;
use crate::engine::latencies::{LatencyRecorders, OperationLatencies};
use crate::engine::{Engine, EngineCounter, MemoryUse, RecordStats, ThrottleCause, TransactionStats};
use crate::error::Result;
use alluvium_base::Purpose;
use alluvium_device::DeviceStats;
use alluvium_hashes::hashed::HashedStats;
use alluvium_storage::extents::TierUsage as SpaceUsage;
use alluvium_storage::log::LogUsage;
use alluvium_storage::{CacheStats, CopyStats};
use alluvium_trees::levels::LevelsStats;
use alluvium_trees::paged::PagedStats;
use alluvium_trees::tiered::{TreeDebt, TreeStats};
use std::sync::atomic::Ordering;

/// Space on the file system that holds the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskSpace {
    /// Bytes available to the store.
    pub free_bytes: u64,
    /// Total bytes of the file system.
    pub total_bytes: u64,
}

/// Counts of user operations by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationCounts {
    /// Commits: batches and single writes.
    pub commits: u64,
    /// Puts in commits, with or without an expiry.
    pub puts: u64,
    /// Deletes of single keys in commits.
    pub deletes: u64,
    /// Merges in commits, one per operand.
    pub merges: u64,
    /// Range deletes in commits, each counted once.
    pub range_deletes: u64,
    /// Gets of one key, non-blocking ones included.
    pub gets: u64,
    /// Gets of several keys, each counted once.
    pub multi_gets: u64,
    /// Keys requested by gets of several keys.
    pub multi_get_keys: u64,
    /// Iterators that were started, ordered and unordered.
    pub scans: u64,
    /// Records that iterators returned, in either direction.
    pub scanned: u64,
    /// Lookups of one key that found a value.
    pub found: u64,
    /// Node reads that those lookups waited for.
    pub found_reads: u64,
    /// Lookups of one key that found no value.
    pub absent: u64,
    /// Node reads that those lookups waited for.
    pub absent_reads: u64,
}

/// Time for which writers were throttled, in microseconds, by the dominant cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteDelays {
    /// Lookups had to search too many runs.
    pub runs_us: u64,
    /// Too much memory waited for a flush.
    pub memtables_us: u64,
}

impl WriteDelays {
    /// Returns the sum over all causes, in microseconds.
    pub fn total_us(&self) -> u64 {
        self.runs_us + self.memtables_us
    }
}

/// Counters since the store was opened, and current sizes. Displays as a table; also available as a
/// [list](Stats::list).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Counts of user operations, by kind.
    pub operations: OperationCounts,
    /// Sampled latencies of user operations, by kind.
    pub latencies: OperationLatencies,
    /// Acknowledged writes: puts, deletes, merges, range deletes.
    pub writes: u64,
    /// Bytes of those writes: keys, values and headers.
    pub written_bytes: u64,
    /// Checkpoints completed since the store was opened.
    pub checkpoints: u64,
    /// Number of times that a writer stalled until background work caught up.
    pub waits: u64,
    /// Time for which writers were throttled, in small steps, to avoid stalls.
    pub delays: WriteDelays,
    /// Time in microseconds that compactions paused because of the caps of
    /// [`BackgroundLimits`](crate::BackgroundLimits).
    pub capped_us: u64,
    /// Slices of compactions that exceeded the caps, because writers would have been throttled
    /// otherwise.
    pub cap_yields: u64,
    /// Memory in use, by consumer.
    pub memory: MemoryUse,
    /// Sealed memtables that wait for a flush.
    pub sealed_memtables: usize,
    /// Pinned sequence numbers with at least one reader.
    pub snapshots: usize,
    /// Commits after the oldest pinned sequence number; the versions that they replaced are
    /// retained.
    pub held_commits: u64,
    /// Transactions: the number of open ones, and the outcomes of the others.
    pub transactions: TransactionStats,
    /// Space of the data files.
    pub space: SpaceUsage,
    /// Space, segments and syncs of the log.
    pub log: LogUsage,
    /// Counters of the page cache.
    pub cache: CacheStats,
    /// Copies on the first tier of pages that are often read from slower tiers.
    pub copies: CopyStats,
    /// Counters of the record cache.
    pub records: RecordStats,
    /// Counters of the tiered tree.
    pub tree: TreeStats,
    /// Compactions of the tree that are due or running: work that writes have deferred.
    pub debt: TreeDebt,
    /// Maximum number of runs that a lookup in the tree searches.
    pub tree_runs: usize,
    /// Height of the tree; 1 if it is a single leaf.
    pub tree_height: u8,
    /// Statistics of the levels, which all keyspaces in levels share; `None` if the store has none.
    pub levels: Option<LevelsStats>,
    /// Statistics of the hashed structure, which all hashed keyspaces share; `None` if the store
    /// has none.
    pub hashed: Option<HashedStats>,
    /// Statistics of the pages that are updated in place.
    pub paged: PagedStats,
    /// I/O of the devices of all tiers, by purpose.
    pub device: DeviceStats,
    /// The tiers, starting with the first.
    pub tiers: Vec<TierStats>,
}

fn ratio(one: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| one as f64 / other as f64)
}

impl Stats {
    /// Returns the write amplification: bytes written to the device per byte of user writes.
    /// Includes the log as far as it is synced. `None` before the first write.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        ratio(self.device.total().written_bytes, self.written_bytes)
    }

    /// Returns the read amplification: device reads that lookups waited for, per key looked up.
    /// `None` before the first lookup.
    #[must_use]
    pub fn read_amplification(&self) -> Option<f64> {
        let keys = self.operations.gets + self.operations.multi_get_keys;
        ratio(self.device.of(Purpose::Lookup).reads, keys)
    }

    /// Returns the space amplification: bytes of the data files that are in use or about to be
    /// freed, per byte that is referenced. Old versions and tombstones count as referenced until
    /// they are compacted.
    #[must_use]
    pub fn space_amplification(&self) -> Option<f64> {
        ratio(
            self.space.live_extent_bytes + self.space.dead_bytes,
            self.space.live_bytes,
        )
    }

    /// Returns the hit rate of the page cache.
    #[must_use]
    pub fn page_hit_rate(&self) -> Option<f64> {
        ratio(
            self.cache.hits,
            self.cache.hits + self.cache.misses + self.cache.joined,
        )
    }

    /// Returns the hit rate of the record cache, among lookups that the memtables did not answer.
    #[must_use]
    pub fn record_hit_rate(&self) -> Option<f64> {
        ratio(self.records.hits, self.records.hits + self.records.misses)
    }
}

impl Engine {
    pub(crate) fn stats(&self, recorders: &LatencyRecorders) -> Stats {
        let (usage, log) = self.store.usage();
        let tallies = &self.counters;
        let of = |tally| tallies.of(tally);
        let delayed = |cause| tallies.delayed_us[cause as usize].load(Ordering::Relaxed);
        let operations = OperationCounts {
            commits: of(EngineCounter::Commits),
            puts: of(EngineCounter::Puts),
            deletes: of(EngineCounter::Deletes),
            merges: of(EngineCounter::Merges),
            range_deletes: of(EngineCounter::RangeDeletes),
            gets: of(EngineCounter::Gets),
            multi_gets: of(EngineCounter::MultiGets),
            multi_get_keys: of(EngineCounter::MultiGetKeys),
            scans: of(EngineCounter::Scans),
            scanned: of(EngineCounter::Scanned),
            found: of(EngineCounter::Found),
            found_reads: of(EngineCounter::FoundReads),
            absent: of(EngineCounter::Absent),
            absent_reads: of(EngineCounter::AbsentReads),
        };
        Stats {
            operations,
            latencies: recorders.latencies(),
            writes: operations.puts + operations.deletes + operations.merges + operations.range_deletes,
            written_bytes: of(EngineCounter::WrittenBytes),
            checkpoints: tallies.checkpoints.load(Ordering::Relaxed),
            waits: tallies.waits.load(Ordering::Relaxed),
            delays: WriteDelays {
                runs_us: delayed(ThrottleCause::Runs),
                memtables_us: delayed(ThrottleCause::Memtables),
            },
            capped_us: tallies.capped_us.load(Ordering::Relaxed),
            cap_yields: tallies.cap_yields.load(Ordering::Relaxed),
            memory: self.memory_use(),
            sealed_memtables: self.sealed(),
            snapshots: self.snapshots(),
            held_commits: self.held_commits(),
            transactions: self.transaction_stats(),
            space: usage.total(),
            log,
            cache: self.store.cache().stats(),
            copies: self.store.copy_stats(),
            records: self.record_stats(),
            tree: self.dictionaries.tree.stats(),
            debt: self.dictionaries.tree.debt(),
            tree_runs: self.dictionaries.tree.longest_path(),
            tree_height: self.dictionaries.tree.height(),
            levels: self.dictionaries.levels_stats(),
            hashed: self.dictionaries.hashed_stats(),
            paged: self.dictionaries.paged_stats(),
            device: self.device_stats(),
            tiers: self.tier_stats(),
        }
    }
}

impl Db {
    /// Returns the free and the total space of the file system that holds the store.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn disk_space(&self) -> Result<DiskSpace> {
        let space = self.engine().store.disk_space()?;
        Ok(DiskSpace {
            free_bytes: space.free,
            total_bytes: space.total,
        })
    }

    /// Returns counters of operations since the store was opened, and current sizes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine().stats(&self.shared().recorders)
    }

    /// Returns each tier of the store with the runs that occupy space on it. Reads nothing.
    #[must_use]
    pub fn outline_tiers(&self) -> Vec<TierOutline> {
        self.engine().outline_tiers()
    }

    /// Returns the latency distributions since the store was opened, in more detail than
    /// [`Db::stats`]. The difference of two results gives the percentiles of the interval between
    /// them.
    #[must_use]
    pub fn distributions(&self) -> LatencyDistributions {
        self.shared().recorders.distributions()
    }
}
