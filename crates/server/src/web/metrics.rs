//! The same numbers as text for Prometheus.

use super::families::{Kind, Text};
use super::{open, predicted};
use crate::health::{self, Level, Vitals};
use crate::process;
use crate::shared::Shared;
use alluvium::{DeviceCounts, Purpose};
use std::sync::atomic::Ordering;

/// Everything, in the text format of Prometheus.
pub(super) fn text(shared: &Shared) -> String {
    let mut text = Text::default();
    server(shared, &mut text);
    operations(shared, &mut text);
    device(shared, &mut text);
    caches(shared, &mut text);
    space(shared, &mut text);
    work(shared, &mut text);
    due(shared, &mut text);
    open::write(shared, &mut text);
    predicted::write(shared, &mut text);
    health(shared, &mut text);
    text.finish()
}

fn server(shared: &Shared, text: &mut Text) {
    use Kind::Gauge;
    text.family("build_info", Gauge, "The version; always 1.");
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
    text.one("connections", Gauge, "Clients that are connected.", clients);
    client_memory(shared, text);
    counted(shared, text);
}

fn client_memory(shared: &Shared, text: &mut Text) {
    use Kind::{Counter, Gauge};
    let counters = &shared.counters;
    for (name, help, bytes) in [
        (
            "client_memory_bytes",
            "Memory that all clients hold: requests, replies, transactions.",
            shared.budget.used(),
        ),
        (
            "client_memory_limit_bytes",
            "Memory that all clients may hold.",
            shared.budget.limit(),
        ),
    ] {
        text.one(name, Gauge, help, bytes as f64);
    }
    for (name, help, counter) in [
        (
            "clients_evicted_total",
            "Connections that were closed, the slowest readers first, because all together held too much.",
            &counters.evicted,
        ),
        (
            "client_memory_refusals_total",
            "Requests and replies that were refused because they did not fit into the memory of clients.",
            &counters.memory_refusals,
        ),
        (
            "clients_timed_out_total",
            "Connections that were closed because they were idle.",
            &counters.timed_out,
        ),
    ] {
        text.one(name, Counter, help, counter.load(Ordering::Relaxed) as f64);
    }
}

/// How the process, its disk and the server as a whole are.
fn health(shared: &Shared, text: &mut Text) {
    use Kind::{Counter, Gauge};
    let findings = health::verdict(&Vitals::of(shared));
    let worst = health::worst(&findings);
    let levels = [Level::Good, Level::Warning, Level::Bad];
    let levels = levels.map(|level| (level.word(), f64::from(u8::from(level == worst))));
    text.each(
        "health",
        Gauge,
        "1 for how well the server is: the web page and MEMORY DOCTOR say what is wrong and what to do.",
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
        "Processor time of the process.",
        "mode",
        &seconds,
    );
    for (name, help, value) in [
        (
            "resident_memory_bytes",
            "Memory that the process has.",
            process::resident_bytes(),
        ),
        (
            "system_memory_bytes",
            "Memory of the container or the machine.",
            process::system_bytes(),
        ),
        (
            "memory_used_bytes",
            "Memory that the store uses.",
            Some(shared.used_memory()),
        ),
    ] {
        if let Some(value) = value {
            text.one(name, Gauge, help, value as f64);
        }
    }
    if let Ok(space) = shared.store.db.disk_space() {
        let free = space.free_bytes as f64;
        text.one("disk_free_bytes", Gauge, "Room on the disk of the store.", free);
        let total = space.total_bytes as f64;
        text.one("disk_total_bytes", Gauge, "Size of the disk of the store.", total);
    }
    let panics = shared.counters.panics.load(Ordering::Relaxed) as f64;
    text.one(
        "panics_total",
        Counter,
        "Connections that ended since a command panicked.",
        panics,
    );
}

