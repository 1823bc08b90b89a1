//! The recent activity of the server and its store, with a row of rates and current amounts for
//! each second.

use crate::shared::StoreContext;
use alluvium::{LatencyDistribution, LatencyDistributions, Purpose, Stats};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Maximum number of rows to keep, which cover the last ten minutes.
const KEPT: usize = 600;

/// A column's name and value. The value is `None` if there is no data.
type HistoryColumn = (&'static str, Option<f64>);

/// The values of all counters at one point in time.
struct ActivitySnapshot {
    at: Instant,
    stats: Stats,
    times: LatencyDistributions,
    commands: u64,
    received: u64,
    sent: u64,
    errors: u64,
    connections: usize,
}

#[derive(Default)]
struct HistoryRows {
    last: Option<ActivitySnapshot>,
    /// The kept rows, each with its time in milliseconds since 1970 and its columns.
    rows: VecDeque<(u64, Vec<HistoryColumn>)>,
    /// Total number of rows recorded, including those no longer kept.
    count: u64,
}

/// The rows of the last ten minutes.
#[derive(Default)]
pub(super) struct ActivityHistory(Mutex<HistoryRows>);

impl ActivitySnapshot {
    fn now(shared: &StoreContext) -> ActivitySnapshot {
        let counters = &shared.counters;
        ActivitySnapshot {
            at: Instant::now(),
            stats: shared.store.db.stats(),
            times: shared.store.db.distributions(),
            commands: counters.commands.load(Ordering::Relaxed),
            received: counters.received.load(Ordering::Relaxed),
            sent: counters.sent.load(Ordering::Relaxed),
            errors: counters.errors.load(Ordering::Relaxed),
            connections: shared.clients.len(),
        }
    }

    /// Returns a row's columns: the rates between the snapshot `before` and this one, and the
    /// current amounts.
    fn row(&self, before: &ActivitySnapshot) -> Vec<HistoryColumn> {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let mut row = self.operations(before, seconds).to_vec();
        row.extend(self.device(before, seconds));
        row.extend(self.state());
        row.extend(self.pressure(before, seconds));
        row
    }

    fn operations(&self, before: &ActivitySnapshot, seconds: f64) -> [HistoryColumn; 15] {
        let rate = |now: u64, then: u64| Some(more(now, then) as f64 / seconds);
        let (now, then) = (&self.stats, &before.stats);
        let reads = |stats: &Stats| stats.operations.gets + stats.operations.multi_get_keys;
        let since =
            |of: fn(&LatencyDistributions) -> &LatencyDistribution| of(&self.times).since(of(&before.times));
        let read = since(|times| &times.get).with(&since(|times| &times.multi_get));
        let commit = since(|times| &times.commit).with(&since(|times| &times.durable_commit));
        let quantile = |of: &LatencyDistribution, share| of.quantile_ns(share).map(|ns| ns as f64);
        let (done, before_done) = (&now.operations, &then.operations);
        [
            ("writes_per_s", rate(now.writes, then.writes)),
            ("reads_per_s", rate(reads(now), reads(then))),
            ("scanned_per_s", rate(done.scanned, before_done.scanned)),
            ("commits_per_s", rate(done.commits, before_done.commits)),
            ("commands_per_s", rate(self.commands, before.commands)),
            (
                "user_written_bytes_per_s",
                rate(now.written_bytes, then.written_bytes),
            ),
            ("read_p50_ns", quantile(&read, 0.5)),
            ("read_p99_ns", quantile(&read, 0.99)),
            ("read_p999_ns", quantile(&read, 0.999)),
            ("commit_p50_ns", quantile(&commit, 0.5)),
            ("commit_p99_ns", quantile(&commit, 0.99)),
            ("commit_p999_ns", quantile(&commit, 0.999)),
            ("received_bytes_per_s", rate(self.received, before.received)),
            ("sent_bytes_per_s", rate(self.sent, before.sent)),
            ("errors_per_s", rate(self.errors, before.errors)),
        ]
    }

    fn device(&self, before: &ActivitySnapshot, seconds: f64) -> [HistoryColumn; 12] {
        let per_second = |count: u64| Some(count as f64 / seconds);
        let between = self.stats.device.since(&before.stats.device);
        let all = between.total();
        let read = |purpose| between.of(purpose).read_bytes;
        let written = |purpose| between.of(purpose).written_bytes;
        let [lookup, scan, compact] = [Purpose::Lookup, Purpose::Scan, Purpose::Compact].map(read);
        let [log, incorporate, compacted] =
            [Purpose::Log, Purpose::Incorporate, Purpose::Compact].map(written);
        let other_read = more(all.read_bytes, lookup + scan + compact);
        let other_written = more(all.written_bytes, log + incorporate + compacted);
        let users = more(self.stats.written_bytes, before.stats.written_bytes);
        [
            ("device_reads_per_s", per_second(all.reads)),
            ("device_writes_per_s", per_second(all.writes)),
            ("device_syncs_per_s", per_second(all.syncs)),
            ("read_bytes_lookup_per_s", per_second(lookup)),
            ("read_bytes_scan_per_s", per_second(scan)),
            ("read_bytes_compact_per_s", per_second(compact)),
            ("read_bytes_other_per_s", per_second(other_read)),
            ("written_bytes_log_per_s", per_second(log)),
            ("written_bytes_incorporate_per_s", per_second(incorporate)),
            ("written_bytes_compact_per_s", per_second(compacted)),
            ("written_bytes_other_per_s", per_second(other_written)),
            ("write_amplification", share(all.written_bytes, users)),
        ]
    }

    fn state(&self) -> [HistoryColumn; 14] {
        let amount = |number: u64| Some(number as f64);
        let stats = &self.stats;
        let (memory, debt) = (&stats.memory, &stats.debt);
        [
            ("memory_memtables_bytes", amount(memory.memtables)),
            ("memory_log_bytes", amount(memory.log)),
            ("memory_pages_bytes", amount(memory.pages)),
            ("memory_records_bytes", amount(memory.records)),
            ("memory_tree_bytes", amount(memory.tree)),
            ("memory_tables_bytes", amount(memory.tables)),
            ("pending_bytes", amount(debt.pending_bytes)),
            ("running_bytes", amount(debt.running_bytes)),
            ("sealed_memtables", amount(stats.sealed_memtables as u64)),
            ("tree_runs", amount(stats.tree_runs as u64)),
            ("log_live_bytes", amount(stats.log.live_bytes)),
            ("space_live_bytes", amount(stats.space.live_bytes)),
            ("space_file_bytes", amount(stats.space.file_bytes)),
            ("connections", amount(self.connections as u64)),
        ]
    }

    fn pressure(&self, before: &ActivitySnapshot, seconds: f64) -> [HistoryColumn; 4] {
        let (now, then) = (&self.stats, &before.stats);
        let asked = |stats: &Stats| stats.cache.hits + stats.cache.misses + stats.cache.joined;
        let looked_up = |stats: &Stats| stats.records.hits + stats.records.misses;
        let pages = share(
            more(now.cache.hits, then.cache.hits),
            more(asked(now), asked(then)),
        );
        let records = share(
            more(now.records.hits, then.records.hits),
            more(looked_up(now), looked_up(then)),
        );
        let delayed = more(now.delays.total_us(), then.delays.total_us()) as f64 / 1e6 / seconds;
        let waits = more(now.waits, then.waits) as f64 / seconds;
        [
            ("page_hit_rate", pages),
            ("record_hit_rate", records),
            ("delayed_share", Some(delayed)),
            ("waits_per_s", Some(waits)),
        ]
    }
}

/// Returns a counter's growth, or 0 if it was reset.
fn more(now: u64, then: u64) -> u64 {
    now.saturating_sub(then)
}

fn share(one: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| one as f64 / other as f64)
}

