//! The server's metrics for Prometheus.

use super::families::{MetricType, MetricsText};
use super::{predicted, transaction_metrics};
use crate::observe::health::{self, HealthMetrics, HealthSeverity};
use crate::observe::process;
use crate::shared::StoreContext;
use alluvium::{Purpose, StatsMetric, StatsMetricKind, StatsMetricUnit};
use std::sync::atomic::Ordering;

/// Returns all metrics in Prometheus's text format.
pub(super) fn text(shared: &StoreContext) -> String {
    let mut text = MetricsText::default();
    server(shared, &mut text);
    store(shared, &mut text);
    transaction_metrics::write(shared, &mut text);
    predicted::write(shared, &mut text);
    health(shared, &mut text);
    text.finish()
}

fn server(shared: &StoreContext, text: &mut MetricsText) {
    use MetricType::Gauge;
    text.family(
        "build_info",
        Gauge,
        "Version of the server as a label; the value is always 1.",
    );
    let version = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");
    text.labelled("build_info", version, 1.0);
    let uptime = shared.since.elapsed().as_secs_f64();
    text.one(
        "uptime_seconds",
        Gauge,
        "Seconds since the server was started.",
        uptime,
    );
    let clients = shared.clients.len() as f64;
    text.one("connections", Gauge, "Connected clients.", clients);
    let [channels, patterns, _] = shared.subscriptions.counts();
    let (scripts, _, _) = shared.scripts.counts();
    for (name, help, count) in [
        (
            "clients_blocked",
            "Clients that wait for elements of keys.",
            shared.waits.len(),
        ),
        ("channels", "Channels with subscribers.", channels),
        (
            "channel_patterns",
            "Patterns of channels with subscribers.",
            patterns,
        ),
        ("scripts_cached", "Scripts in the cache.", scripts),
    ] {
        text.one(name, Gauge, help, count as f64);
    }
    client_memory(shared, text);
    counted(shared, text);
}

fn client_memory(shared: &StoreContext, text: &mut MetricsText) {
    use MetricType::{Counter, Gauge};
    let counters = &shared.counters;
    for (name, help, bytes) in [
        (
            "client_memory_bytes",
            "Bytes that the requests, replies and transactions of all clients occupy.",
            shared.budget.used(),
        ),
        (
            "client_memory_limit_bytes",
            "Limit for the memory of all clients in bytes.",
            shared.budget.limit(),
        ),
    ] {
        text.one(name, Gauge, help, bytes as f64);
    }
    for (name, help, counter) in [
        (
            "clients_evicted_total",
            "Connections that were closed because clients reached the limit of their memory; the slowest \
             readers are closed first.",
            &counters.evicted,
        ),
        (
            "client_memory_refusals_total",
            "Requests and replies that were refused because they did not fit into the client memory.",
            &counters.memory_refusals,
        ),
        (
            "clients_timed_out_total",
            "Connections that were closed because they were idle or did not authenticate in time.",
            &counters.timed_out,
        ),
    ] {
        text.one(name, Counter, help, counter.load(Ordering::Relaxed) as f64);
    }
}

/// Writes metrics on the health of the process, its disk and the server.
fn health(shared: &StoreContext, text: &mut MetricsText) {
    use MetricType::{Counter, Gauge};
    let findings = health::verdict(&HealthMetrics::of(shared));
    let worst = health::worst(&findings);
    let levels = [HealthSeverity::Good, HealthSeverity::Warning, HealthSeverity::Bad];
    let levels = levels.map(|level| (level.word(), f64::from(u8::from(level == worst))));
    text.each(
        "health",
        Gauge,
        "Health of the server: 1 for the current level, 0 for the others; the web page shows the problems \
         and what to do about them.",
        "level",
        &levels,
    );
    let times = process::processor_time();
    let seconds = [
        ("user", times.user_us as f64 / 1e6),
        ("system", times.system_us as f64 / 1e6),
    ];
    text.each(
        "processor_seconds_total",
        Counter,
        "Processor time of the process in seconds.",
        "mode",
        &seconds,
    );
    for (name, help, value) in [
        (
            "resident_memory_bytes",
            "Resident memory of the process in bytes.",
            process::resident_bytes(),
        ),
        (
            "system_memory_bytes",
            "Memory of the container or machine in bytes.",
            process::system_bytes(),
        ),
        (
            "memory_used_bytes",
            "Memory that the store uses in bytes.",
            Some(shared.used_memory()),
        ),
    ] {
        if let Some(value) = value {
            text.one(name, Gauge, help, value as f64);
        }
    }
    if let Ok(space) = shared.store.db.disk_space() {
        let free = space.free_bytes as f64;
        text.one(
            "disk_free_bytes",
            Gauge,
            "Free bytes on the disk of the store.",
            free,
        );
        let total = space.total_bytes as f64;
        text.one(
            "disk_total_bytes",
            Gauge,
            "Size of the disk of the store in bytes.",
            total,
        );
    }
    let panics = shared.counters.panics.load(Ordering::Relaxed) as f64;
    text.one(
        "panics_total",
        Counter,
        "Connections that were closed because a command panicked.",
        panics,
    );
}

