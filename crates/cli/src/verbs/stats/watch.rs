//! `stats --watch`: displays the activity of a store and updates it periodically.

use super::StatsCommand;
use crate::jobs::stop;
use crate::remote::RemoteServer;
use crate::store::{StoreHandle, StoreOwner};
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::{BOLD, DIM, ScreenOutput};
use crate::values::sizes::{count, human};
use alluvium_server::control::ManagementRequest;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

/// How often to check whether a stop was requested.
const NAP: Duration = Duration::from_millis(50);
/// Length of the longest bar in characters.
const BAR: usize = 24;

/// The values of all statistics at one point in time.
struct FiguresSnapshot {
    at: Instant,
    figures: BTreeMap<String, f64>,
    /// Latencies of the last second, if a server measures them.
    recent: Value,
    levels: Vec<TrunkLevel>,
    title: String,
}

/// A level of the trunk. Levels are listed from the root downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TrunkLevel {
    nodes: u64,
    pivots: u64,
    bundles: u64,
    own_bytes: f64,
    pending_bytes: f64,
    queued: u64,
    running: u64,
}

/// Where statistics are read from.
pub(super) enum FiguresSource {
    /// The store in the directory that the command line specifies.
    Store(StoreHandle),
    Server(RemoteServer),
}

pub(super) fn run(verb: &StatsCommand, watched: &FiguresSource) -> Result<CommandExit> {
    stop::listen()?;
    let mut out = ScreenOutput::new();
    let is_page = out.is_terminal();
    if is_page {
        // These sequences switch to the alternate screen and hide the cursor.
        write!(out, "\x1b[?1049h\x1b[?25l")?;
    }
    let shown = show(verb, watched, &mut out, is_page);
    if is_page {
        write!(out, "\x1b[?25h\x1b[?1049l")?;
    }
    out.flush()?;
    shown?;
    Ok(CommandExit::Done)
}

fn show(verb: &StatsCommand, watched: &FiguresSource, out: &mut ScreenOutput, is_page: bool) -> Result<()> {
    let look = || match watched {
        FiguresSource::Store(store) => of_store(store),
        FiguresSource::Server(server) => of_server(server),
    };
    let mut before = look()?;
    let mut left = verb.count.unwrap_or(u64::MAX);
    let pause = Duration::from_secs_f64(verb.interval);
    while left > 0 {
        let next = Instant::now() + pause;
        while Instant::now() < next && !stop::asked() {
            thread::sleep(NAP.min(pause));
        }
        if stop::asked() {
            break;
        }
        let now = look()?;
        if is_page {
            // The new page overwrites the old one. The rest of each line and of the screen is
            // cleared.
            write!(
                out,
                "\x1b[H{}\x1b[J",
                frame(&before, &now, out).replace('\n', "\x1b[K\n")
            )?;
        } else {
            writeln!(out, "{}", frame(&before, &now, out))?;
        }
        out.flush()?;
        before = now;
        left -= 1;
    }
    Ok(())
}

fn of_store(store: &StoreHandle) -> Result<FiguresSnapshot> {
    let said = store.json(&ManagementRequest::Figures)?;
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let mut levels = Vec::new();
    add_up(&said["root"], 0, &mut levels);
    let title = match store.holder() {
        StoreOwner::Us => "no server has the store open".to_owned(),
        StoreOwner::Others => format!(
            "process {} · {} connections · {} commands",
            number(&said["process_id"]),
            count(number(&said["server"]["connections"])),
            count(number(&said["server"]["commands"]))
        ),
    };
    Ok(FiguresSnapshot {
        at: Instant::now(),
        figures: figures(&said["figures"]),
        recent: Value::Null,
        levels,
        title,
    })
}

fn figures(of: &Value) -> BTreeMap<String, f64> {
    let figures = of.as_object().into_iter().flatten();
    figures
        .map(|(name, value)| (name.clone(), value.as_f64().unwrap_or_default()))
        .collect()
}

fn of_server(server: &RemoteServer) -> Result<FiguresSnapshot> {
    let (stats, tree) = (server.json("/api/stats")?, server.json("/api/tree")?);
    let mut levels = Vec::new();
    add_up(&tree["root"], 0, &mut levels);
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    Ok(FiguresSnapshot {
        at: Instant::now(),
        figures: figures(&stats["figures"]),
        recent: stats["recent"].clone(),
        levels,
        title: format!(
            "{} · process {} · up {} s · {} connections · {} commands",
            server.url(),
            number(&stats["process_id"]),
            count(number(&stats["uptime_ms"]) / 1000),
            count(number(&stats["server"]["connections"])),
            count(number(&stats["server"]["commands"])),
        ),
    })
}

