//! The metrics register, which defines the name, unit, meaning and source of each metric.
//!
//! `Stats::list`, the export to the `metrics` crate and the server's metrics are all generated from
//! the register, so a new row appears in all of them.

use super::Stats;

/// The unit of a metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StatsMetricUnit {
    /// Counts events or objects.
    Count,
    /// Measures memory or data in bytes.
    Bytes,
    /// Measures a duration, such as a latency, a delay or processor time.
    Nanoseconds,
    /// A dimensionless quotient of two numbers.
    Ratio,
}

/// Whether a metric is a counter or a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatsMetricKind {
    /// A count or sum since the store was opened, which never decreases.
    Counter,
    /// A current value, which can also decrease.
    Gauge,
}

/// One row of the register. It defines a metric.
pub(super) struct MetricRow {
    pub(super) name: &'static str,
    pub(super) unit: StatsMetricUnit,
    pub(super) nature: StatsMetricKind,
    pub(super) help: &'static str,
    /// Returns the value of the metric, or `None` if the metric does not apply to the store.
    pub(super) read: fn(&Stats) -> Option<f64>,
}

/// A number type used by the fields of [`Stats`] that converts to a metric value.
trait MetricValue {
    fn number(self) -> Option<f64>;
}

impl MetricValue for u64 {
    fn number(self) -> Option<f64> {
        Some(self as f64)
    }
}

impl MetricValue for usize {
    fn number(self) -> Option<f64> {
        Some(self as f64)
    }
}

impl MetricValue for u8 {
    fn number(self) -> Option<f64> {
        Some(f64::from(self))
    }
}

impl MetricValue for Option<f64> {
    fn number(self) -> Option<f64> {
        self
    }
}

/// Builds register rows from `"name", StatsMetricUnit, StatsMetricKind, read, "help";`.
macro_rules! rows {
    ($($name:literal, $unit:ident, $nature:ident, |$stats:ident| $read:expr, $help:literal;)*) => {
        &[$(MetricRow {
            name: $name,
            unit: StatsMetricUnit::$unit,
            nature: StatsMetricKind::$nature,
            help: $help,
            read: |$stats| $read.number(),
        }),*]
    };
}

pub(super) const OPERATIONS: &[MetricRow] = rows! {
    "operations.commits", Count, Counter, |s| s.operations.commits,
        "Commits: batches, and single writes outside batches.";
    "operations.puts", Count, Counter, |s| s.operations.puts, "Puts in commits.";
    "operations.deletes", Count, Counter, |s| s.operations.deletes, "Deletes in commits.";
    "operations.merges", Count, Counter, |s| s.operations.merges, "Merges in commits.";
    "operations.range_deletes", Count, Counter, |s| s.operations.range_deletes, "Range deletes in commits.";
    "operations.gets", Count, Counter, |s| s.operations.gets, "Gets of one key.";
    "operations.multi_gets", Count, Counter, |s| s.operations.multi_gets, "Gets of many keys at once.";
    "operations.multi_get_keys", Count, Counter, |s| s.operations.multi_get_keys,
        "Keys requested by gets of many keys.";
    "operations.scans", Count, Counter, |s| s.operations.scans, "Scans started.";
    "operations.scanned", Count, Counter, |s| s.operations.scanned, "Keys that scans returned.";
    "operations.found", Count, Counter, |s| s.operations.found, "Lookups of one key that found a value.";
    "operations.found_reads", Count, Counter, |s| s.operations.found_reads,
        "Nodes that lookups waited for, when they found a value.";
    "operations.absent", Count, Counter, |s| s.operations.absent, "Lookups of one key that found no value.";
    "operations.absent_reads", Count, Counter, |s| s.operations.absent_reads,
        "Nodes that lookups waited for, when they found no value.";
    "operations.written_bytes", Bytes, Counter, |s| s.written_bytes,
        "Bytes of keys and values written by users.";
    "transactions.begun", Count, Counter, |s| s.transactions.begun, "Transactions begun.";
    "transactions.committed", Count, Counter, |s| s.transactions.committed,
        "Transactions committed.";
    "transactions.attached", Count, Counter, |s| s.transactions.attached,
        "Transactions committed with two checkpoints, because their writes on disk were not logged.";
    "transactions.rolled_back", Count, Counter, |s| s.transactions.rolled_back,
        "Transactions rolled back.";
    "transactions.conflicts", Count, Counter, |s| s.transactions.conflicts,
        "Commits rejected because of a conflict with another commit.";
    "transactions.deadlocks", Count, Counter, |s| s.transactions.deadlocks,
        "Transactions aborted to resolve a deadlock.";
    "transactions.timeouts", Count, Counter, |s| s.transactions.timeouts,
        "Transactions that waited too long for a lock.";
    "transactions.open", Count, Gauge, |s| s.transactions.open, "Transactions that are open.";
    "transactions.oldest_ms", Count, Gauge, |s| s.transactions.oldest_ms,
        "Age of the oldest open transaction, in milliseconds.";
    "transactions.write_bytes", Bytes, Gauge, |s| s.transactions.write_bytes,
        "Memory of the writes of open transactions.";
    "transactions.spilled_bytes", Bytes, Gauge, |s| s.transactions.spilled_bytes,
        "Bytes that open transactions have written to disk.";
    "transactions.spilled_layers", Count, Gauge, |s| s.transactions.spilled_layers,
        "Layers of spilled writes that lookups of open transactions search.";
};

