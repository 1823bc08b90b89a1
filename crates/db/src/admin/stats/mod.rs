//! Statistics of a store.
//!
//! *Scope*: where each counter comes from, how latencies are sampled, and how the metrics are
//! named.
//!
//! *Must not depend on*: how to interpret the figures, which is left to people and exporters.
//!
//! `engine/latencies.rs` samples the latencies.

mod dictionaries;
mod forecast;
mod list;
#[cfg(feature = "metrics")]
mod publish;
mod register;
mod tier_outline;
mod tiers;

pub use dictionaries::{DictionaryOutline, DictionaryStats};
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
use std::iter::Sum;
use std::sync::atomic::Ordering;

/// Space on the file system that contains the store.
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
    /// Number of commits. A batch counts as one commit, and so does a single write.
    pub commits: u64,
    /// Number of committed puts, with or without an expiry time.
    pub puts: u64,
    /// Number of committed deletes of single keys.
    pub deletes: u64,
    /// Number of committed merges, one per operand.
    pub merges: u64,
    /// Number of committed range deletes, however many keys each one deletes.
    pub range_deletes: u64,
    /// Number of single-key gets, both blocking and non-blocking.
    pub gets: u64,
    /// Number of multi-key gets. Each call counts once.
    pub multi_gets: u64,
    /// Number of keys requested by all multi-key gets.
    pub multi_get_keys: u64,
    /// Number of iterators created, both ordered and unordered.
    pub scans: u64,
    /// Number of records returned by iterators, in either direction.
    pub scanned: u64,
    /// Number of single-key lookups that found a value.
    pub found: u64,
    /// Number of node reads that lookups waited for before finding a value.
    pub found_reads: u64,
    /// Number of single-key lookups that found no value.
    pub absent: u64,
    /// Number of node reads that lookups waited for before finding that the key has no value.
    pub absent_reads: u64,
}

/// Throttling time of writers in microseconds, by the dominant cause of each delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteDelays {
    /// Time throttled because lookups had to search too many runs.
    pub runs_us: u64,
    /// Time throttled because too much memory was waiting to be flushed.
    pub memtables_us: u64,
}

impl WriteDelays {
    /// Returns the total throttling time of writers, in microseconds.
    pub fn total_us(&self) -> u64 {
        self.runs_us + self.memtables_us
    }
}

/// Counters since the store was opened, and current sizes. `Display` formats them as a table, and
/// [`Stats::list`] returns them as a list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Number of user operations of each kind.
    pub operations: OperationCounts,
    /// Latencies of user operations by kind, measured on a sample of the operations.
    pub latencies: OperationLatencies,
    /// Number of acknowledged writes: puts, deletes, merges and range deletes.
    pub writes: u64,
    /// Bytes of the acknowledged writes, counting keys, values and headers.
    pub written_bytes: u64,
    /// Number of checkpoints completed since the store was opened.
    pub checkpoints: u64,
    /// How often a writer stalled because background work had fallen behind.
    pub waits: u64,
    /// Throttling time of writers. Small delays slow writers down early, so that they need not
    /// stall.
    pub delays: WriteDelays,
    /// Microseconds for which compactions paused at the limits of
    /// [`BackgroundLimits`](crate::BackgroundLimits).
    pub capped_us: u64,
    /// Number of compaction slices that exceeded [`BackgroundLimits`](crate::BackgroundLimits)
    /// because writers would otherwise have been throttled.
    pub cap_yields: u64,
    /// Memory in use, by consumer.
    pub memory: MemoryUse,
    /// Number of sealed memtables that have not been flushed yet.
    pub sealed_memtables: usize,
    /// Number of distinct sequence numbers pinned by at least one reader.
    pub snapshots: usize,
    /// Number of commits after the oldest pinned sequence number. The store retains the versions
    /// that they replaced.
    pub held_commits: u64,
    /// Number of open transactions, and how many ended with each outcome.
    pub transactions: TransactionStats,
    /// Space usage of the data files.
    pub space: SpaceUsage,
    /// Space usage, segments and syncs of the log.
    pub log: LogUsage,
    /// Counters of the page cache.
    pub cache: CacheStats,
    /// Counters of the page copies on the first tier. Pages that are often read from slower tiers
    /// are copied there.
    pub copies: CopyStats,
    /// Counters of the record cache.
    pub records: RecordStats,
    /// Counters of the tiered tree.
    pub tree: TreeStats,
    /// Compaction work of the tree, deferred by writes, that is due or in progress.
    pub debt: TreeDebt,
    /// Maximum number of runs of the tree that a lookup must search.
    pub tree_runs: usize,
    /// Height of the tree; 1 if it is a single leaf.
    pub tree_height: u8,
    /// Total statistics of all levels; their number of levels is the largest. `None` if no keyspace
    /// uses levels.
    pub levels: Option<LevelsStats>,
    /// Total statistics of all hashed structures; their number of levels is the largest. `None` if
    /// no keyspace is hashed.
    pub hashed: Option<HashedStats>,
    /// Statistics of levels and hashed structures, one for each set of options. Keyspaces with the
    /// same options share them.
    pub dictionaries: Vec<DictionaryStats>,
    /// Statistics of the paged tree, whose pages are updated in place.
    pub paged: PagedStats,
    /// I/O operations and bytes on the devices of all tiers, by purpose.
    pub device: DeviceStats,
    /// Statistics of each tier, in the order of the tiers.
    pub tiers: Vec<TierStats>,
}

