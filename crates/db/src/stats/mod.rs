//! What the store is doing, in numbers.
//!
//! *Knows*: what was counted where, how long a sample of operations took, how all of it is called.
//!
//! *Does not know*: what to make of it; that is for people, and for the exporters.
//!
//! *Read in this order*: this file, `tiers.rs` (each directory), `tier_outline.rs` (its runs),
//! `latencies.rs` (what is timed, and how it stays cheap),
//! `distribution.rs` (the same, counted by how long), `register.rs` (what each number is called and
//! means), `list.rs` (all numbers as a list, and as a table), `forecast.rs` (predictions as such),
//! `publish.rs` (the list for the `metrics` crate,
//! behind the feature of that name).

mod distribution;
mod forecast;
mod latencies;
mod list;
#[cfg(feature = "metrics")]
mod publish;
mod register;
mod tier_outline;
mod tiers;

pub use distribution::{Distribution, Distributions};
pub(crate) use latencies::{Began, Recorders};
pub use latencies::{Latencies, Latency};
pub use list::{Figure, Nature, Unit};
pub use tier_outline::{TierOutline, TierRun};
pub use tiers::TierStats;

use crate::engine::{Cause, Engine, RecordStats, Tally, TransactionStats};
use crate::{
    CacheStats, CopyStats, DeviceStats, HashedStats, LevelsStats, LogUsage, MemoryUse, PagedStats,
    SpaceUsage, TreeDebt, TreeStats,
};
use alluvium_base::Purpose;
use std::sync::atomic::Ordering;

/// Space on the file system that a store lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskSpace {
    /// Bytes that the store may still take.
    pub free_bytes: u64,
    /// Bytes of the whole file system.
    pub total_bytes: u64,
}

/// What users asked for, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operations {
    /// Commits: batches, and writes outside of any.
    pub commits: u64,
    /// Puts in them.
    pub puts: u64,
    /// Deletes in them.
    pub deletes: u64,
    /// Merges in them.
    pub merges: u64,
    /// Range deletes in them.
    pub range_deletes: u64,
    /// Gets of one key, those that do not wait included.
    pub gets: u64,
    /// Gets of many keys at once.
    pub multi_gets: u64,
    /// The keys of those.
    pub multi_get_keys: u64,
    /// Walks over keys that were begun.
    pub scans: u64,
    /// Keys that they handed out.
    pub scanned: u64,
    /// Lookups of one key each that found a value.
    pub found: u64,
    /// Nodes that they waited for.
    pub found_reads: u64,
    /// Lookups of one key each that found none.
    pub absent: u64,
    /// Nodes that they waited for.
    pub absent_reads: u64,
}

/// Microseconds for which writers were held back, by what was most behind at the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delays {
    /// Too many runs lay in the way of lookups.
    pub runs_us: u64,
    /// Too much was in memory that was not written out.
    pub memtables_us: u64,
}

impl Delays {
    /// All of them.
    pub fn total_us(&self) -> u64 {
        self.runs_us + self.memtables_us
    }
}