fn counted(shared: &StoreContext, text: &mut MetricsText) {
    let counters = &shared.counters;
    let store = &shared.store;
    for (name, help, counter) in [
        (
            "connections_total",
            "Accepted connections.",
            &counters.connections,
        ),
        (
            "connections_rejected_total",
            "Connections that were refused because too many clients were connected.",
            &counters.rejected,
        ),
        ("commands_total", "Executed commands.", &counters.commands),
        ("command_errors_total", "Error replies.", &counters.errors),
        (
            "network_received_bytes_total",
            "Bytes received from clients.",
            &counters.received,
        ),
        (
            "network_sent_bytes_total",
            "Bytes sent to clients.",
            &counters.sent,
        ),
        (
            "output_overflows_total",
            "Connections that were closed because their unread replies exceeded the output limit.",
            &counters.output_overflows,
        ),
        (
            "string_hits_total",
            "Strings requested by Redis clients and found.",
            &store.hits,
        ),
        (
            "string_misses_total",
            "Strings requested by Redis clients and not found.",
            &store.misses,
        ),
        (
            "item_gets_total",
            "Items requested by memcached clients.",
            &counters.items_got,
        ),
        (
            "item_hits_total",
            "Items requested by memcached clients and found.",
            &counters.items_hit,
        ),
        (
            "item_sets_total",
            "Items stored by memcached clients.",
            &counters.items_set,
        ),
    ] {
        text.one(
            name,
            MetricType::Counter,
            help,
            counter.load(Ordering::Relaxed) as f64,
        );
    }
}

/// A metric family built from the store's statistics. It has a name, a label that distinguishes its
/// values, a help text and, for each label value, the statistics to sum. A family without a label
/// has one value and uses its first statistic's help text.
struct MetricFamily {
    name: &'static str,
    label: Option<(&'static str, &'static str)>,
    of: &'static [(&'static str, &'static [&'static str])],
}

const fn one(name: &'static str, of: &'static [(&'static str, &'static [&'static str])]) -> MetricFamily {
    MetricFamily {
        name,
        label: None,
        of,
    }
}

const fn each(
    name: &'static str,
    label: &'static str,
    help: &'static str,
    of: &'static [(&'static str, &'static [&'static str])],
) -> MetricFamily {
    MetricFamily {
        name,
        label: Some((label, help)),
        of,
    }
}

/// The metric families built from the store's statistics.
#[rustfmt::skip]
const FAMILIES: &[MetricFamily] = &[
    each("operations_total", "kind",
        "Operations of the store, by kind.", &[
        ("commit", &["operations.commits"]),
        ("put", &["operations.puts"]),
        ("delete", &["operations.deletes"]),
        ("merge", &["operations.merges"]),
        ("range_delete", &["operations.range_deletes"]),
        ("get", &["operations.gets"]),
        ("multi_get", &["operations.multi_gets"]),
        ("multi_get_key", &["operations.multi_get_keys"]),
        ("scan", &["operations.scans"]),
        ("scanned_key", &["operations.scanned"]),
    ]),
    one("user_written_bytes_total", &[("", &["operations.written_bytes"])]),
    each("amplification_ratio", "kind",
        "Since the store was opened: bytes written to the device per byte written by users (write), device \
         reads per key looked up (read); and bytes in use per live byte (space).", &[
        ("write", &["amplification.write"]),
        ("read", &["amplification.read"]),
        ("space", &["amplification.space"]),
    ]),
    each("cache_hits_total", "cache",
        "Cache hits, by cache.", &[
        ("pages", &["cache.pages.hits"]),
        ("records", &["cache.records.hits"]),
    ]),
    each("cache_misses_total", "cache",
        "Cache misses, by cache.", &[
        ("pages", &["cache.pages.misses", "cache.pages.joined"]),
        ("records", &["cache.records.misses"]),
    ]),
    one("cache_page_evictions_total", &[("", &["cache.pages.evictions"])]),
    each("memory_bytes", "owner",
        "Memory that the store uses in bytes, by owner.", &[
        ("memtables", &["memory.memtables"]),
        ("log", &["memory.log"]),
        ("pages", &["memory.pages"]),
        ("records", &["memory.records"]),
        ("tree", &["memory.tree"]),
        ("tables", &["memory.tables"]),
        ("transactions", &["memory.transactions"]),
        ("clients", &["memory.beside"]),
    ]),
    one("memory_budget_bytes", &[("", &["memory.budget"])]),
    each("space_bytes", "state",
        "Bytes of the data files, by state.", &[
        ("live", &["space.live_bytes"]),
        ("dead", &["space.dead_bytes"]),
        ("free", &["space.free_bytes"]),
    ]),
    one("data_file_bytes", &[("", &["space.file_bytes"])]),
    one("log_bytes", &[("", &["log.live_bytes"])]),
    one("log_limit_bytes", &[("", &["log.limit_bytes"])]),
    one("log_syncs_total", &[("", &["log.syncs"])]),
    one("writer_waits_total", &[("", &["work.waits"])]),
    one("writer_delay_seconds_total", &[("", &["work.delayed"])]),
    one("background_rest_seconds_total", &[("", &["work.capped"])]),
    one("checkpoints_total", &[("", &["work.checkpoints"])]),
    one("incorporations_total", &[("", &["work.incorporations"])]),
    one("incorporated_bytes_total", &[("", &["work.incorporated_bytes"])]),
    one("compacted_bytes_total", &[("", &["work.compacted_bytes"])]),
    one("flushes_total", &[("", &["work.flushes"])]),
    one("splits_total", &[("", &["work.leaf_splits", "work.index_splits"])]),
    each("compactions", "state",
        "Compactions, by state: pending or running.", &[
        ("pending", &["debt.pending_jobs"]),
        ("running", &["debt.running_jobs"]),
    ]),
    each("compaction_bytes", "state",
        "Bytes that the pending and running compactions read, by state.", &[
        ("pending", &["debt.pending_bytes"]),
        ("running", &["debt.running_bytes"]),
    ]),
    one("sealed_memtables", &[("", &["debt.sealed_memtables"])]),
    one("tree_height", &[("", &["tree.height"])]),
    one("tree_runs", &[("", &["tree.runs"])]),
];

