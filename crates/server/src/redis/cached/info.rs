//! The INFO command for a cache.

use super::super::args::is;
use super::session::CachedSession;
use crate::cache::CacheContext;
use crate::error::CommandError;
use crate::net::WireProtocol;
use crate::observe::process;
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::commands::info::{REDIS_VERSION, human, line};
use std::fmt::Write;
use std::sync::atomic::Ordering;

type CacheInfoSection = (&'static str, fn(&CacheContext, &mut String));

static SECTIONS: [CacheInfoSection; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", |_, text| line(text, "loading", 0)),
    ("Stats", stats),
    ("Replication", |_, text| {
        line(text, "role", "master");
        line(text, "connected_slaves", 0);
    }),
    ("CPU", processor),
    ("Keyspace", keyspace),
];

pub(super) fn info(
    session: &mut CachedSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> Result<(), CommandError> {
    let mut text = String::new();
    for (name, write) in &SECTIONS {
        let mut words = args.from(1).iter();
        let is_wanted = args.len() == 1
            || words.any(|word| {
                let all = ["all", "default", "everything"];
                is(word, name) || all.iter().any(|all| is(word, all))
            });
        if is_wanted {
            if !text.is_empty() {
                text += "\r\n";
            }
            let _ = write!(text, "# {name}\r\n");
            write(&session.cached, &mut text);
        }
    }
    reply.verbatim(&text);
    Ok(())
}

fn server(cached: &CacheContext, text: &mut String) {
    let CacheContext { common, content } = cached;
    let uptime = common.since.elapsed().as_secs();
    line(text, "redis_version", REDIS_VERSION);
    line(text, "redis_mode", "standalone");
    line(text, "alluvium_version", env!("CARGO_PKG_VERSION"));
    line(text, "alluvium_mode", "cache");
    line(text, "arch_bits", usize::BITS);
    line(text, "process_id", std::process::id());
    line(text, "run_id", &common.run_id);
    line(text, "tcp_port", common.redis_port);
    line(text, "server_time_usec", content.now_ms() * 1000);
    line(text, "uptime_in_seconds", uptime);
    line(text, "uptime_in_days", uptime / 86_400);
}

fn clients(cached: &CacheContext, text: &mut String) {
    let all = cached.common.clients.list();
    let spoken = |language| all.iter().filter(|client| client.language == language).count();
    line(text, "connected_clients", spoken(WireProtocol::Redis));
    line(text, "maxclients", cached.common.config.max_clients());
    line(
        text,
        "alluvium_memcached_clients",
        spoken(WireProtocol::Memcached),
    );
}

fn memory(cached: &CacheContext, text: &mut String) {
    let figures = cached.content.figures();
    let bytes = cached.content.memory.bytes;
    line(text, "used_memory", figures.item_bytes);
    line(text, "used_memory_human", human(figures.item_bytes));
    line(
        text,
        "used_memory_rss",
        process::resident_bytes().unwrap_or(figures.item_bytes),
    );
    line(text, "maxmemory", bytes);
    line(text, "maxmemory_human", human(bytes));
    line(text, "maxmemory_policy", cached.content.memory.policy.name());
    line(text, "mem_clients_normal", cached.common.client_bytes());
}

fn stats(cached: &CacheContext, text: &mut String) {
    let counters = &cached.common.counters;
    let figures = cached.content.figures();
    for (name, counter) in [
        ("total_connections_received", &counters.connections),
        ("total_commands_processed", &counters.commands),
        ("total_net_input_bytes", &counters.received),
        ("total_net_output_bytes", &counters.sent),
        ("rejected_connections", &counters.rejected),
        ("total_error_replies", &counters.errors),
    ] {
        line(text, name, counter.load(Ordering::Relaxed));
    }
    line(text, "keyspace_hits", figures.hits);
    line(text, "keyspace_misses", figures.gets.saturating_sub(figures.hits));
    line(text, "evicted_keys", figures.evictions);
}

fn processor(_cached: &CacheContext, text: &mut String) {
    let times = process::processor_time();
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    line(text, "used_cpu_sys", seconds(times.system_us));
    line(text, "used_cpu_user", seconds(times.user_us));
}

/// Adds the Keyspace section. Its keys include items that memcached clients have stored.
fn keyspace(cached: &CacheContext, text: &mut String) {
    let items = cached.content.figures().items;
    if items > 0 {
        line(text, "db0", format_args!("keys={items},expires=0,avg_ttl=0"));
    }
}
