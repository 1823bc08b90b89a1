//! INFO's Server, Clients, Memory and Persistence sections.

use super::{REDIS_VERSION, human, line};
use crate::net::{ConnectionMemory, WireProtocol};
use crate::observe::process;
use crate::shared::StoreContext;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) fn server(shared: &StoreContext, text: &mut String) {
    let kernel = process::kernel().unwrap_or_default();
    let now_ms = shared.store.now_ms();
    let uptime = shared.since.elapsed().as_secs();
    line(text, "redis_version", REDIS_VERSION);
    line(text, "redis_git_sha1", "00000000");
    line(text, "redis_git_dirty", 0);
    line(
        text,
        "redis_build_id",
        format_args!("alluvium-{}", env!("CARGO_PKG_VERSION")),
    );
    line(text, "redis_mode", "standalone");
    line(text, "alluvium_version", env!("CARGO_PKG_VERSION"));
    line(text, "os", os(&kernel));
    line(text, "arch_bits", usize::BITS);
    line(
        text,
        "multiplexing_api",
        if cfg!(target_os = "linux") {
            "epoll"
        } else {
            "kqueue"
        },
    );
    line(text, "process_id", std::process::id());
    line(text, "process_supervised", "no");
    line(text, "run_id", &shared.run_id);
    line(text, "tcp_port", shared.redis_port);
    line(text, "server_time_usec", now_ms * 1000);
    line(text, "uptime_in_seconds", uptime);
    line(text, "uptime_in_days", uptime / 86_400);
    line(text, "hz", 10);
    line(text, "configured_hz", 10);
    line(text, "lru_clock", now_ms / 1000 % (1 << 24));
    let executable = std::env::current_exe().unwrap_or_default();
    line(text, "executable", executable.display());
    line(text, "config_file", "");
    line(text, "io_threads_active", 0);
}

fn os(kernel: &str) -> String {
    let name = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        other => other,
    };
    format!("{name} {kernel} {}", std::env::consts::ARCH)
}

pub(super) fn clients(shared: &StoreContext, text: &mut String) {
    let all = shared.clients.list();
    let spoken = |language| all.iter().filter(|client| client.language == language).count();
    let most = |of: fn(&ConnectionMemory) -> &AtomicUsize| {
        let bytes = all.iter().map(|client| of(&client.load).load(Ordering::Relaxed));
        bytes.max().unwrap_or(0)
    };
    line(text, "connected_clients", spoken(WireProtocol::Redis));
    line(text, "cluster_connections", 0);
    line(text, "maxclients", shared.config.max_clients());
    line(
        text,
        "client_recent_max_input_buffer",
        most(|load| &load.received),
    );
    line(text, "client_recent_max_output_buffer", most(|load| &load.unread));
    line(text, "blocked_clients", shared.waits.len());
    let subscribers = all.iter().filter(|client| client.is_subscriber()).count();
    line(text, "pubsub_clients", subscribers);
    line(text, "tracking_clients", 0);
    line(text, "clients_in_timeout_table", shared.waits.deadlines());
    line(text, "total_blocking_keys", shared.waits.keys());
    line(
        text,
        "alluvium_memcached_clients",
        spoken(WireProtocol::Memcached),
    );
    line(
        text,
        "alluvium_clients_waiting_for_memory",
        shared.budget.waiting(),
    );
}