fn counted(shared: &Shared, text: &mut Text) {
    let counters = &shared.counters;
    let store = &shared.store;
    for (name, help, counter) in [
        (
            "connections_total",
            "Connections that were accepted.",
            &counters.connections,
        ),
        (
            "connections_rejected_total",
            "Connections that were refused because there were too many.",
            &counters.rejected,
        ),
        (
            "commands_total",
            "Commands that were executed.",
            &counters.commands,
        ),
        (
            "command_errors_total",
            "Replies that were errors.",
            &counters.errors,
        ),
        (
            "network_received_bytes_total",
            "Bytes that clients sent.",
            &counters.received,
        ),
        (
            "network_sent_bytes_total",
            "Bytes that were sent to clients.",
            &counters.sent,
        ),
        (
            "output_overflows_total",
            "Connections that were ended because they did not take their replies.",
            &counters.output_overflows,
        ),
        (
            "string_hits_total",
            "Strings that Redis clients asked for and that were there.",
            &store.hits,
        ),
        (
            "string_misses_total",
            "Strings that Redis clients asked for and that were not there.",
            &store.misses,
        ),
        (
            "item_gets_total",
            "Items that memcached clients asked for.",
            &counters.items_got,
        ),
        (
            "item_hits_total",
            "Items of those that were there.",
            &counters.items_hit,
        ),
        (
            "item_sets_total",
            "Items that memcached clients stored.",
            &counters.items_set,
        ),
    ] {
        text.one(name, Kind::Counter, help, counter.load(Ordering::Relaxed) as f64);
    }
}

fn operations(shared: &Shared, text: &mut Text) {
    use Kind::{Counter, Gauge};
    let stats = shared.store.db.stats();
    let done = &stats.operations;
    let kinds = [
        ("commit", done.commits),
        ("put", done.puts),
        ("delete", done.deletes),
        ("merge", done.merges),
        ("range_delete", done.range_deletes),
        ("get", done.gets),
        ("multi_get", done.multi_gets),
        ("multi_get_key", done.multi_get_keys),
        ("scan", done.scans),
        ("scanned_key", done.scanned),
    ];
    let kinds = kinds.map(|(name, count)| (name, count as f64));
    text.each(
        "operations_total",
        Counter,
        "Operations of the store, by kind.",
        "kind",
        &kinds,
    );
    let written = stats.written_bytes as f64;
    text.one(
        "user_written_bytes_total",
        Counter,
        "Bytes of keys and values that were written by users.",
        written,
    );
    let times = shared.store.db.distributions();
    text.family(
        "operation_duration_seconds",
        Kind::Histogram,
        "How long operations of the store took: one in 64 is timed, of durable commits every one.",
    );
    for (word, times) in [
        ("get", &times.get),
        ("multi_get", &times.multi_get),
        ("commit", &times.commit),
        ("durable_commit", &times.durable_commit),
    ] {
        text.histogram("operation_duration_seconds", "operation", word, times);
    }
    let ratios = [
        ("write", stats.write_amplification()),
        ("read", stats.read_amplification()),
        ("space", stats.space_amplification()),
    ];
    let known: Vec<(&str, f64)> = ratios
        .iter()
        .filter_map(|(name, ratio)| Some((*name, (*ratio)?)))
        .collect();
    text.each(
        "amplification_ratio",
        Gauge,
        "Bytes written to the device for each of the user's, device reads for each key looked up, bytes in use for each that something refers to; since the store was opened.",
        "kind",
        &known,
    );
}

fn device(shared: &Shared, text: &mut Text) {
    let stats = shared.store.db.stats();
    let counts = Purpose::ALL.map(|purpose| (purpose.name(), stats.device.of(purpose)));
    for (name, help, of) in [
        (
            "device_reads_total",
            "Reads of the device, by purpose.",
            (|counts: &DeviceCounts| counts.reads) as fn(&DeviceCounts) -> u64,
        ),
        (
            "device_writes_total",
            "Writes to the device, by purpose.",
            |counts| counts.writes,
        ),
        (
            "device_syncs_total",
            "Syncs of the device, by purpose.",
            |counts| counts.syncs,
        ),
        (
            "device_read_bytes_total",
            "Bytes read from the device, by purpose.",
            |counts| counts.read_bytes,
        ),
        (
            "device_written_bytes_total",
            "Bytes written to the device, by purpose.",
            |counts| counts.written_bytes,
        ),
    ] {
        let values = counts.map(|(purpose, counts)| (purpose, of(&counts) as f64));
        text.each(name, Kind::Counter, help, "purpose", &values);
    }
}