pub(super) const AMPLIFICATION: &[MetricRow] = rows! {
    "amplification.write", Ratio, Gauge, |s| s.write_amplification(),
        "Bytes written to the device for each byte of users' writes.";
    "amplification.read", Ratio, Gauge, |s| s.read_amplification(),
        "Device reads that lookups waited for, for each key looked up.";
    "amplification.space", Ratio, Gauge, |s| s.space_amplification(),
        "Bytes in use for each byte of live data.";
};

pub(super) const CACHES: &[MetricRow] = rows! {
    "cache.pages.hit_rate", Ratio, Gauge, |s| s.page_hit_rate(),
        "Share of node reads that the page cache answered.";
    "cache.pages.hits", Count, Counter, |s| s.cache.hits, "Node reads that the page cache answered.";
    "cache.pages.misses", Count, Counter, |s| s.cache.misses, "Node reads that went to the device.";
    "cache.pages.joined", Count, Counter, |s| s.cache.joined, "Node reads that waited for one under way.";
    "cache.pages.evictions", Count, Counter, |s| s.cache.evictions, "Pages that were evicted for others.";
    "cache.pages.failures", Count, Counter, |s| s.cache.failures, "Node reads that failed.";
    "cache.pages.resident_bytes", Bytes, Gauge, |s| s.cache.resident_bytes, "Memory of cached pages.";
    "cache.pages.pinned_bytes", Bytes, Gauge, |s| s.cache.pinned_bytes,
        "Memory of cached pages that readers hold.";
    "cache.records.hit_rate", Ratio, Gauge, |s| s.record_hit_rate(),
        "Share of lookups that the record cache answered.";
    "cache.records.hits", Count, Counter, |s| s.records.hits, "Lookups that the record cache answered.";
    "cache.records.misses", Count, Counter, |s| s.records.misses,
        "Lookups that the record cache did not answer.";
    "cache.records.ghost_hits", Count, Counter, |s| s.records.ghost_hits,
        "Lookups of records that the cache evicted a short while ago.";
    "cache.records.records", Count, Gauge, |s| s.records.records, "Records in the record cache.";
    "memory.budget", Bytes, Gauge, |s| s.memory.budget, "Memory limit of the store.";
    "memory.total", Bytes, Gauge, |s| s.memory.total(), "Total memory used by the store.";
    "memory.memtables", Bytes, Gauge, |s| s.memory.memtables, "Memory of memtables.";
    "memory.log", Bytes, Gauge, |s| s.memory.log, "Memory of the log.";
    "memory.pages", Bytes, Gauge, |s| s.memory.pages, "Memory of the page cache.";
    "memory.records", Bytes, Gauge, |s| s.memory.records, "Memory of the record cache.";
    "memory.tree", Bytes, Gauge, |s| s.memory.tree, "Memory of structures: trunks, filters, indexes.";
    "memory.tables", Bytes, Gauge, |s| s.memory.tables, "Memory of tables: extents, catalog, locks.";
    "memory.beside", Bytes, Gauge, |s| s.memory.external, "Memory used by the program outside the store, as reported by it.";
    "memory.transactions", Bytes, Gauge, |s| s.memory.transactions, "Memory of open transactions.";
};

/// Space metrics of the data files.
pub(super) const SPACE: &[MetricRow] = rows! {
    "space.file_bytes", Bytes, Gauge, |s| s.space.file_bytes, "Length of the data files, holes included.";
    "space.live_extent_bytes", Bytes, Gauge, |s| s.space.live_extent_bytes, "Bytes of extents in use.";
    "space.live_bytes", Bytes, Gauge, |s| s.space.live_bytes, "Bytes of live data.";
    "space.dead_bytes", Bytes, Gauge, |s| s.space.dead_bytes,
        "Bytes that are free once no reader and no checkpoint needs them.";
    "space.free_bytes", Bytes, Gauge, |s| s.space.free_bytes, "Bytes of the data files that are free.";
    "space.hole_bytes", Bytes, Gauge, |s| s.space.hole_bytes, "Free bytes returned to the file system.";
    "space.reserve_bytes", Bytes, Gauge, |s| s.space.reserve_bytes, "Bytes reserved for operations that free space.";
};