fn add_up(node: &Value, depth: usize, levels: &mut Vec<TrunkLevel>) {
    if levels.len() == depth {
        levels.push(TrunkLevel::default());
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let bytes = |layers: &Value| {
        list(layers)
            .iter()
            .filter_map(|layer| layer["bytes"].as_f64())
            .sum::<f64>()
    };
    let level = &mut levels[depth];
    level.nodes += 1;
    level.bundles += list(&node["bundles"]).len() as u64;
    let pivots = list(&node["pivots"]);
    for pivot in &pivots {
        level.pivots += 1;
        level.own_bytes += bytes(&pivot["own"]);
        level.pending_bytes += bytes(&pivot["pending"]);
        level.queued += u64::from(pivot["compaction"] == "queued");
        level.running += u64::from(pivot["compaction"] == "running");
    }
    for child in pivots
        .iter()
        .map(|pivot| &pivot["child"])
        .filter(|child| child.is_object())
    {
        add_up(child, depth + 1, levels);
    }
}

/// Two snapshots of the statistics, for computing differences.
struct FiguresDelta<'a> {
    before: &'a FiguresSnapshot,
    now: &'a FiguresSnapshot,
    seconds: f64,
    out: &'a ScreenOutput,
    page: String,
}

/// Formats a page: the activity between two snapshots, and the state at the later one.
fn frame(before: &FiguresSnapshot, now: &FiguresSnapshot, out: &ScreenOutput) -> String {
    let mut between = FiguresDelta {
        before,
        now,
        seconds: now.at.duration_since(before.at).as_secs_f64().max(1e-3),
        out,
        page: String::new(),
    };
    between.line(&format!(
        "{} {}",
        out.styled(BOLD, "alluvium"),
        out.styled(DIM, &now.title)
    ));
    between.throughput();
    between.latency();
    between.memory();
    between.device();
    between.tree();
    between.page
}

impl FiguresDelta<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.page, "{text}");
    }

    fn title(&mut self, text: &str, rest: &str) {
        let title = self.out.styled(BOLD, text);
        let _ = writeln!(self.page, "\n{title}{rest}");
    }

    fn figure(&self, name: &str) -> f64 {
        self.now.figures.get(name).copied().unwrap_or_default()
    }

    fn rate(&self, name: &str) -> f64 {
        let before = self.before.figures.get(name).copied().unwrap_or_default();
        ((self.figure(name) - before) / self.seconds).max(0.0)
    }

    fn throughput(&mut self) {
        let per_s = |value: f64| format!("{:>12}/s", count(value.round() as u64));
        let reads = self.rate("operations.gets") + self.rate("operations.multi_get_keys");
        let kinds = ["puts", "deletes", "merges", "range_deletes"];
        let writes: f64 = kinds
            .iter()
            .map(|kind| self.rate(&format!("operations.{kind}")))
            .sum();
        self.title("throughput", "");
        self.line(&format!(
            "  writes  {}   reads {}   keys scanned {}",
            per_s(writes),
            per_s(reads),
            per_s(self.rate("operations.scanned"))
        ));
        self.line(&format!(
            "  commits {}   {:>10}/s of users' bytes",
            per_s(self.rate("operations.commits")),
            human(self.rate("operations.written_bytes") as u64)
        ));
    }

    fn latency(&mut self) {
        self.title("latency          p50         p99       p99.9", "");
        for (name, recent, all) in [
            ("commits", "commit", ["latency.commit", "latency.durable_commit"]),
            ("reads", "read", ["latency.multi_get", "latency.get"]),
        ] {
            // Show the latencies of the last second if a server measures them, and otherwise those
            // since the store was opened.
            let known = all
                .into_iter()
                .find(|kind| self.figure(&format!("{kind}.timed")) > 0.0);
            let time = |short: &str| {
                let last = self.now.recent[format!("{recent}_{short}_ns")].as_f64();
                let ns = last.or(known.map(|kind| self.figure(&format!("{kind}.{short}"))));
                format!("{:>12}", ns.map_or_else(|| "–".to_owned(), duration))
            };
            let line = format!("  {name:8}{}{}{}", time("p50"), time("p99"), time("p999"));
            self.line(&line);
        }
        let ratio = |kind: &str| match self.now.figures.get(&format!("amplification.{kind}")) {
            Some(ratio) => format!("{ratio:.2}"),
            None => "–".to_owned(),
        };
        let [write, read, space] = ["write", "read", "space"].map(ratio);
        self.title("amplification", "");
        self.line(&format!("  write {write:>6}   read {read:>6}   space {space:>6}"));
    }

    fn memory(&mut self) {
        let budget = self.figure("memory.budget").max(1.0);
        let total = human(self.figure("memory.total") as u64);
        self.title("memory", &format!(" {total} of {}", human(budget as u64)));
        for owner in ["memtables", "log", "pages", "records", "tree", "tables"] {
            let bytes = self.figure(&format!("memory.{owner}"));
            self.line(&format!(
                "  {owner:10} {:>10}  {}",
                human(bytes as u64),
                bar(bytes / budget)
            ));
        }
    }

    fn device(&mut self) {
        self.title("device                read       written", "");
        for purpose in ["lookup", "scan", "log", "incorporate", "compact"] {
            let bytes = |what: &str| human(self.rate(&format!("device.{purpose}.{what}_bytes")) as u64);
            let line = format!(
                "  {purpose:12} {:>10}/s {:>11}/s",
                bytes("read"),
                bytes("written")
            );
            self.line(&line);
        }
        let whole = |name: &str| count(self.figure(name) as u64);
        let line = format!(
            "  debt {} in {} compactions, {} sealed memtables, writers stopped {} times",
            human((self.figure("debt.pending_bytes") + self.figure("debt.running_bytes")) as u64),
            count((self.figure("debt.pending_jobs") + self.figure("debt.running_jobs")) as u64),
            whole("debt.sealed_memtables"),
            whole("work.waits"),
        );
        self.title("background", "");
        self.line(&line);
    }

    fn tree(&mut self) {
        let bytes = |name: &str| human(self.figure(name) as u64);
        let rest = format!(
            " {} live, files of {}",
            bytes("space.live_bytes"),
            bytes("space.file_bytes")
        );
        self.title("tree", &rest);
        let levels = &self.now.levels;
        let held = |level: &TrunkLevel| level.own_bytes + level.pending_bytes;
        let most = levels.iter().map(held).fold(1.0, f64::max);
        for (depth, level) in levels.iter().enumerate() {
            let name = if depth + 1 == levels.len() {
                "leaves"
            } else {
                "index"
            };
            let work = match (level.running, level.queued) {
                (0, 0) => String::new(),
                (running, queued) => format!("  {running} compactions running, {queued} queued"),
            };
            self.line(&format!(
                "  {name:7} {:>6} nodes {:>7} pivots {:>6} bundles  {:>10} own {:>10} waiting  {}{work}",
                count(level.nodes),
                count(level.pivots),
                count(level.bundles),
                human(level.own_bytes as u64),
                human(level.pending_bytes as u64),
                bar(held(level) / most),
            ));
        }
    }
}

