//! The `stats` command, which reports server statistics under memcached's names.

use super::request::{MemcachedRequest, number};
use crate::error::CommandError;
use crate::net::{WireProtocol, wait_hooks};
use crate::observe::process;
use crate::shared::{ServerContext, StoreContext};
use crate::store::model::format;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// The memcached version whose protocol this server implements, followed by the server's own
/// version.
pub(super) const VERSION: &str = concat!("1.6.18-alluvium-", env!("CARGO_PKG_VERSION"));

/// Maximum number of items to count exactly. Beyond it, their number is estimated.
const COUNTED: usize = 4096;

/// Maximum size of the reply to `stats cachedump` in bytes, as in memcached.
const MOST_DUMPED: usize = 2 << 20;

/// memcached counters that are always zero here, because they count features that this server does
/// not have.
const NOTHING: [&str; 17] = [
    "evictions",
    "reclaimed",
    "evicted_unfetched",
    "evicted_active",
    "expired_unfetched",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "direct_reclaims",
    "store_too_large",
    "store_no_memory",
    "get_flushed",
    "malloc_fails",
    "conn_yields",
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    "lru_crawler_running",
];

/// The lines of a reply to `stats`.
#[derive(Default)]
pub(super) struct StatsLines(String);

impl StatsLines {
    pub(super) fn line(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.0, "STAT {name} {value}\r\n");
    }

    /// Adds lines that describe all connections.
    pub(super) fn connections(&mut self, shared: &ServerContext) {
        let clients = shared.clients.list();
        for client in clients
            .iter()
            .filter(|client| client.language == WireProtocol::Memcached)
        {
            let number = client.descriptor.load(Ordering::Relaxed);
            let age_ms = client.since.elapsed().as_millis() as u64;
            let idle_ms = age_ms.saturating_sub(client.last_ms.load(Ordering::Relaxed));
            self.line(&format!("{number}:addr"), client.peer.with_kind());
            self.line(&format!("{number}:listen_addr"), client.local.with_kind());
            self.line(&format!("{number}:state"), "conn_read");
            self.line(&format!("{number}:secs_since_last_cmd"), idle_ms / 1000);
        }
    }

    pub(super) fn end(mut self, output: &mut Vec<u8>) {
        self.0 += "END\r\n";
        output.extend_from_slice(self.0.as_bytes());
    }
}