impl ActivityHistory {
    /// Adds a row with the activity since the last call.
    pub(super) fn note(&self, shared: &StoreContext) {
        let now = ActivitySnapshot::now(shared);
        let mut rows = self.0.lock();
        if let Some(last) = &rows.last {
            let row = now.row(last);
            rows.rows.push_back((shared.store.now_ms(), row));
            rows.count += 1;
            if rows.rows.len() > KEPT {
                rows.rows.pop_front();
            }
        }
        rows.last = Some(now);
    }

    /// Returns the kept rows, without the first `after` rows ever recorded.
    pub(super) fn since(&self, after: u64) -> Value {
        let rows = self.0.lock();
        let first = rows.count - rows.rows.len() as u64;
        let skip = after.min(rows.count).saturating_sub(first) as usize;
        let numbers = |row: &[HistoryColumn]| row.iter().map(|(_, number)| *number).collect::<Vec<_>>();
        let list: Vec<Value> = rows
            .rows
            .iter()
            .skip(skip)
            .map(|(at_ms, row)| json!({ "at_ms": at_ms, "row": numbers(row) }))
            .collect();
        let names = rows.rows.back().map(|(_, row)| row.iter().map(|(name, _)| *name));
        let columns: Vec<&str> = names.into_iter().flatten().collect();
        json!({ "columns": columns, "next": rows.count, "rows": list })
    }

    /// Returns the most recent row as JSON, with the columns as fields.
    pub(super) fn latest(&self) -> Value {
        let rows = self.0.lock();
        let Some((_, row)) = rows.rows.back() else {
            return Value::Null;
        };
        let pairs = row
            .iter()
            .map(|(name, number)| ((*name).to_owned(), json!(number)));
        pairs.collect::<serde_json::Map<_, _>>().into()
    }
}
