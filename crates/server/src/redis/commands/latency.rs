//! The LATENCY command, which reports slow events and commands' latency histograms.

use crate::error::{CommandError, CommandResult};
use crate::observe::latency::{LatencyHistory, LatencySample};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::is;
use crate::redis::session::RedisSession;
use crate::redis::subcommands::unknown_subcommand;
use crate::redis::table::counted_names;
use crate::shared::StoreContext;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::atomic::Ordering;

const HELP: [&str; 8] = [
    "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR -- explains which commands are slow and why.",
    "GRAPH <event> -- draws the samples of an event.",
    "HISTOGRAM [<command> ...] -- returns the distribution of execution times of commands.",
    "HISTORY <event> -- returns the samples of an event.",
    "LATEST -- returns the latest and the longest sample of every event.",
    "RESET [<event> ...] -- deletes the samples of events, by default of all.",
    "HELP -- prints this help.",
];

pub(crate) fn latency(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    let shared = &session.shared;
    match (&verb[..], args.len()) {
        (b"LATEST", 2) => {
            let all = shared.latencies.all();
            reply.array(all.len());
            for (name, event) in &all {
                let last = event.samples.back().copied();
                let last = last.unwrap_or(LatencySample { at_s: 0, took_ms: 0 });
                reply.array(4);
                reply.bulk(name.as_bytes());
                reply.integer(last.at_s as i64);
                reply.integer(last.took_ms as i64);
                reply.integer(event.most_ms as i64);
            }
        }
        (b"HISTORY", 3) => {
            let samples = event(shared, args.at(2)).map_or_else(Vec::new, |event| event.samples.into());
            reply.array(samples.len());
            for sample in samples {
                reply.array(2);
                reply.integer(sample.at_s as i64);
                reply.integer(sample.took_ms as i64);
            }
        }
        (b"RESET", 2) => reply.count(shared.latencies.reset_all()),
        (b"RESET", _) => {
            let names = args.from(2);
            reply.count(names.iter().filter(|name| shared.latencies.reset(name)).count());
        }
        (b"GRAPH", 3) => {
            let Some(event) = event(shared, args.at(2)) else {
                return Err(CommandError::Refused(Cow::Owned(format!(
                    "ERR No samples available for event '{}'",
                    String::from_utf8_lossy(args.at(2))
                ))));
            };
            reply.verbatim(&graph(&event, shared.store.now_ms() / 1000));
        }
        (b"DOCTOR", 2) => reply.verbatim(&doctor(shared)),
        (b"HISTOGRAM", _) => histogram(shared, args, reply),
        (b"HELP", 2) => {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("latency", args)),
    }
    Ok(())
}

fn event(shared: &StoreContext, name: &[u8]) -> Option<LatencyHistory> {
    let all = shared.latencies.all();
    let found = all.into_iter().find(|(known, _)| is(name, known));
    found.map(|(_, event)| event)
}

/// Writes the latency histograms of the commands named in the arguments, or of all commands that
/// were called. A command's name also selects its subcommands.
fn histogram(shared: &StoreContext, args: Args<'_>, reply: &mut ReplyWriter<'_>) {
    let is_wanted = |name: &str| {
        args.len() == 2
            || args.from(2).iter().any(|wanted| {
                let container = name.split('|').next().unwrap_or(name);
                is(wanted, name) || is(wanted, container)
            })
    };
    let mut found = Vec::new();
    for (index, name) in (0..).zip(counted_names()) {
        let figures = shared.tally.of(index).figures();
        let pairs = figures.cumulative();
        if is_wanted(name) && !pairs.is_empty() {
            found.push((name, figures.calls, pairs));
        }
    }
    reply.map(found.len());
    for (name, calls, pairs) in found {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(calls as i64);
        reply.bulk(b"histogram_usec");
        reply.map(pairs.len());
        for (us, count) in pairs {
            reply.integer(us as i64);
            reply.integer(count as i64);
        }
    }
}

/// Formats an event's samples as a bar chart, from oldest to newest. Each bar shows a sample's
/// duration and age.
fn graph(event: &LatencyHistory, now_s: u64) -> String {
    const WIDTH: u64 = 40;
    let most = event
        .samples
        .iter()
        .map(|sample| sample.took_ms)
        .max()
        .unwrap_or(0);
    let mut text = format!(
        "longest: {most} ms; {} samples, oldest first:\n",
        event.samples.len()
    );
    for sample in &event.samples {
        let bar = "#".repeat((sample.took_ms * WIDTH / most.max(1)).max(1) as usize);
        let ago = now_s.saturating_sub(sample.at_s);
        let _ = writeln!(text, "{bar:<40} {:>6} ms, {ago} s ago", sample.took_ms);
    }
    text
}

/// Describes the slow events and gives advice.
fn doctor(shared: &StoreContext) -> String {
    let threshold = shared.latencies.threshold_ms.load(Ordering::Relaxed);
    if threshold == 0 {
        return "Latency monitoring is off: set the time from which a command counts as slow with CONFIG SET \
                latency-monitor-threshold <milliseconds>. SLOWLOG GET shows slow commands, LATENCY \
                HISTOGRAM the execution times of all commands.\n"
            .to_owned();
    }
    let all = shared.latencies.all();
    if all.is_empty() {
        return format!("No command has taken {threshold} ms or longer.\n");
    }
    let mut text = String::new();
    for (name, event) in &all {
        let count = event.samples.len() as u64;
        let sum: u64 = event.samples.iter().map(|sample| sample.took_ms).sum();
        let _ = writeln!(
            text,
            "{name}: {count} samples, {} ms on average, {} ms at most.",
            sum / count.max(1),
            event.most_ms
        );
    }
    let stats = shared.store.db.stats();
    text += "SLOWLOG GET shows the slow commands: those that read whole collections or all keys take long \
             by nature.\n";
    if stats.waits > 0 {
        text += "Writers have waited for background work, because clients write faster than the device can. \
                 INFO stats counts the waits in alluvium_waits.\n";
    }
    text
}