/// What was done since the store was opened, and what there is now. It prints as a table, and is to
/// be had as a [list](Stats::list).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// What users asked for.
    pub operations: Operations,
    /// How long it took.
    pub latencies: Latencies,
    /// Writes that were acknowledged: puts, deletes, merges, range deletes.
    pub writes: u64,
    /// Bytes of them: keys, values and what tells them apart.
    pub written_bytes: u64,
    /// Checkpoints that were made.
    pub checkpoints: u64,
    /// How often a writer came to a stop because the background was behind.
    pub waits: u64,
    /// How long writers were held back, a little at a time, so that they need not stop.
    pub delays: Delays,
    /// Microseconds that compactions rested because of [`Background`](crate::Background)'s caps.
    pub capped_us: u64,
    /// Slices of compactions that were done beyond the caps, because writers would have been held
    /// back otherwise.
    pub cap_yields: u64,
    /// Who takes how much memory.
    pub memory: MemoryUse,
    /// Memtables that wait to be written out.
    pub sealed_memtables: usize,
    /// Places in the commit order that someone reads at.
    pub snapshots: usize,
    /// Commits after the oldest of these places: what they replaced is kept for its reader.
    pub held_commits: u64,
    /// Transactions: how many are open, and how others have ended.
    pub transactions: TransactionStats,
    /// The data files.
    pub space: SpaceUsage,
    /// The log.
    pub log: LogUsage,
    /// The cache of pages.
    pub cache: CacheStats,
    /// Copies on the first tier of what is read often from slower ones.
    pub copies: CopyStats,
    /// The cache of records.
    pub records: RecordStats,
    /// The tree.
    pub tree: TreeStats,
    /// Compactions of it that are due or under way: what writes have put off.
    pub debt: TreeDebt,
    /// The most runs that lie on the way of a lookup.
    pub tree_runs: usize,
    /// How high it is: 1 when all of it is one leaf.
    pub tree_height: u8,
    /// The levels, that all keyspaces in levels share; none if there are none.
    pub levels: Option<LevelsStats>,
    /// The hashed structure, that all hashed keyspaces share; none if there is none.
    pub hashed: Option<HashedStats>,
    /// Pages that are written in place.
    pub paged: PagedStats,
    /// What the devices of all tiers were asked for, by purpose.
    pub device: DeviceStats,
    /// Each tier, the first one first.
    pub tiers: Vec<TierStats>,
}

fn ratio(one: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| one as f64 / other as f64)
}

impl Stats {
    /// Bytes that the device was asked to write for each byte of users' writes, those of the log
    /// included as soon as they were synced; none before the first.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        ratio(self.device.total().written_bytes, self.written_bytes)
    }

    /// Reads of the device that lookups waited for, for each key that was looked up; none before
    /// the first.
    #[must_use]
    pub fn read_amplification(&self) -> Option<f64> {
        let keys = self.operations.gets + self.operations.multi_get_keys;
        ratio(self.device.of(Purpose::Lookup).reads, keys)
    }

    /// Bytes of the data files that are in use or about to come free, for each byte of them that
    /// something refers to. What old versions and deletes still take among those is not known
    /// before they are compacted away.
    #[must_use]
    pub fn space_amplification(&self) -> Option<f64> {
        ratio(
            self.space.live_extent_bytes + self.space.dead_bytes,
            self.space.live_bytes,
        )
    }

    /// The share of pages that were in memory when they were asked for.
    #[must_use]
    pub fn page_hit_rate(&self) -> Option<f64> {
        ratio(
            self.cache.hits,
            self.cache.hits + self.cache.misses + self.cache.joined,
        )
    }

    /// The share of lookups below the memtables that the cache of records answered.
    #[must_use]
    pub fn record_hit_rate(&self) -> Option<f64> {
        ratio(self.records.hits, self.records.hits + self.records.misses)
    }
}

impl Engine {
    /// What was done, and what there is.
    pub(crate) fn stats(&self, recorders: &Recorders) -> Stats {
        let (usage, log) = self.store.usage();
        let tallies = &self.tallies;
        let of = |tally| tallies.of(tally);
        let delayed = |cause| tallies.delayed_us[cause as usize].load(Ordering::Relaxed);
        let operations = Operations {
            commits: of(Tally::Commits),
            puts: of(Tally::Puts),
            deletes: of(Tally::Deletes),
            merges: of(Tally::Merges),
            range_deletes: of(Tally::RangeDeletes),
            gets: of(Tally::Gets),
            multi_gets: of(Tally::MultiGets),
            multi_get_keys: of(Tally::MultiGetKeys),
            scans: of(Tally::Scans),
            scanned: of(Tally::Scanned),
            found: of(Tally::Found),
            found_reads: of(Tally::FoundReads),
            absent: of(Tally::Absent),
            absent_reads: of(Tally::AbsentReads),
        };
        Stats {
            operations,
            latencies: recorders.latencies(),
            writes: operations.puts + operations.deletes + operations.merges + operations.range_deletes,
            written_bytes: of(Tally::WrittenBytes),
            checkpoints: tallies.checkpoints.load(Ordering::Relaxed),
            waits: tallies.waits.load(Ordering::Relaxed),
            delays: Delays {
                runs_us: delayed(Cause::Runs),
                memtables_us: delayed(Cause::Memtables),
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