/// Returns the names and counters that `stats` reports and `stats reset` resets.
pub(super) fn counted(shared: &ServerContext) -> [(&'static str, &AtomicU64); 9] {
    let counters = &shared.counters;
    [
        ("total_connections", &counters.connections),
        ("rejected_connections", &counters.rejected),
        ("cmd_get", &counters.items_got),
        ("cmd_set", &counters.items_set),
        ("cmd_flush", &counters.item_flushes),
        ("cmd_touch", &counters.items_touched),
        ("get_hits", &counters.items_hit),
        ("bytes_read", &counters.received),
        ("bytes_written", &counters.sent),
    ]
}

pub(super) fn stats(
    request: &MemcachedRequest<'_>,
    shared: &StoreContext,
    output: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let _may_wait = wait_hooks::may_wait();
    let mut lines = StatsLines::default();
    match request.word(1) {
        b"" => general(shared, &mut lines)?,
        b"reset" => {
            for (_, counter) in counted(shared).into_iter().chain(shared.counters.items.all()) {
                counter.store(0, Ordering::Relaxed);
            }
            output.extend_from_slice(b"RESET\r\n");
            return Ok(());
        }
        b"settings" => settings(shared, &mut lines),
        b"items" => items(shared, &mut lines)?,
        b"slabs" => {
            lines.line("active_slabs", 0);
            lines.line("total_malloced", shared.used_memory());
        }
        b"sizes" => lines.line("sizes_status", "disabled"),
        b"conns" => lines.connections(shared),
        b"cachedump" => return dump(request, shared, output),
        _ => return Err(CommandError::say("ERROR")),
    }
    lines.end(output);
    Ok(())
}

fn general(shared: &StoreContext, lines: &mut StatsLines) -> Result<(), CommandError> {
    let counters = &shared.counters;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let times = process::processor_time();
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let clients = shared.clients.list();
    let mine = clients
        .iter()
        .filter(|client| client.language == WireProtocol::Memcached);
    let mine = mine.count();
    let (items, bytes) = content(shared)?;
    lines.line("pid", std::process::id());
    lines.line("uptime", shared.since.elapsed().as_secs());
    lines.line("time", shared.store.now_ms() / 1000);
    lines.line("version", VERSION);
    lines.line("pointer_size", usize::BITS);
    lines.line("rusage_user", seconds(times.user_us));
    lines.line("rusage_system", seconds(times.system_us));
    lines.line("max_connections", shared.config.max_clients());
    lines.line("curr_connections", mine);
    lines.line("connection_structures", mine);
    for (name, counter) in counted(shared).into_iter().chain(counters.items.all()) {
        lines.line(name, count(counter));
    }
    let misses = count(&counters.items_got).saturating_sub(count(&counters.items_hit));
    lines.line("get_misses", misses);
    lines.line("accepting_conns", 1);
    lines.line("threads", shared.loops);
    lines.line("limit_maxbytes", shared.store.db.stats().memory.budget);
    lines.line("bytes", bytes);
    lines.line("curr_items", items);
    for name in NOTHING {
        lines.line(name, 0);
    }
    Ok(())
}

/// Returns the number of items, and the total size of their keys and values in bytes. Counts a
/// small number of items; otherwise estimates both values from the first items.
fn content(shared: &StoreContext) -> Result<(u64, u64), CommandError> {
    let store = &shared.store;
    let now_ms = store.now_ms();
    let (mut looked_at, mut found, mut bytes) = (0u64, 0u64, 0u64);
    for pair in store.items.unordered().take(COUNTED) {
        let (key, stored) = pair?;
        looked_at += 1;
        let item = format::decode_item(&stored)?;
        if item.expires_ms == 0 || item.expires_ms > now_ms {
            found += 1;
            bytes += (key.len() + stored.len()) as u64;
        }
    }
    if looked_at < COUNTED as u64 {
        return Ok((found, bytes));
    }
    let all = u128::from(store.items.approximate_len()?.max(looked_at));
    let share = |part: u64| (all * u128::from(part) / u128::from(looked_at)) as u64;
    Ok((share(found), share(bytes)))
}

fn settings(shared: &StoreContext, lines: &mut StatsLines) {
    let yes = |is: bool| if is { "yes" } else { "no" };
    lines.line("maxbytes", shared.store.db.stats().memory.budget);
    lines.line("maxconns", shared.config.max_clients());
    lines.line("tcpport", shared.memcached_port);
    lines.line("udpport", 0);
    lines.line("inter", "NULL");
    lines.line("verbosity", 0);
    lines.line("oldest", 0);
    lines.line("evictions", "off");
    lines.line("domain_socket", "NULL");
    lines.line("num_threads", shared.loops);
    lines.line("detail_enabled", "no");
    lines.line("cas_enabled", "yes");
    lines.line("auth_enabled_sasl", "no");
    lines.line("auth_enabled_ascii", yes(!shared.access.is_open()));
    lines.line("item_size_max", shared.config.limits.request);
    lines.line("maxconns_fast", "yes");
    lines.line("flush_enabled", "yes");
    lines.line("shutdown_command", "no");
    lines.line("dump_enabled", "yes");
    lines.line("lru_crawler", "no");
    lines.line("idle_timeout", 0);
    lines.line("binding_protocol", "ascii");
}

/// Adds item statistics. All items are reported in one slab class.
fn items(shared: &StoreContext, lines: &mut StatsLines) -> Result<(), CommandError> {
    let (items, bytes) = content(shared)?;
    if items == 0 {
        return Ok(());
    }
    lines.line("items:1:number", items);
    lines.line("items:1:mem_requested", bytes);
    for name in [
        "evicted",
        "evicted_nonzero",
        "evicted_time",
        "outofmemory",
        "tailrepairs",
        "reclaimed",
        "expired_unfetched",
        "evicted_unfetched",
    ] {
        lines.line(&format!("items:1:{name}"), 0);
    }
    Ok(())
}

/// Executes `stats cachedump 1 count`, which lists some items. All items belong to slab class 1.
fn dump(
    request: &MemcachedRequest<'_>,
    shared: &StoreContext,
    output: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let bad = CommandError::say("CLIENT_ERROR bad command line format");
    let (Some(class), Some(most)) = (number::<u32>(request.word(2)), number::<u32>(request.word(3))) else {
        return Err(bad);
    };
    let most = if most == 0 { usize::MAX } else { most as usize };
    let (start, now_ms) = (output.len(), shared.store.now_ms());
    let mut count = 0;
    for pair in shared.store.items.unordered() {
        if class != 1 || count == most || output.len() - start > MOST_DUMPED {
            break;
        }
        let (key, stored) = pair?;
        let item = format::decode_item(&stored)?;
        if item.expires_ms != 0 && item.expires_ms <= now_ms {
            continue;
        }
        count += 1;
        output.extend_from_slice(b"ITEM ");
        output.extend_from_slice(&key);
        let text = format!(" [{} b; {} s]\r\n", item.value.len(), item.expires_ms / 1000);
        output.extend_from_slice(text.as_bytes());
    }
    output.extend_from_slice(b"END\r\n");
    Ok(())
}