fn bar(part: f64) -> String {
    "█".repeat((part.clamp(0.0, 1.0) * BAR as f64).round() as usize)
}

/// Formats a duration in nanoseconds with three significant digits and a unit.
fn duration(ns: f64) -> String {
    for (unit, size) in [("s", 1e9), ("ms", 1e6), ("µs", 1e3)] {
        if ns >= size {
            let value = ns / size;
            let digits = if value < 9.995 {
                2
            } else {
                usize::from(value < 99.95)
            };
            return format!("{value:.digits$} {unit}");
        }
    }
    format!("{ns:.0} ns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::RemoteCredentials;

    #[test]
    fn levels_of_a_server_and_of_a_store_are_the_same() {
        let place = tempfile::tempdir().expect("a directory");
        let db = alluvium::Options::new()
            .memory(32 << 20)
            .open(place.path().join("store"))
            .expect("it opens");
        let keyspace = db.keyspace("default").expect("it is made");
        for number in 0..20_000u32 {
            keyspace
                .put(number.to_be_bytes(), [7; 100])
                .expect("there is room");
        }
        db.checkpoint().expect("there is room");
        let own = of_store(&StoreHandle::own(db.clone())).expect("it answers");
        let options = alluvium_server::ServerOptions {
            web: Some("127.0.0.1:0".parse().expect("an address")),
            ..alluvium_server::ServerOptions::default()
        };
        let server = alluvium_server::Server::start(&db, options).expect("it starts");
        let url = format!("http://{}", server.web_addr().expect("it has a page"));
        let served = of_server(&RemoteServer::at(&url, RemoteCredentials::default()).expect("an address"))
            .expect("it answers");
        let bytes = |look: &FiguresSnapshot| {
            look.levels
                .iter()
                .map(|level| level.own_bytes + level.pending_bytes)
                .sum::<f64>()
        };
        assert!(bytes(&own) > 1e6 && bytes(&own) <= bytes(&served));
        assert_eq!(own.levels.len(), served.levels.len());
        let page = frame(&own, &served, &ScreenOutput::new());
        for word in [
            "throughput",
            "latency",
            "amplification",
            "memory",
            "leaves",
            "pages",
        ] {
            assert!(page.contains(word), "{page}");
        }
        assert_eq!(
            [duration(12.0), duration(1500.0), duration(2.5e9)],
            ["12 ns", "1.50 µs", "2.50 s"]
        );
    }
}
