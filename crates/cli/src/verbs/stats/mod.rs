//! `stats`: prints statistics about the content of the store and the resources that it uses.
//!
//! *Scope*: the groups of statistics, and their form in the output.
//!
//! *Must not depend on*: whether the figures come from the store or from a server elsewhere.

mod forecast;
mod watch;

use crate::context::CommandContext;
use crate::import::PROGRESS;
use crate::remote::{RemoteServer, RemoteServerArgs};
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::{BOLD, ScreenOutput};
use crate::values::bytes::escape;
use crate::values::sizes::{count, human};
use alluvium_server::control::ManagementRequest;
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium stats
  alluvium stats --watch                                   # the server that has the store open
  alluvium stats --watch --server http://127.0.0.1:7070
  alluvium stats --server http://127.0.0.1:7070 --user monitor --password-file monitor.password
  alluvium stats --json | jq .space.live_bytes";

/// Show the contents of the store, and the space and memory that they use.
///
/// A server elsewhere is queried through its web page.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct StatsCommand {
    /// Show the current activity, and update it until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,
    /// The seconds between updates, 0.05 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, requires = "watch", value_parser = seconds)]
    pub interval: f64,
    /// End after this number of updates [default: unlimited].
    #[arg(short = 'n', long, value_name = "COUNT", requires = "watch")]
    pub count: Option<u64>,
    #[command(flatten)]
    pub elsewhere: RemoteServerArgs,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|seconds| (0.05..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "write a number of seconds, from 0.05 to 3600".to_owned())
}

impl StatsCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        if let Some(server) = self.elsewhere.remote()? {
            return match self.watch {
                true => watch::run(self, &watch::FiguresSource::Server(server)),
                false => served(context, &server),
            };
        }
        let store = context.open_to_read()?;
        if self.watch {
            let watched = watch::FiguresSource::Store(store);
            let shown = watch::run(self, &watched);
            if let watch::FiguresSource::Store(store) = watched {
                store.close()?;
            }
            return shown;
        }
        let mut numbers = store.json(&ManagementRequest::Stats)?;
        if store.has_keyspace(PROGRESS)? {
            let others = numbers["store"]["keyspaces"].as_u64().unwrap_or(1) - 1;
            numbers["store"]["keyspaces"] = others.into();
        }
        store.close()?;
        print(context, &numbers)
    }
}

fn print(context: &CommandContext, numbers: &Value) -> Result<CommandExit> {
    let mut out = ScreenOutput::new();
    if context.is_json() {
        out.json(numbers)?;
    } else {
        for (group, lines) in numbers.as_object().into_iter().flatten() {
            if group == "workload" {
                print_workload(&mut out, lines)?;
                continue;
            }
            if forecast::print(&mut out, group, lines)? {
                continue;
            }
            if group == "dictionaries" {
                print_dictionaries(&mut out, lines)?;
                continue;
            }
            let title = out.styled(BOLD, &group.replace('_', " "));
            out.line(&title)?;
            for (name, value) in lines.as_object().into_iter().flatten() {
                out.line(&format!(
                    "  {:26} {:>16}",
                    name.replace('_', " "),
                    shown(name, value)
                ))?;
            }
        }
    }
    out.flush()?;
    Ok(CommandExit::Done)
}

/// Prints one line for each of the levels and hashed structures.
fn print_dictionaries(out: &mut ScreenOutput, all: &Value) -> Result<()> {
    let title = out.styled(BOLD, "levels and hashed structures, one for each set of options");
    out.line(&title)?;
    for said in all.as_array().into_iter().flatten() {
        let said = said["said"].as_str().unwrap_or_default();
        out.line(&format!("  {}", escape(said.as_bytes())))?;
    }
    Ok(())
}

/// Prints the workload of each keyspace, as sampled since the store was opened.
fn print_workload(out: &mut ScreenOutput, seen: &Value) -> Result<()> {
    let seen = seen.as_object().into_iter().flatten();
    for (number, (keyspace, what)) in seen.enumerate() {
        if number == 0 {
            let title = out.styled(BOLD, "approximate workload since opening");
            out.line(&title)?;
        }
        let of = |name: &str| count(what["total"][name].as_u64().unwrap_or(0));
        out.line(&format!(
            "  {keyspace}: {} puts, {} deletes, {} found, {} absent, {} scans; keys of {:.0} and values of {:.0} bytes",
            of("puts"),
            of("deletes"),
            of("hits"),
            of("misses"),
            of("scans"),
            what["key_bytes"].as_f64().unwrap_or(0.0),
            what["value_bytes"].as_f64().unwrap_or(0.0)
        ))?;
    }
    Ok(())
}

/// Prints the statistics of a remote server's store, in the same groups as those of a local store.
fn served(context: &CommandContext, server: &RemoteServer) -> Result<CommandExit> {
    let said = server.json("/api/stats")?;
    let figure = |name: &str| said["figures"][name].as_f64().unwrap_or_default() as u64;
    let figures = said["figures"].as_object().into_iter().flatten();
    let device = |what: &str| {
        let of_it = figures.clone().filter(|(name, _)| {
            name.strip_prefix("device.")
                .and_then(|rest| rest.split_once('.'))
                .is_some_and(|(_, last)| last == what)
        });
        of_it
            .map(|(_, value)| value.as_f64().unwrap_or_default() as u64)
            .sum::<u64>()
    };
    let memory = [
        "budget",
        "memtables",
        "log",
        "pages",
        "records",
        "tree",
        "tables",
        "total",
    ];
    let memory = memory.map(|owner| {
        (
            format!("{owner}_bytes"),
            figure(&format!("memory.{owner}")).into(),
        )
    });
    let numbers = json!({
        "store": { "keyspaces": said["keyspaces"], "last_commit": said["last_commit"] },
        "space": {
            "file_bytes": figure("space.file_bytes"),
            "live_bytes": figure("space.live_bytes"),
            "free_bytes": figure("space.free_bytes"),
            "dead_bytes": figure("space.dead_bytes"),
        },
        "memory": memory.into_iter().collect::<serde_json::Map<String, Value>>(),
        "operations_since_opening": {
            "gets": figure("operations.gets") + figure("operations.multi_get_keys"),
            "scans": figure("operations.scans"),
            "puts": figure("operations.puts"),
            "deletes": figure("operations.deletes"),
            "commits": figure("operations.commits"),
        },
        "device_since_opening": {
            "reads": device("reads"),
            "read_bytes": device("read_bytes"),
            "writes": device("writes"),
            "written_bytes": device("written_bytes"),
            "syncs": device("syncs"),
        },
        "forecast": server.json("/api/forecast")?,
        "server": said["server"],
    });
    print(context, &numbers)
}

/// Formats a statistic. Numbers of bytes are written with a unit, and other numbers with their
/// digits in groups of three.
fn shown(name: &str, value: &Value) -> String {
    match value.as_u64() {
        Some(bytes) if name.ends_with("_bytes") => human(bytes),
        Some(number) => count(number),
        None => match (value.as_f64(), value.as_str()) {
            (Some(ratio), _) => format!("{ratio:.3}"),
            (None, Some(text)) => text.to_owned(),
            (None, None) => "–".to_owned(),
        },
    }
}