fn caches(shared: &Shared, text: &mut Text) {
    use Kind::{Counter, Gauge};
    let stats = shared.store.db.stats();
    let (pages, records) = (&stats.cache, &stats.records);
    let hits = [("pages", pages.hits as f64), ("records", records.hits as f64)];
    text.each(
        "cache_hits_total",
        Counter,
        "What was asked of a cache and in it.",
        "cache",
        &hits,
    );
    let misses = [
        ("pages", (pages.misses + pages.joined) as f64),
        ("records", records.misses as f64),
    ];
    text.each(
        "cache_misses_total",
        Counter,
        "What was asked of a cache and not in it.",
        "cache",
        &misses,
    );
    text.one(
        "cache_page_evictions_total",
        Counter,
        "Pages that made room for others.",
        pages.evictions as f64,
    );
    let memory = &stats.memory;
    let owners = [
        ("memtables", memory.memtables),
        ("log", memory.log),
        ("pages", memory.pages),
        ("records", memory.records),
        ("tree", memory.tree),
        ("tables", memory.tables),
        ("transactions", memory.transactions),
        ("clients", memory.beside),
    ];
    text.each(
        "memory_bytes",
        Gauge,
        "Memory that the store takes, by owner.",
        "owner",
        &owners.map(|(name, bytes)| (name, bytes as f64)),
    );
    text.one(
        "memory_budget_bytes",
        Gauge,
        "Memory that the store may take in all.",
        memory.budget as f64,
    );
}

fn space(shared: &Shared, text: &mut Text) {
    use Kind::{Counter, Gauge};
    let stats = shared.store.db.stats();
    let (space, log) = (&stats.space, &stats.log);
    let states = [
        ("live", space.live_bytes),
        ("dead", space.dead_bytes),
        ("free", space.free_bytes),
    ];
    let states = states.map(|(name, bytes)| (name, bytes as f64));
    text.each(
        "space_bytes",
        Gauge,
        "Bytes of the data files, by what they are.",
        "state",
        &states,
    );
    text.one(
        "data_file_bytes",
        Gauge,
        "How long the data files are, holes included.",
        space.file_bytes as f64,
    );
    text.one(
        "log_bytes",
        Gauge,
        "Bytes of the log that are not released.",
        log.live_bytes as f64,
    );
    text.one(
        "log_limit_bytes",
        Gauge,
        "Bytes that the log may have.",
        log.limit_bytes as f64,
    );
    text.one("log_syncs_total", Counter, "Syncs of the log.", log.syncs as f64);
}

fn work(shared: &Shared, text: &mut Text) {
    let stats = shared.store.db.stats();
    let tree = &stats.tree;
    for (name, help, value) in [
        (
            "writer_waits_total",
            "How often a writer came to a stop because the background was behind.",
            stats.waits as f64,
        ),
        (
            "writer_delay_seconds_total",
            "Seconds that writers were held back, a little at a time.",
            stats.delays.total_us() as f64 / 1e6,
        ),
        (
            "background_rest_seconds_total",
            "Seconds that compactions rested because of their caps.",
            stats.capped_us as f64 / 1e6,
        ),
        (
            "checkpoints_total",
            "Checkpoints that were made.",
            stats.checkpoints as f64,
        ),
        (
            "incorporations_total",
            "Memtables that were written out.",
            tree.incorporations as f64,
        ),
        (
            "incorporated_bytes_total",
            "Bytes of runs that were written from memtables.",
            tree.incorporated_bytes as f64,
        ),
        (
            "compacted_bytes_total",
            "Bytes of runs that compactions wrote.",
            tree.compacted_bytes as f64,
        ),
        ("flushes_total", "Flushes of the tree.", tree.shape.flushes as f64),
        (
            "splits_total",
            "Nodes of the tree that were cut.",
            (tree.shape.leaf_splits + tree.shape.index_splits) as f64,
        ),
    ] {
        text.one(name, Kind::Counter, help, value);
    }
}

fn due(shared: &Shared, text: &mut Text) {
    use Kind::Gauge;
    let stats = shared.store.db.stats();
    let debt = &stats.debt;
    let jobs = [
        ("pending", debt.pending_jobs as f64),
        ("running", debt.running_jobs as f64),
    ];
    text.each(
        "compactions",
        Gauge,
        "Compactions that are due and under way.",
        "state",
        &jobs,
    );
    let bytes = [
        ("pending", debt.pending_bytes as f64),
        ("running", debt.running_bytes as f64),
    ];
    text.each(
        "compaction_bytes",
        Gauge,
        "Bytes that compactions which are due and under way will read.",
        "state",
        &bytes,
    );
    for (name, help, value) in [
        (
            "sealed_memtables",
            "Memtables that wait to be written out.",
            stats.sealed_memtables as f64,
        ),
        ("tree_height", "Levels of the tree.", f64::from(stats.tree_height)),
        (
            "tree_runs",
            "The most runs that lie on the way of a lookup.",
            stats.tree_runs as f64,
        ),
        (
            "last_commit",
            "The number of the last commit that everybody sees.",
            shared.store.db.sequence() as f64,
        ),
    ] {
        text.one(name, Gauge, help, value);
    }
}
