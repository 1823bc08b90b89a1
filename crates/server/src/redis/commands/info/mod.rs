//! INFO: statistics of the server and the store.
//!
//! *Knows*: the sections and the names of their fields.
//!
//! *Does not know*: how anything is counted; that is left to `observe/command_stats.rs`,
//! `observe/sampler.rs` and the store.
//!
//! *Read in this order*: this file, `server.rs`, `stats.rs`, `commands.rs`, `keyspace.rs`,
//! `forecast.rs`.

mod commands;
mod forecast;
mod keyspace;
mod server;
mod stats;

use crate::error::Failure;
use crate::net::waits;
use crate::protocol::resp::{Args, Reply};
use crate::redis::args::is;
use crate::redis::session::Session;
use crate::shared::Shared;
use std::fmt::Write;

/// The Redis version reported to clients: that of the implemented commands.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// When a section is included.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// If no section is requested explicitly.
    ByDefault,
    /// With `all` and `everything`.
    WithAll,
    /// With `everything`.
    WithEverything,
}

struct Section {
    name: &'static str,
    shown: Shown,
    write: fn(&Shared, &mut String),
}

const fn section(name: &'static str, shown: Shown, write: fn(&Shared, &mut String)) -> Section {
    Section { name, shown, write }
}

static SECTIONS: [Section; 14] = [
    section("Server", Shown::ByDefault, server::server),
    section("Clients", Shown::ByDefault, server::clients),
    section("Memory", Shown::ByDefault, server::memory),
    section("Persistence", Shown::ByDefault, server::persistence),
    section("Stats", Shown::ByDefault, stats::stats),
    section("Replication", Shown::ByDefault, stats::replication),
    section("CPU", Shown::ByDefault, stats::processor),
    section("Modules", Shown::WithEverything, |_, _| {}),
    section("Commandstats", Shown::WithAll, commands::commands),
    section("Errorstats", Shown::ByDefault, commands::errors),
    section("Latencystats", Shown::WithAll, commands::latencies),
    section("Cluster", Shown::ByDefault, stats::cluster),
    section("Keyspace", Shown::ByDefault, keyspace::keyspace),
    section("Forecast", Shown::WithEverything, forecast::forecast),
];

/// Returns whether the arguments of INFO select a section.
fn is_wanted(section: &Section, args: Args<'_>) -> bool {
    let by_default = section.shown == Shown::ByDefault;
    args.len() == 1 && by_default
        || args.from(1).iter().any(|word| {
            is(word, section.name)
                || is(word, "everything")
                || (is(word, "all") && section.shown != Shown::WithEverything)
                || (is(word, "default") && by_default)
        })
}

pub(crate) fn info(session: &mut Session, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Failure> {
    let _may_wait = waits::may_wait();
    let mut text = String::new();
    for section in SECTIONS.iter().filter(|section| is_wanted(section, args)) {
        if !text.is_empty() {
            text += "\r\n";
        }
        let _ = write!(text, "# {}\r\n", section.name);
        (section.write)(&session.shared, &mut text);
    }
    reply.verbatim(&text);
    Ok(())
}

/// Writes a field of a section.
pub(crate) fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

/// Formats a size for people: `1.50M`.
pub(crate) fn human(bytes: u64) -> String {
    let mut amount = bytes as f64;
    for unit in ["B", "K", "M", "G", "T"] {
        if amount < 1024.0 || unit == "T" {
            return match unit {
                "B" => format!("{bytes}B"),
                _ => format!("{amount:.2}{unit}"),
            };
        }
        amount /= 1024.0;
    }
    unreachable!("the last unit takes whatever is left")
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn bytes_are_shown_as_redis_shows_them() {
        assert_eq!(human(0), "0B");
        assert_eq!(human(1023), "1023B");
        assert_eq!(human(1536), "1.50K");
        assert_eq!(human(64 << 20), "64.00M");
        assert_eq!(human(u64::MAX), "16777216.00T");
    }
}