pub(super) const LOG: &[MetricRow] = rows! {
    "log.limit_bytes", Bytes, Gauge, |s| s.log.limit_bytes, "Size limit of the log.";
    "log.live_bytes", Bytes, Gauge, |s| s.log.live_bytes, "Bytes of the log not yet released.";
    "log.disk_bytes", Bytes, Gauge, |s| s.log.disk_bytes, "Size of the log files.";
    "log.syncs", Count, Counter, |s| s.log.syncs, "Syncs of the log.";
    "log.commit_rounds", Count, Counter, |s| s.log.commit_rounds,
        "Rounds in which commits were made durable together.";
};

/// Metrics of all structures but the tiered tree: levels, hashed, and pages updated in place.
pub(super) const STRUCTURES: &[MetricRow] = rows! {
    "levels.levels", Count, Gauge, |s| s.levels.as_ref().map(|levels| levels.levels as f64),
        "Levels of runs.";
    "levels.runs", Count, Gauge, |s| s.levels.as_ref().map(|levels| levels.runs as f64), "Runs in levels.";
    "levels.jumps", Count, Gauge, |s| s.levels.as_ref().map(|levels| levels.jumps as f64),
        "Jumps of scans in the current runs: reads that do not start where the previous one ended.";
    "levels.leaves_taken_over", Count, Counter, |s| s.levels.as_ref().map(|levels| levels.taken_over as f64),
        "Leaves that merges reused without reading them.";
    "levels.leaves_dropped", Count, Counter, |s| s.levels.as_ref().map(|levels| levels.dropped_leaves as f64),
        "Leaves that merges dropped without reading them, because ranges of keys were deleted.";
    "levels.defragmented_runs", Count, Counter, |s| s.levels.as_ref().map(|levels| levels.defragmented_runs as f64),
        "Runs rewritten to speed up scans.";
    "levels.defragmented_bytes", Bytes, Counter, |s| s.levels.as_ref().map(|levels| levels.defragmented_bytes as f64),
        "Bytes of runs rewritten to speed up scans.";
    "hashed.memory_bytes", Bytes, Gauge, |s| s.hashed.as_ref().map(|hashed| hashed.memory_bytes as f64),
        "Memory of the hashed structure.";
    "hashed.device_bytes", Bytes, Gauge, |s| s.hashed.as_ref().map(|hashed| hashed.device_bytes as f64),
        "Bytes of the hashed structure on disk.";
    "hashed.filter_bytes", Bytes, Gauge, |s| s.hashed.as_ref().map(|hashed| hashed.filter_bytes as f64),
        "Bytes of its filters on disk.";
    "hashed.hash_stores", Count, Gauge, |s| s.hashed.as_ref().map(|hashed| hashed.hash_stores as f64),
        "Hash stores that are not merged yet.";
    "hashed.hash_store_records", Count, Gauge, |s| s.hashed.as_ref().map(|hashed| hashed.hash_store_records as f64),
        "Records in hash stores.";
    "hashed.sorted_records", Count, Gauge, |s| s.hashed.as_ref().map(|hashed| hashed.sorted_records as f64),
        "Records in parts.";
    "hashed.runs", Count, Gauge, |s| s.hashed.as_ref().map(|hashed| hashed.runs as f64),
        "Runs of the hashed structure.";
    "hashed.levels", Count, Gauge, |s| s.hashed.as_ref().map(|hashed| hashed.levels as f64),
        "Levels of the hashed structure.";
    "hashed.tombstones", Count, Gauge, |s| s.hashed.as_ref().map(|hashed| hashed.tombstones as f64),
        "Deletes that older runs still need.";
    "hashed.merges", Count, Counter, |s| s.hashed.as_ref().map(|hashed| hashed.merges as f64),
        "Merges of the hashed structure.";
    "hashed.merged_records", Count, Counter, |s| s.hashed.as_ref().map(|hashed| hashed.merged_records as f64),
        "Records that these merges wrote.";
    "paged.file_bytes", Bytes, Gauge, |s| s.paged.file_bytes,
        "Length of the file of pages that are written in place.";
    "paged.journal_bytes", Bytes, Gauge, |s| s.paged.journal_bytes, "Bytes of the journal of these pages.";
    "paged.pages", Count, Gauge, |s| s.paged.pages, "Pages that are written in place.";
    "paged.free_pages", Count, Gauge, |s| s.paged.free_pages, "Pages that are free.";
    "paged.hits", Count, Counter, |s| s.paged.hits, "Page reads served from memory.";
    "paged.reads", Count, Counter, |s| s.paged.reads, "Pages that were read.";
    "paged.writes", Count, Counter, |s| s.paged.writes, "Pages that were written.";
    "paged.images", Count, Counter, |s| s.paged.images, "Images of pages that were written to the journal.";
};

