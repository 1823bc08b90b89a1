//! A cache's commands on the server: settings, and operations on all keys.

use super::super::args::integer;
use super::commands::{has, verb};
use super::session::CachedSession;
use crate::access::glob;
use crate::cache::CacheContext;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::commands::{describe, keys};
use crate::redis::subcommands::unknown_subcommand;
use crate::redis::{names, table};
use std::borrow::Cow;
use std::sync::atomic::Ordering;

pub(super) fn command(
    _session: &mut CachedSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let all: Vec<&table::CommandSpec> = table::all().filter(|command| has(command.name)).collect();
    if args.len() == 1 || args.len() == 2 && verb(args, "INFO") {
        reply.array(all.len());
        all.iter().for_each(|command| describe::describe(command, reply));
    } else if verb(args, "COUNT") && args.len() == 2 {
        reply.count(all.len());
    } else if verb(args, "LIST") && args.len() == 2 {
        reply.array(all.len());
        all.iter().for_each(|command| reply.bulk(command.name.as_bytes()));
    } else if verb(args, "INFO") {
        reply.array(args.len() - 2);
        for name in args.from(2).iter() {
            match names::find(name).filter(|command| has(command.name)) {
                Some(command) => describe::describe(command, reply),
                None => reply.null_array(),
            }
        }
    } else if verb(args, "DOCS") {
        let named = |name: &str| args.len() == 2 || args.from(2).iter().any(|word| word == name.as_bytes());
        let shown: Vec<_> = all.into_iter().filter(|command| named(command.name)).collect();
        reply.map(shown.len());
        for command in shown {
            reply.bulk(command.name.as_bytes());
            reply.map(2);
            for (name, value) in [("summary", command.summary), ("group", command.group)] {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
    } else {
        return Err(unknown_subcommand("command", args));
    }
    Ok(())
}

/// Returns the names and values of all settings.
fn settings(cached: &CacheContext) -> Vec<(&'static str, String)> {
    let CacheContext { common, content } = cached;
    vec![
        ("appendonly", "no".to_owned()),
        ("databases", "1".to_owned()),
        ("maxclients", common.config.max_clients().to_string()),
        ("maxmemory", content.memory.bytes.to_string()),
        ("maxmemory-policy", content.memory.policy.name().to_owned()),
        ("port", common.redis_port.to_string()),
        ("proto-max-bulk-len", common.config.limits.request.to_string()),
        ("save", String::new()),
        ("tcp-keepalive", common.config.keepalive().as_secs().to_string()),
        ("timeout", common.config.idle_timeout().as_secs().to_string()),
    ]
}

/// The CONFIG command. Supports the settings that clients read at startup, and those that can be
/// changed.
pub(super) fn config(
    session: &mut CachedSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let common = &session.cached.common;
    if verb(args, "GET") && args.len() > 2 {
        let wanted = |name: &str| {
            let mut patterns = args.from(2).iter();
            patterns.any(|pattern| glob::fits(&pattern.to_ascii_lowercase(), name.as_bytes()))
        };
        let mut shown = settings(&session.cached);
        shown.retain(|(name, _)| wanted(name));
        reply.map(shown.len());
        for (name, value) in shown {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
    } else if verb(args, "SET") && args.len() == 4 {
        let number = || {
            let number = integer(args.at(3))?;
            u64::try_from(number).map_err(|_| CommandError::NOT_INTEGER)
        };
        match &args.at(2).to_ascii_lowercase()[..] {
            b"maxclients" => common.config.set_max_clients((number()?.max(1)) as usize),
            b"timeout" => common.config.set_idle_timeout(number()?),
            b"tcp-keepalive" => common.config.set_keepalive(number()?),
            name => {
                let name = String::from_utf8_lossy(name);
                return Err(CommandError::Refused(Cow::Owned(format!(
                    "ERR CONFIG SET {name}: in cache mode only maxclients, timeout and tcp-keepalive can be \
                     changed"
                ))));
            }
        }
        reply.ok();
    } else if verb(args, "RESETSTAT") && args.len() == 2 {
        let counters = &common.counters;
        for counter in [
            &counters.commands,
            &counters.errors,
            &counters.items_got,
            &counters.items_hit,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        reply.ok();
    } else {
        return Err(unknown_subcommand("config", args));
    }
    Ok(())
}

pub(super) fn size(
    session: &mut CachedSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    reply.count(session.cached.content.items() as usize);
    Ok(())
}

pub(super) fn flush(
    session: &mut CachedSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    keys::flush_mode(args)?;
    session.cached.content.clear();
    reply.ok();
    Ok(())
}

pub(super) fn time(
    session: &mut CachedSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let now_ms = session.cached.content.now_ms();
    reply.array(2);
    reply.bulk((now_ms / 1000).to_string().as_bytes());
    reply.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    Ok(())
}
