//! Commands for server administration: settings, durability, and the slow log.

use super::foreign_settings;
use super::limits;
use crate::access::glob;
use crate::error::{CommandError, CommandResult};
use crate::net::wait_hooks;
use crate::observe::log_level::LogLevel;
use crate::protocol::resp::{Args, ReplyWriter, number};
use crate::redis::args::{double, integer};
use crate::redis::session::RedisSession;
use crate::redis::subcommands::unknown_subcommand;
use crate::shared::StoreContext;
use crate::store::WriteDurability;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A setting: its name, the function that reads it, and, if it can be changed, the function that
/// does so.
struct ConfigParameter {
    name: &'static str,
    read: fn(&StoreContext) -> String,
    change: Option<fn(&StoreContext, &[u8]) -> CommandResult>,
}

const fn fixed(name: &'static str, read: fn(&StoreContext) -> String) -> ConfigParameter {
    let change = None;
    ConfigParameter { name, read, change }
}

const fn setting(
    name: &'static str,
    read: fn(&StoreContext) -> String,
    change: fn(&StoreContext, &[u8]) -> CommandResult,
) -> ConfigParameter {
    let change = Some(change);
    ConfigParameter { name, read, change }
}

#[rustfmt::skip]
static SETTINGS: &[ConfigParameter] = &[
    setting("acllog-max-len", |shared| shared.access.denied.kept().to_string(), |shared, text| {
        shared.access.denied.keep(usize::try_from(integer(text)?).map_err(|_| CommandError::NOT_INTEGER)?);
        Ok(())
    }),
    fixed("appendonly", |_| "yes".to_owned()),
    setting("appendfsync", |shared| if shared.store.waits_for_disk() { "always" } else { "everysec" }.to_owned(), |shared, text| {
        let waits = match text.to_ascii_lowercase().as_slice() {
            b"always" => WriteDurability::ForDisk,
            b"everysec" => WriteDurability::ForProcess,
            _ => return Err(CommandError::say("argument must be one of the following: always, everysec")),
        };
        shared.store.set_waits(waits);
        Ok(())
    }),
    setting("busy-reply-threshold", limits::script_time, limits::set_script_time),
    setting("client-output-buffer-limit", limits::client_output, limits::set_client_output),
    fixed("databases", |_| crate::store::DATABASES.to_string()),
    fixed("dbfilename", |_| crate::redis::backups::NAME.to_owned()),
    setting("dir", |shared| shared.backups.directory().map_or_else(String::new, |path| path.display().to_string()), |shared, text| {
        let path = Path::new(OsStr::from_bytes(text));
        shared.backups.set_directory(path).map_err(|why| CommandError::Refused(Cow::Owned(why)))
    }),
    setting("latency-monitor-threshold", |shared| shared.latencies.threshold_ms.load(Ordering::Relaxed).to_string(), |shared, text| {
        let threshold = u64::try_from(integer(text)?).map_err(|_| CommandError::NOT_INTEGER)?;
        shared.latencies.threshold_ms.store(threshold, Ordering::Relaxed);
        Ok(())
    }),
    setting("loglevel", |shared| shared.log_level.as_ref().map_or("notice", LogLevel::name).to_owned(), |shared, text| match &shared.log_level {
        None => Err(CommandError::say("the log level of this server can be changed only by the program that \
                                       embeds it")),
        Some(level) if level.set(text) => Ok(()),
        Some(_) => Err(CommandError::say("argument must be one of the following: debug, verbose, notice, warning")),
    }),
    setting("lua-time-limit", limits::script_time, limits::set_script_time),
    setting("maxclients", |shared| shared.config.max_clients().to_string(), |shared, text| {
        let most = usize::try_from(integer(text)?).map_err(|_| CommandError::NOT_INTEGER)?;
        if most == 0 {
            return Err(CommandError::say("argument must be between 1 and 4294967295 inclusive"));
        }
        shared.config.set_max_clients(most);
        Ok(())
    }),
    setting("maxmemory", |shared| shared.store.db.stats().memory.budget.to_string(), |shared, text| {
        let bytes = u64::try_from(limits::memory(text)?).map_err(|_| CommandError::NOT_INTEGER)?;
        shared.store.db.set_memory(bytes).map_err(|error| CommandError::Refused(Cow::Owned(error.to_string())))?;
        shared.fit_client_memory();
        Ok(())
    }),
    setting("maxmemory-clients", limits::client_memory, limits::set_client_memory),
    fixed("maxmemory-policy", |_| "noeviction".to_owned()),
    setting("notify-keyspace-events", |shared| shared.events.text(), |shared, text| shared.events.set(&shared.store, text)),
    fixed("port", |shared| shared.redis_port.to_string()),
    fixed("proto-max-bulk-len", |shared| shared.config.limits.request.to_string()),
    setting("requirepass", |shared| shared.access.given_password().map_or_else(String::new, |word| word.to_string()), |shared, text| {
        let text = std::str::from_utf8(text).map_err(|_| CommandError::say("argument must be UTF-8"))?;
        shared.access.set_password(Some(text).filter(|text| !text.is_empty()));
        Ok(())
    }),
    fixed("save", |_| String::new()),
    setting("slowlog-log-slower-than", |shared| shared.config.slow_us.load(Ordering::Relaxed).to_string(), |shared, text| {
        shared.config.slow_us.store(integer(text)?, Ordering::Relaxed);
        Ok(())
    }),
    setting("slowlog-max-len", |shared| shared.config.slow_entries.load(Ordering::Relaxed).to_string(), |shared, text| {
        let most = usize::try_from(integer(text)?).map_err(|_| CommandError::NOT_INTEGER)?;
        shared.config.slow_entries.store(most, Ordering::Relaxed);
        Ok(())
    }),
    setting("tcp-keepalive", limits::keepalive, limits::set_keepalive),
    setting("timeout", limits::idle_timeout, limits::set_idle_timeout),
];

