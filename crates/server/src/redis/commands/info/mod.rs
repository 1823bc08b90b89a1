//! The INFO command, which reports server and store statistics.
//!
//! *Scope*: the sections of INFO, and the names of their fields.
//!
//! *Must not depend on*: how anything is counted; that is left to `observe/command_stats.rs`,
//! `observe/sampler.rs` and the store.

mod commands;
mod forecast;
mod keyspace;
mod server;
mod stats;

use crate::error::CommandError;
use crate::net::wait_hooks;
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::is;
use crate::redis::session::RedisSession;
use crate::shared::StoreContext;
use std::fmt::Write;

/// The Redis version reported to clients, which is the version whose commands this server
/// implements.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// When a section appears in the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SectionVisibility {
    /// The section appears when no section is requested by name.
    ByDefault,
    /// The section appears when `all` or `everything` is requested.
    WithAll,
    WithEverything,
}

struct InfoSection {
    name: &'static str,
    shown: SectionVisibility,
    write: fn(&StoreContext, &mut String),
}

const fn section(
    name: &'static str,
    shown: SectionVisibility,
    write: fn(&StoreContext, &mut String),
) -> InfoSection {
    InfoSection { name, shown, write }
}

static SECTIONS: [InfoSection; 14] = [
    section("Server", SectionVisibility::ByDefault, server::server),
    section("Clients", SectionVisibility::ByDefault, server::clients),
    section("Memory", SectionVisibility::ByDefault, server::memory),
    section("Persistence", SectionVisibility::ByDefault, server::persistence),
    section("Stats", SectionVisibility::ByDefault, stats::stats),
    section("Replication", SectionVisibility::ByDefault, stats::replication),
    section("CPU", SectionVisibility::ByDefault, stats::processor),
    section("Modules", SectionVisibility::WithEverything, |_, _| {}),
    section("Commandstats", SectionVisibility::WithAll, commands::commands),
    section("Errorstats", SectionVisibility::ByDefault, commands::errors),
    section("Latencystats", SectionVisibility::WithAll, commands::latencies),
    section("Cluster", SectionVisibility::ByDefault, stats::cluster),
    section("Keyspace", SectionVisibility::ByDefault, keyspace::keyspace),
    section("Forecast", SectionVisibility::WithEverything, forecast::forecast),
];

/// Returns whether the arguments of INFO request a section.
fn is_wanted(section: &InfoSection, args: Args<'_>) -> bool {
    let by_default = section.shown == SectionVisibility::ByDefault;
    args.len() == 1 && by_default
        || args.from(1).iter().any(|word| {
            is(word, section.name)
                || is(word, "everything")
                || (is(word, "all") && section.shown != SectionVisibility::WithEverything)
                || (is(word, "default") && by_default)
        })
}

pub(crate) fn info(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> Result<(), CommandError> {
    let _may_wait = wait_hooks::may_wait();
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

/// Appends a field of a section: its name and its value.
pub(crate) fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

/// Formats a size in bytes with a unit, such as `1.50M`.
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