/// Metrics of background work, both completed and pending.
pub(super) const WORK: &[MetricRow] = rows! {
    "work.waits", Count, Counter, |s| s.waits,
        "Times that a writer stopped because background work fell behind.";
    "work.cap_yields", Count, Counter, |s| s.cap_yields,
        "Slices of compactions run beyond their caps, so that writers could continue.";
    "work.checkpoints", Count, Counter, |s| s.checkpoints, "Checkpoints that were made.";
    "work.incorporations", Count, Counter, |s| s.tree.incorporations, "Memtables that were written out.";
    "work.flushes", Count, Counter, |s| s.tree.shape.flushes, "Flushes of the tree.";
    "work.adoptions", Count, Counter, |s| s.tree.shape.adoptions, "Runs adopted without reading them.";
    "work.leaf_splits", Count, Counter, |s| s.tree.shape.leaf_splits, "Leaves of the tree that were split.";
    "work.index_splits", Count, Counter, |s| s.tree.shape.index_splits,
        "Index nodes of the tree that were split.";
    "work.merges", Count, Counter, |s| s.tree.shape.merges, "Nodes of the tree that were merged.";
    "work.compacted_records_read", Count, Counter, |s| s.tree.compacted.0, "Records that compactions read.";
    "work.compacted_records_written", Count, Counter, |s| s.tree.compacted.1,
        "Records that compactions wrote.";
    "work.rewritten_records", Count, Counter, |s| s.tree.rewritten,
        "Records rewritten to drop old versions.";
    "work.incorporated_bytes", Bytes, Counter, |s| s.tree.incorporated_bytes,
        "Bytes of runs that were written from memtables.";
    "work.compacted_bytes", Bytes, Counter, |s| s.tree.compacted_bytes,
        "Bytes of runs that compactions wrote.";
    "work.delayed", Nanoseconds, Counter, |s| (s.delays.total_us() * 1000),
        "Time that writers were delayed.";
    "work.delayed_for_runs", Nanoseconds, Counter, |s| (s.delays.runs_us * 1000),
        "Time that writers were delayed because of too many runs.";
    "work.delayed_for_memtables", Nanoseconds, Counter, |s| (s.delays.memtables_us * 1000),
        "Time that writers were delayed because of memtables not yet written out.";
    "work.capped", Nanoseconds, Counter, |s| (s.capped_us * 1000),
        "Time that compactions paused because of their caps.";
    "debt.sealed_memtables", Count, Gauge, |s| s.sealed_memtables, "Memtables that wait to be written out.";
    "debt.pending_jobs", Count, Gauge, |s| s.debt.pending_jobs, "Compactions that are due.";
    "debt.running_jobs", Count, Gauge, |s| s.debt.running_jobs, "Running compactions.";
    "debt.snapshots", Count, Gauge, |s| s.snapshots, "Snapshots that are open.";
    "debt.held_commits", Count, Gauge, |s| s.held_commits, "Commits since the oldest snapshot.";
    "tree.height", Count, Gauge, |s| s.tree_height, "Levels of the tree.";
    "tree.runs", Count, Gauge, |s| s.tree_runs, "Largest number of runs on the path of a lookup.";
    "tree.leaves_adopted", Count, Counter, |s| s.tree.adopted.0,
        "Leaves that compactions reused without reading them.";
    "tree.leaves_dropped", Count, Counter, |s| s.tree.dropped_leaves,
        "Leaves that compactions dropped without reading them, because ranges of keys were deleted.";
    "tree.gathered_bytes", Bytes, Counter, |s| s.tree.gathered_bytes,
        "Bytes of separate values that compactions wrote again because they were scattered.";
    "debt.pending_bytes", Bytes, Gauge, |s| s.debt.pending_bytes,
        "Bytes that due compactions will read.";
    "debt.running_bytes", Bytes, Gauge, |s| s.debt.running_bytes,
        "Bytes that running compactions will read.";
};