pub(crate) fn config(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    match (&verb[..], args.len()) {
        (b"GET", 3..) => get_settings(&session.shared, args.from(2), reply),
        (b"SET", 4..) if args.len().is_multiple_of(2) => {
            change_all(&session.shared, args.from(2))?;
            reply.ok();
        }
        (b"RESETSTAT", 2) => {
            let counters = &session.shared.counters;
            for counter in [
                &counters.connections,
                &counters.rejected,
                &counters.commands,
                &counters.errors,
                &counters.evicted,
                &counters.memory_refusals,
                &counters.timed_out,
                &counters.received,
                &counters.sent,
                &counters.reads,
                &counters.writes,
                &counters.output_overflows,
                &session.shared.store.hits,
                &session.shared.store.misses,
            ] {
                counter.store(0, Ordering::Relaxed);
            }
            session.shared.store.expiring.reset_expired_keys();
            session.shared.tally.reset();
            session.shared.samples.reset_peak();
            reply.ok();
        }
        (b"HELP", 2) => {
            let lines = [
                "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "GET <pattern> [...] -- returns the settings whose names match a pattern.",
                "SET <setting> <value> [...] -- changes settings until the server stops.",
                "RESETSTAT -- resets the counters of INFO to zero.",
                "HELP -- prints this help.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
        (b"REWRITE", 2) => {
            return Err(CommandError::say(
                "ERR The server is running without a config file, so changes by CONFIG SET last until it \
                 stops. To keep them, start `alluvium serve` with the corresponding options, such as \
                 --durability, --memory and --backup-dir",
            ));
        }
        _ => return Err(unknown_subcommand("config", args)),
    }
    Ok(())
}

/// Writes the settings whose names match one of the patterns.
fn get_settings(shared: &StoreContext, patterns: Args<'_>, reply: &mut ReplyWriter<'_>) {
    let is_wanted = |name: &str| {
        let mut patterns = patterns.iter();
        patterns.any(|pattern| glob::fits(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let found: Vec<&ConfigParameter> = SETTINGS
        .iter()
        .filter(|setting| is_wanted(setting.name))
        .collect();
    let foreign: Vec<&str> = foreign_settings::names().filter(|name| is_wanted(name)).collect();
    reply.map(found.len() + foreign.len());
    for setting in found {
        reply.bulk(setting.name.as_bytes());
        reply.bulk((setting.read)(shared).as_bytes());
    }
    for name in foreign {
        reply.bulk(name.as_bytes());
        reply.bulk(shared.foreign_settings.get(name).as_bytes());
    }
}

/// Changes all settings or none. If a setting is rejected, restores those already changed.
fn change_all(shared: &StoreContext, args: Args<'_>) -> CommandResult {
    let mut before: Vec<(&ConfigParameter, String)> = Vec::new();
    let mut foreign_before: Vec<(&'static str, String)> = Vec::new();
    for index in (0..args.len()).step_by(2) {
        let name = args.at(index).to_ascii_lowercase();
        let setting = SETTINGS.iter().find(|setting| setting.name.as_bytes() == name);
        let old = setting.map(|setting| (setting, (setting.read)(shared)));
        let foreign = foreign_settings::find(&name).map(|name| (name, shared.foreign_settings.get(name)));
        if let Err(failure) = change(shared, args.at(index), args.at(index + 1)) {
            for (name, old) in foreign_before.into_iter().rev() {
                shared.foreign_settings.set(name, old.as_bytes())?;
            }
            for (setting, old) in before.into_iter().rev() {
                if let Some(change) = setting.change {
                    change(shared, old.as_bytes())?;
                }
            }
            return Err(failure);
        }
        before.extend(old);
        foreign_before.extend(foreign);
    }
    Ok(())
}

fn change(shared: &StoreContext, name: &[u8], value: &[u8]) -> CommandResult {
    let lower = name.to_ascii_lowercase();
    let shown = String::from_utf8_lossy(name);
    let refused = |failure: CommandError| {
        CommandError::Refused(Cow::Owned(format!(
            "ERR CONFIG SET failed (possibly related to argument '{shown}') - {failure}"
        )))
    };
    if let Some(name) = foreign_settings::find(&lower) {
        return shared.foreign_settings.set(name, value).map_err(refused);
    }
    let Some(setting) = SETTINGS.iter().find(|setting| setting.name.as_bytes() == lower) else {
        return Err(CommandError::Refused(Cow::Owned(format!(
            "ERR Unknown option or number of arguments for CONFIG SET - '{shown}'"
        ))));
    };
    let result = match setting.change {
        Some(change) => change(shared, value),
        // A client may set what is already so.
        None if (setting.read)(shared).as_bytes().eq_ignore_ascii_case(value) => Ok(()),
        None => Err(CommandError::say("can't set immutable config")),
    };
    result.map_err(refused)
}

pub(crate) fn time(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let now_ms = session.shared.store.now_ms();
    reply.array(2);
    reply.bulk((now_ms / 1000).to_string().as_bytes());
    reply.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    Ok(())
}

pub(crate) fn debug(
    _session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    // This command crashes a Redis server. Here it only closes the connection, like every panic in
    // a command.
    assert!(args.len() != 2 || !args.is(1, "PANIC"), "DEBUG PANIC");
    if args.len() != 3 || !args.is(1, "SLEEP") {
        return Err(unknown_subcommand("debug", args));
    }
    let seconds = double(args.at(2))?.clamp(0.0, 3600.0);
    wait_hooks::about_to_wait();
    std::thread::sleep(Duration::from_secs_f64(seconds));
    reply.ok();
    Ok(())
}

pub(crate) fn slowlog(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    let slow = &session.shared.slow;
    match (&verb[..], args.len()) {
        (b"LEN", 2) => reply.count(slow.len()),
        (b"RESET", 2) => {
            slow.reset();
            reply.ok();
        }
        (b"GET", 2 | 3) => {
            let most = args.get(2).map_or(Some(10), number::integer);
            let most = most.filter(|&most| most >= -1);
            let most = most.ok_or(CommandError::say(
                "ERR count should be greater than or equal to -1",
            ))?;
            // -1 requests all entries.
            let entries = slow.newest(usize::try_from(most).unwrap_or(usize::MAX));
            reply.array(entries.len());
            for entry in entries {
                reply.array(6);
                reply.integer(entry.id as i64);
                reply.integer(entry.at_s as i64);
                reply.integer(entry.took_us as i64);
                reply.array(entry.args.len());
                entry.args.iter().for_each(|arg| reply.bulk(arg));
                reply.bulk(entry.peer.as_bytes());
                reply.bulk(entry.name.as_bytes());
            }
        }
        (b"HELP", 2) => {
            let lines = [
                "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "GET [<count>] -- returns the latest slow commands, by default 10; -1 returns all.",
                "LEN -- returns the number of entries.",
                "RESET -- deletes all entries.",
                "HELP -- prints this help.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("slowlog", args)),
    }
    Ok(())
}
