//! INFO: what the server and the store are doing, in numbers.

use super::args::is;
use super::session::Session;
use crate::error::Failure;
use crate::model::format;
use crate::resp::{Args, Reply};
use crate::shared::Shared;
use crate::store::DATABASES;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// The version of Redis whose commands these are, for clients that ask.
pub(super) const REDIS_VERSION: &str = "7.0.15";

type Section = (&'static str, fn(&Shared, &mut String));

static SECTIONS: [Section; 6] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Keyspace", keyspace),
];

pub(super) fn info(session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Failure> {
    let all = ["all", "default", "everything"];
    let wants = |name: &str| {
        args.len() == 1
            || args
                .from(1)
                .iter()
                .any(|word| is(word, name) || all.iter().any(|other| is(word, other)))
    };
    let mut text = String::new();
    for (name, write) in SECTIONS.iter().filter(|(name, _)| wants(name)) {
        if !text.is_empty() {
            text += "\r\n";
        }
        let _ = write!(text, "# {name}\r\n");
        write(&session.shared, &mut text);
    }
    reply.verbatim(&text);
    Ok(())
}

/// A line of a section.
fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

fn server(shared: &Shared, text: &mut String) {
    line(text, "redis_version", REDIS_VERSION);
    line(text, "redis_mode", "standalone");
    line(text, "alluvium_version", env!("CARGO_PKG_VERSION"));
    line(text, "os", std::env::consts::OS);
    line(text, "arch_bits", usize::BITS);
    line(text, "process_id", std::process::id());
    line(text, "tcp_port", shared.redis_port);
    let uptime = shared.since.elapsed().as_secs();
    line(text, "uptime_in_seconds", uptime);
    line(text, "uptime_in_days", uptime / 86_400);
}

fn clients(shared: &Shared, text: &mut String) {
    line(text, "connected_clients", shared.clients.len());
    line(text, "maxclients", shared.config.max_clients());
    line(text, "blocked_clients", 0);
}

fn memory(shared: &Shared, text: &mut String) {
    let memory = shared.store.db.stats().memory;
    line(text, "maxmemory", memory.budget);
    line(text, "maxmemory_policy", "noeviction");
    line(text, "used_memory", memory.total());
    line(text, "alluvium_memtables", memory.memtables);
    line(text, "alluvium_log", memory.log);
    line(text, "alluvium_page_cache", memory.pages);
    line(text, "alluvium_record_cache", memory.records);
    line(text, "alluvium_tree", memory.tree);
}

fn persistence(shared: &Shared, text: &mut String) {
    let stats = shared.store.db.stats();
    line(text, "loading", 0);
    for (name, value) in shared.backups.lines(shared.store.db.sequence()) {
        line(text, name, value);
    }
    line(text, "rdb_last_save_time", shared.saved.load(Ordering::Relaxed));
    line(text, "aof_enabled", 1);
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
    line(text, "alluvium_sequence", shared.store.db.sequence());
}

fn stats(shared: &Shared, text: &mut String) {
    let counters = &shared.counters;
    let stats = shared.store.db.stats();
    for (name, value) in [
        ("total_connections_received", &counters.connections),
        ("total_commands_processed", &counters.commands),
        ("total_net_input_bytes", &counters.received),
        ("total_net_output_bytes", &counters.sent),
        ("rejected_connections", &counters.rejected),
        ("total_error_replies", &counters.errors),
        (
            "client_output_buffer_limit_disconnections",
            &counters.output_overflows,
        ),
        ("alluvium_panics", &counters.panics),
        ("keyspace_hits", &shared.store.hits),
        ("keyspace_misses", &shared.store.misses),
    ] {
        line(text, name, value.load(Ordering::Relaxed));
    }
    line(text, "alluvium_writes", stats.writes);
    line(text, "alluvium_written_bytes", stats.written_bytes);
    line(text, "alluvium_waits", stats.waits);
    line(text, "alluvium_sealed_memtables", stats.sealed_memtables);
}

/// The keys of a database that are counted one by one.
const COUNTED: usize = 256;

/// Which databases hold anything, and how many keys: of many keys about how many, for counting them would read them all, as DBSIZE does.
fn keyspace(shared: &Shared, text: &mut String) {
    for database in 0..DATABASES {
        let (start, end) = format::records(database);
        let few = shared.store.data.range(&start[..]..&end[..]).take(COUNTED);
        let counted = few.take_while(Result::is_ok).count();
        let about = match counted {
            COUNTED => shared.store.data.approximate_len_of(&start[..]..&end[..]),
            _ => Ok(0),
        };
        let keys = about.unwrap_or_default().max(counted as u64);
        if keys > 0 {
            line(text, &format!("db{database}"), format!("keys={keys}"));
        }
    }
}
