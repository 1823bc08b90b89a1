//! `stats` for a cache.

use super::super::request::MemcachedRequest;
use super::super::stats::{StatsLines, VERSION, counted};
use crate::cache::CacheContext;
use crate::error::CommandError;
use crate::net::WireProtocol;
use crate::observe::process;
use std::sync::atomic::Ordering;

pub(super) fn stats(
    request: &MemcachedRequest<'_>,
    cached: &CacheContext,
    output: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let mut lines = StatsLines::default();
    match request.word(1) {
        b"" => general(cached, &mut lines),
        b"reset" => {
            let counters = &cached.common.counters;
            for (_, counter) in counted(&cached.common).into_iter().chain(counters.items.all()) {
                counter.store(0, Ordering::Relaxed);
            }
            output.extend_from_slice(b"RESET\r\n");
            return Ok(());
        }
        b"settings" => settings(cached, &mut lines),
        b"items" => items(cached, &mut lines),
        b"slabs" => {
            lines.line("active_slabs", 0);
            lines.line("total_malloced", cached.content.memory.bytes);
        }
        b"sizes" => lines.line("sizes_status", "disabled"),
        b"conns" => lines.connections(&cached.common),
        _ => return Err(CommandError::say("ERROR")),
    }
    lines.end(output);
    Ok(())
}

fn general(cached: &CacheContext, lines: &mut StatsLines) {
    let CacheContext { common, content } = cached;
    let times = process::processor_time();
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let clients = common.clients.list();
    let mine = clients
        .iter()
        .filter(|client| client.language == WireProtocol::Memcached);
    let mine = mine.count();
    let figures = content.figures();
    lines.line("pid", std::process::id());
    lines.line("uptime", common.since.elapsed().as_secs());
    lines.line("time", content.now_ms() / 1000);
    lines.line("version", VERSION);
    lines.line("pointer_size", usize::BITS);
    lines.line("rusage_user", seconds(times.user_us));
    lines.line("rusage_system", seconds(times.system_us));
    lines.line("max_connections", common.config.max_clients());
    lines.line("curr_connections", mine);
    lines.line("connection_structures", mine);
    for (name, counter) in counted(common).into_iter().chain(common.counters.items.all()) {
        lines.line(name, counter.load(Ordering::Relaxed));
    }
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (got, hit) = (
        count(&common.counters.items_got),
        count(&common.counters.items_hit),
    );
    lines.line("get_misses", got.saturating_sub(hit));
    lines.line("accepting_conns", 1);
    lines.line("threads", common.loops);
    lines.line("limit_maxbytes", content.memory.bytes);
    lines.line("bytes", figures.item_bytes);
    lines.line("curr_items", figures.items);
    lines.line("evictions", figures.evictions);
}

fn settings(cached: &CacheContext, lines: &mut StatsLines) {
    let CacheContext { common, content } = cached;
    let yes = |is: bool| if is { "yes" } else { "no" };
    lines.line("maxbytes", content.memory.bytes);
    lines.line("maxconns", common.config.max_clients());
    lines.line("tcpport", common.memcached_port);
    lines.line("udpport", 0);
    lines.line("evictions", "on");
    lines.line("eviction_policy", content.memory.policy.name());
    lines.line("num_threads", common.loops);
    lines.line("cas_enabled", "yes");
    lines.line("auth_enabled_ascii", yes(!common.access.is_open()));
    lines.line("item_size_max", content.most_value_bytes());
    lines.line("flush_enabled", "yes");
    lines.line("lru_crawler", "no");
    lines.line("binding_protocol", "ascii");
}

/// Adds item statistics. All items are reported in one slab class.
fn items(cached: &CacheContext, lines: &mut StatsLines) {
    let figures = cached.content.figures();
    if figures.items == 0 {
        return;
    }
    lines.line("items:1:number", figures.items);
    lines.line("items:1:mem_requested", figures.item_bytes);
    lines.line("items:1:evicted", figures.evictions);
}