pub(super) fn memory(shared: &StoreContext, text: &mut String) {
    let stats = shared.store.db.stats();
    let memory = &stats.memory;
    let used = shared.used_memory();
    let resident = process::resident_bytes().unwrap_or(used);
    let peak = shared.samples.peak_used(used);
    let system = process::system_bytes().unwrap_or(0);
    let clients = shared.client_bytes();
    let overhead = memory.tables + memory.log + clients;
    let percent = |part: u64, whole: u64| format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64);
    for (name, bytes) in [
        ("used_memory", used),
        ("used_memory_rss", resident),
        ("used_memory_peak", peak),
    ] {
        line(text, name, bytes);
        line(text, &format!("{name}_human"), human(bytes));
    }
    line(text, "used_memory_peak_perc", percent(used, peak));
    line(text, "used_memory_overhead", overhead.min(used));
    line(text, "used_memory_startup", memory.tables);
    line(text, "used_memory_dataset", used.saturating_sub(overhead));
    line(
        text,
        "used_memory_dataset_perc",
        percent(used.saturating_sub(overhead), used),
    );
    line(text, "total_system_memory", system);
    line(text, "total_system_memory_human", human(system));
    let (scripts, script_bytes, evicted) = shared.scripts.counts();
    line(text, "used_memory_scripts", script_bytes);
    for name in ["used_memory_lua", "used_memory_vm_eval"] {
        line(text, name, 0);
        line(text, &format!("{name}_human"), human(0));
    }
    line(text, "number_of_cached_scripts", scripts);
    line(text, "evicted_scripts", evicted);
    line(text, "maxmemory", memory.budget);
    line(text, "maxmemory_human", human(memory.budget));
    line(text, "maxmemory_policy", "noeviction");
    let ratio = resident as f64 / used.max(1) as f64;
    line(text, "mem_fragmentation_ratio", format_args!("{ratio:.2}"));
    line(text, "mem_fragmentation_bytes", resident as i64 - used as i64);
    line(text, "mem_not_counted_for_evict", 0);
    line(text, "mem_replication_backlog", 0);
    line(text, "mem_total_replication_buffers", 0);
    line(text, "mem_clients_slaves", 0);
    line(text, "mem_clients_normal", clients);
    line(text, "maxmemory_clients", shared.budget.limit());
    line(text, "mem_cluster_links", 0);
    line(text, "mem_aof_buffer", memory.log);
    line(text, "mem_allocator", "system");
    line(text, "active_defrag_running", 0);
    line(text, "lazyfree_pending_objects", 0);
    line(text, "lazyfreed_objects", 0);
    let cursors = shared.store.cursors.figures();
    line(text, "alluvium_scan_cursors", cursors.count);
    line(text, "alluvium_scan_cursor_bytes", cursors.bytes);
    line(text, "alluvium_memtables", memory.memtables);
    line(text, "alluvium_log", memory.log);
    line(text, "alluvium_page_cache", stats.cache.resident_bytes);
    line(text, "alluvium_page_cache_budget", memory.pages);
    line(text, "alluvium_record_cache", stats.records.used_bytes);
    line(text, "alluvium_record_cache_budget", memory.records);
    line(text, "alluvium_tree", memory.tree);
    line(text, "alluvium_tables", memory.tables);
}

pub(super) fn persistence(shared: &StoreContext, text: &mut String) {
    let stats = shared.store.db.stats();
    let sequence = shared.store.db.sequence();
    line(text, "loading", 0);
    line(text, "async_loading", 0);
    for (name, value) in shared.backups.lines(sequence) {
        line(text, name, value);
    }
    line(text, "rdb_last_save_time", shared.saved.load(Ordering::Relaxed));
    line(text, "rdb_last_cow_size", 0);
    line(text, "aof_enabled", 1);
    line(text, "aof_rewrite_in_progress", 0);
    line(text, "aof_rewrite_scheduled", 0);
    line(text, "aof_last_rewrite_time_sec", -1);
    line(text, "aof_current_rewrite_time_sec", -1);
    line(text, "aof_last_bgrewrite_status", "ok");
    line(text, "aof_last_write_status", "ok");
    line(text, "aof_last_cow_size", 0);
    line(text, "aof_current_size", stats.log.live_bytes);
    line(text, "aof_base_size", 0);
    line(text, "aof_pending_rewrite", 0);
    line(text, "aof_buffer_length", 0);
    line(text, "aof_rewrite_buffer_length", 0);
    line(text, "aof_pending_bio_fsync", 0);
    line(text, "aof_delayed_fsync", 0);
    line(
        text,
        "alluvium_durability",
        if shared.store.waits_for_disk() {
            "Disk"
        } else {
            "Process"
        },
    );
    line(text, "alluvium_checkpoints", stats.checkpoints);
    line(text, "alluvium_sequence", sequence);
    if let Ok(space) = shared.store.db.disk_space() {
        line(text, "alluvium_disk_free", space.free_bytes);
        line(text, "alluvium_disk_total", space.total_bytes);
    }
}