/// Writes the store's statistics. Omits a ratio while its denominator is zero.
fn store(shared: &StoreContext, text: &mut MetricsText) {
    let figures = shared.store.db.stats().list();
    let find = |name: &str| figures.iter().find(|figure| figure.name == name);
    for family in FAMILIES {
        let Some(first) = family
            .of
            .iter()
            .flat_map(|(_, names)| *names)
            .find_map(|name| find(name))
        else {
            // Omit the ratio, because its denominator is still zero.
            continue;
        };
        let value = |names: &[&str]| {
            let known: Vec<f64> = names
                .iter()
                .filter_map(|name| find(name))
                .map(in_seconds)
                .collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>())
        };
        match family.label {
            None => {
                let value = value(family.of[0].1).unwrap_or_default();
                text.one(family.name, kind_of(first), first.help, value);
            }
            Some((label, help)) => {
                let known = family
                    .of
                    .iter()
                    .filter_map(|(word, names)| Some((*word, value(names)?)));
                let known: Vec<(&str, f64)> = known.collect();
                text.each(family.name, kind_of(first), help, label, &known);
            }
        }
    }
    device(&figures, text);
    durations(shared, text);
    let last = shared.store.db.sequence() as f64;
    text.one(
        "last_commit",
        MetricType::Gauge,
        "Sequence number of the last commit that is visible to all readers.",
        last,
    );
}

/// Writes the numbers of device operations by purpose.
fn device(figures: &[StatsMetric], text: &mut MetricsText) {
    for (name, of) in [
        ("device_reads_total", "reads"),
        ("device_writes_total", "writes"),
        ("device_syncs_total", "syncs"),
        ("device_read_bytes_total", "read_bytes"),
        ("device_written_bytes_total", "written_bytes"),
    ] {
        let of_purpose = |purpose: Purpose| {
            let figure = format!("device.{}.{of}", purpose.name());
            figures.iter().find(|one| one.name == figure)
        };
        let help = of_purpose(Purpose::ALL[0]).map_or("", |figure| figure.help);
        let value = |purpose: Purpose| of_purpose(purpose).map_or(0.0, |figure| figure.value);
        let values = Purpose::ALL.map(|purpose| (purpose.name(), value(purpose)));
        text.each(name, MetricType::Counter, help, "purpose", &values);
    }
}

/// Writes latency histograms of store operations.
fn durations(shared: &StoreContext, text: &mut MetricsText) {
    let times = shared.store.db.distributions();
    text.family(
        "operation_duration_seconds",
        MetricType::Histogram,
        "Duration of store operations in seconds; every durable commit is timed, and one in 64 of the other \
         operations.",
    );
    for (word, times) in [
        ("get", &times.get),
        ("multi_get", &times.multi_get),
        ("commit", &times.commit),
        ("durable_commit", &times.durable_commit),
    ] {
        text.histogram("operation_duration_seconds", "operation", word, times);
    }
}

fn kind_of(figure: &StatsMetric) -> MetricType {
    match figure.nature {
        StatsMetricKind::Counter => MetricType::Counter,
        StatsMetricKind::Gauge => MetricType::Gauge,
    }
}

/// Converts a statistic to Prometheus's base unit, which is the second for times.
fn in_seconds(figure: &StatsMetric) -> f64 {
    match figure.unit {
        StatsMetricUnit::Nanoseconds => figure.value / 1e9,
        _ => figure.value,
    }
}
