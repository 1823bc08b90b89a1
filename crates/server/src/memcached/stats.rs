//! What the server has done, in the words of memcached.

use super::request::Request;
use crate::error::Failure;
use crate::shared::Shared;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// The version of memcached whose protocol this is, and whose it really is.
pub(super) const VERSION: &str = concat!("1.6.18-alluvium-", env!("CARGO_PKG_VERSION"));

pub(super) fn stats(request: &Request<'_>, shared: &Shared, output: &mut Vec<u8>) -> Result<(), Failure> {
    let counters = &shared.counters;
    let all = [
        ("total_connections", &counters.connections),
        ("rejected_connections", &counters.rejected),
        ("cmd_get", &counters.items_got),
        ("cmd_set", &counters.items_set),
        ("cmd_flush", &counters.item_flushes),
        ("cmd_touch", &counters.items_touched),
        ("get_hits", &counters.items_hit),
        ("bytes_read", &counters.received),
        ("bytes_written", &counters.sent),
    ];
    match request.word(1) {
        b"" => {}
        b"reset" => {
            for (_, counter) in all {
                counter.store(0, Ordering::Relaxed);
            }
            output.extend_from_slice(b"RESET\r\n");
            return Ok(());
        }
        // Slabs and their kin are memcached's own; there is nothing to say about them.
        b"settings" | b"items" | b"slabs" | b"sizes" | b"conns" => {
            output.extend_from_slice(b"END\r\n");
            return Ok(());
        }
        _ => return Err(Failure::say("ERROR")),
    }
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let _ = write!(text, "STAT {name} {value}\r\n");
    };
    line("pid", &std::process::id());
    line("uptime", &shared.since.elapsed().as_secs());
    line("time", &(shared.store.now_ms() / 1000));
    line("version", &VERSION);
    line("pointer_size", &usize::BITS);
    line("curr_connections", &shared.clients.len());
    line("max_connections", &shared.config.max_clients());
    for (name, counter) in all {
        line(name, &counter.load(Ordering::Relaxed));
    }
    let got = counters.items_got.load(Ordering::Relaxed);
    let hit = counters.items_hit.load(Ordering::Relaxed);
    line("get_misses", &got.saturating_sub(hit));
    line("limit_maxbytes", &shared.store.db.stats().memory.budget);
    text += "END\r\n";
    output.extend_from_slice(text.as_bytes());
    Ok(())
}