fn ratio(one: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| one as f64 / other as f64)
}

/// Returns the sum of all statistics, or `None` if there are none.
fn total<S: Sum>(all: impl Iterator<Item = S>) -> Option<S> {
    let mut all = all.peekable();
    all.peek().is_some().then(|| all.sum())
}

impl Stats {
    /// Returns the write amplification: bytes written to the device per byte written by the user.
    /// Log writes count only once they are synced. Returns `None` before the first write.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        ratio(self.device.total().written_bytes, self.written_bytes)
    }

    /// Returns the read amplification: device reads that lookups waited for, per key looked up.
    /// Returns `None` before the first lookup.
    #[must_use]
    pub fn read_amplification(&self) -> Option<f64> {
        let keys = self.operations.gets + self.operations.multi_get_keys;
        ratio(self.device.of(Purpose::Lookup).reads, keys)
    }

    /// Returns the space amplification: bytes of the data files that are in use or about to be
    /// freed, per byte of data that the current state refers to. Until compactions remove them, old
    /// versions and tombstones count as data.
    #[must_use]
    pub fn space_amplification(&self) -> Option<f64> {
        ratio(
            self.space.live_extent_bytes + self.space.dead_bytes,
            self.space.live_bytes,
        )
    }

    /// Returns the hit rate of the page cache. Waiting for another reader to read the same page
    /// from the device does not count as a hit. Returns `None` before the first read.
    #[must_use]
    pub fn page_hit_rate(&self) -> Option<f64> {
        ratio(
            self.cache.hits,
            self.cache.hits + self.cache.misses + self.cache.joined,
        )
    }

    /// Returns the hit rate of the record cache. Lookups answered by the memtables never reach the
    /// record cache, so they are not included.
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
        let dictionaries = self.dictionary_stats();
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
            levels: total(dictionaries.iter().filter_map(|one| one.levels)),
            hashed: total(dictionaries.iter().filter_map(|one| one.hashed)),
            dictionaries,
            paged: self.dictionaries.paged_stats(),
            device: self.device_stats(),
            tiers: self.tier_stats(),
        }
    }
}

impl Db {
    /// Returns the free and total space of the file system that contains the store.
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

    /// Returns each tier of the store with the runs stored on it. The call reads nothing from the
    /// device.
    #[must_use]
    pub fn outline_tiers(&self) -> Vec<TierOutline> {
        self.engine().outline_tiers()
    }

    /// Returns the runs on each level of all levels, one outline for each set of options. The call
    /// reads nothing from the device.
    #[must_use]
    pub fn outline_levels(&self) -> Vec<DictionaryOutline> {
        self.engine().outline_levels()
    }

    /// Returns the latency distributions since the store was opened, in more detail than
    /// [`Db::stats`]. To get the percentiles of an interval, subtract the result at its start from
    /// the result at its end.
    #[must_use]
    pub fn distributions(&self) -> LatencyDistributions {
        self.shared().recorders.distributions()
    }
}
