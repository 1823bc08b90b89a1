//! INFO's Stats, Replication, CPU and Cluster sections.

use super::line;
use crate::observe::process;
use crate::shared::StoreContext;
use std::sync::atomic::Ordering;

/// Redis fields that are always zero here, because they describe features that this server does not
/// have.
const NOTHING: [&str; 23] = [
    "sync_full",
    "sync_partial_ok",
    "sync_partial_err",
    "expired_time_cap_reached_count",
    "expire_cycle_cpu_milliseconds",
    "evicted_keys",
    "total_eviction_exceeded_time",
    "current_eviction_exceeded_time",
    "latest_fork_usec",
    "total_forks",
    "migrate_cached_sockets",
    "slave_expires_tracked_keys",
    "active_defrag_hits",
    "active_defrag_misses",
    "active_defrag_key_hits",
    "active_defrag_key_misses",
    "total_active_defrag_time",
    "current_active_defrag_time",
    "tracking_total_keys",
    "tracking_total_items",
    "tracking_total_prefixes",
    "unexpected_error_replies",
    "dump_payload_sanitizations",
];

pub(super) fn stats(shared: &StoreContext, text: &mut String) {
    let counters = &shared.counters;
    let store = &shared.store;
    let rates = shared.samples.rates();
    for (name, value) in [
        ("total_connections_received", &counters.connections),
        ("total_commands_processed", &counters.commands),
        ("total_net_input_bytes", &counters.received),
        ("total_net_output_bytes", &counters.sent),
        ("total_reads_processed", &counters.reads),
        ("total_writes_processed", &counters.writes),
        ("rejected_connections", &counters.rejected),
        ("total_error_replies", &counters.errors),
        (
            "client_output_buffer_limit_disconnections",
            &counters.output_overflows,
        ),
        ("evicted_clients", &counters.evicted),
        ("alluvium_memory_refusals", &counters.memory_refusals),
        ("alluvium_idle_disconnections", &counters.timed_out),
        ("keyspace_hits", &store.hits),
        ("keyspace_misses", &store.misses),
    ] {
        line(text, name, value.load(Ordering::Relaxed));
    }
    line(text, "expired_keys", store.expiring.expired_keys());
    line(
        text,
        "instantaneous_ops_per_sec",
        format_args!("{:.0}", rates.commands),
    );
    let kib = |bytes: f64| format!("{:.2}", bytes / 1024.0);
    line(text, "instantaneous_input_kbps", kib(rates.received_bytes));
    line(text, "instantaneous_output_kbps", kib(rates.sent_bytes));
    line(text, "instantaneous_input_repl_kbps", "0.00");
    line(text, "instantaneous_output_repl_kbps", "0.00");
    line(text, "expired_stale_perc", "0.00");
    for name in NOTHING {
        line(text, name, 0);
    }
    let [channels, patterns, shards] = shared.subscriptions.counts();
    line(text, "pubsub_channels", channels);
    line(text, "pubsub_patterns", patterns);
    line(text, "pubsubshard_channels", shards);
    let stats = store.db.stats();
    line(text, "alluvium_panics", counters.panics.load(Ordering::Relaxed));
    line(text, "alluvium_writes", stats.writes);
    line(text, "alluvium_written_bytes", stats.written_bytes);
    line(text, "alluvium_waits", stats.waits);
    line(text, "alluvium_sealed_memtables", stats.sealed_memtables);
    let transactions = &stats.transactions;
    line(text, "alluvium_transactions_open", transactions.open);
    line(text, "alluvium_transactions_oldest_ms", transactions.oldest_ms);
    line(text, "alluvium_transactions_bytes", stats.memory.transactions);
    line(text, "alluvium_snapshots", stats.snapshots);
    line(text, "alluvium_held_commits", stats.held_commits);
    if let Some(ratio) = stats.write_amplification() {
        line(text, "alluvium_write_amplification", format_args!("{ratio:.2}"));
    }
}

pub(super) fn replication(shared: &StoreContext, text: &mut String) {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
    line(text, "master_failover_state", "no-failover");
    line(text, "master_replid", &shared.run_id);
    line(text, "master_replid2", "0".repeat(40));
    line(text, "master_repl_offset", shared.store.db.sequence());
    line(text, "second_repl_offset", -1);
    line(text, "repl_backlog_active", 0);
    line(text, "repl_backlog_size", 0);
    line(text, "repl_backlog_first_byte_offset", 0);
    line(text, "repl_backlog_histlen", 0);
}

pub(super) fn processor(_shared: &StoreContext, text: &mut String) {
    let times = process::processor_time();
    for (name, us) in [
        ("used_cpu_sys", times.system_us),
        ("used_cpu_user", times.user_us),
        ("used_cpu_sys_children", times.children_system_us),
        ("used_cpu_user_children", times.children_user_us),
    ] {
        line(text, name, format_args!("{:.6}", us as f64 / 1e6));
    }
}

pub(super) fn cluster(_shared: &StoreContext, text: &mut String) {
    line(text, "cluster_enabled", 0);
}
