//! `bench`: runs workloads on Alluvium and on the engines and servers it is compared with.
//!
//! *Scope*: the command line, and the output during a run and at its end.
//!
//! *Must not depend on*: how anything is measured; that is left to `alluvium_bench`.

mod ceiling;
mod reports;
mod server;
mod sweep;
mod trace;
mod transactions;

use crate::context::CommandContext;
use crate::jobs::stop;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::sizes::{self, ByteSize, count, human};
use alluvium_bench::cgroup;
use alluvium_bench::engine::{EngineOption, WriteLogging, kind_of, parse_engine, require_once};
use alluvium_bench::engines::OWN;
use alluvium_bench::report::{BenchReport, machine::MachineInfo, script as over_time, table};
use alluvium_bench::run::{
    self, BenchOutcome, BenchRunner, CapMethod, ChildEvent, EngineJob, FileRetention, GroupPaths,
    LoadFrequency, PhaseFlow, RepetitionFailure, RunListener, RunPlan,
};
use alluvium_bench::workload::keys::KeyOrdering;
use alluvium_bench::workload::phase::{
    PhaseDefaults, PhaseTask, WindowLength, WorkloadPhase, parse_amount, parse_count, parse_records,
    parse_threads,
};
use alluvium_bench::workload::script;
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const EXAMPLES: &str = "\
Examples:
  alluvium bench ycsb --records 20M --memory 512M --phases load,c:uniform,c,a,e
  alluvium bench ycsb --engines alluvium,rocksdb,leveldb --records 5M --repetitions 3 --json report.json
  alluvium bench ycsb --script 'load, a:30s, e:30s, c:30s, delete=90%, a:30s' --engines alluvium,rocksdb
  alluvium bench ycsb --phases load,c:warm=20M+run=8s,b:rate=5000    # a long warm-up; a schedule of 5,000 a second

Each engine runs in a process of its own. --memory limits a process, page cache included [default: a quarter of the data, at least 64M].

The other engines are in a second program, alluvium-rivals, in the directory of alluvium or in PATH:
  cargo build --release --manifest-path research/Cargo.toml -p alluvium-rivals --features all --target-dir target";

/// Measure Alluvium, and compare it with other engines.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BenchCommand {
    /// What to measure.
    #[command(subcommand)]
    pub what: BenchAction,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchAction {
    /// Run the YCSB workloads: load, and a to f as published.
    Ycsb(Box<YcsbCommand>),
    /// Vary one parameter: load order, threads, scan length, value size, memory, or records.
    Sweep(Box<sweep::SweepCommand>),
    /// Record the operations of a workload in a file, or replay them in any engine.
    Trace(Box<trace::TraceCommand>),
    /// Measure transactions of many clients at once: commits per second, latency and retries.
    Transactions(Box<transactions::BenchTransactionsCommand>),
    /// Measure sets and gets over many connections, in the server, Redis and memcached.
    Server(Box<server::BenchServerCommand>),
    /// Compute the fewest reads per operation that a cache of a given number of records allows.
    Ceiling(Box<ceiling::CeilingCommand>),
    /// Compare two reports, and list improvements and regressions.
    Compare(reports::CompareCommand),
    /// Print reports as one Markdown table.
    Table(reports::TableCommand),
    /// Run one engine in this process, as described on standard input; `bench` starts this command.
    #[command(hide = true)]
    Child,
    /// Like `child`, for an engine with transactions.
    #[command(hide = true)]
    TransactionsChild,
}

/// Options of all measurements of engines. `--memory` is the cap of a process, page cache included
/// [default: a quarter of the data, at least 64 MiB].
#[derive(Args, Debug)]
pub struct BenchOptions {
    /// The engines, separated by commas: alluvium, rocksdb (through the page cache),
    /// rocksdb-direct, rocksdb-universal, leveldb, lmdb, sqlite, berkeley-db, fjall, redb, bf-tree,
    /// splinterdb; none does nothing, and shows the cost of measuring. Labels after a colon measure
    /// an engine several times, with different options: alluvium:tiered,alluvium:hashed.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "alluvium",
          value_parser = parse_engine)]
    pub engines: Vec<String>,
    /// The number of records to load.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_records)]
    pub records: u64,
    /// The length of values in bytes, at least 16; keys have 24 bytes.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub value_bytes: usize,
    /// The number of threads that run operations.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_threads)]
    pub threads: usize,
    /// The number of repetitions; the report has the medians.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub repetitions: usize,
    /// Load each engine once, and run every repetition on a copy of its files. Use this for engines
    /// whose load takes longer than the measurement.
    #[arg(long, conflicts_with = "reuse")]
    pub load_once: bool,
    /// The warm-up before each phase: operations, as in 20M, or a time, as in 8s.
    #[arg(long, value_name = "AMOUNT", default_value = "8s", value_parser = parse_amount)]
    pub warm: WindowLength,
    /// The measured part of each phase: operations, as in 20M, or a time, as in 8s.
    #[arg(long, value_name = "AMOUNT", default_value = "8s", value_parser = parse_amount)]
    pub run: WindowLength,
    /// The number of operations to start per second, over all threads. Latencies count from the
    /// scheduled start [default: as many as possible].
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub rate: Option<u64>,
    /// The longest time to wait after the load for an engine's background work.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_amount)]
    pub settle: WindowLength,
    /// The seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Turn off the log, in engines that allow it.
    #[arg(long)]
    pub without_log: bool,
    /// Do not limit memory with a control group: engines are told the cap, but the page cache is
    /// not limited. This is the default, with a note, if control groups are not available, as
    /// without root.
    #[arg(long)]
    pub no_cap: bool,
    /// The memory that engines are told to use [default: the share of the cap that each engine's
    /// documentation recommends].
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub engine_memory: Option<ByteSize>,
    /// An option of an engine, as in rocksdb.background-jobs=4 or, with a label,
    /// alluvium:hashed.structure=hashed. May be repeated. The error for an unknown option lists the
    /// known ones.
    #[arg(long = "engine-option", value_name = "ENGINE.NAME=VALUE", value_parser = EngineOption::parse)]
    pub engine_options: Vec<EngineOption>,
    /// The path of SplinterDB's shared library, for the engine splinterdb.
    #[arg(long, value_name = "PATH", env = "ALLUVIUM_SPLINTERDB")]
    pub splinterdb_library: Option<PathBuf>,
    /// The directory for the engines' files, which are removed at the end.
    #[arg(long, value_name = "PATH", default_value = "alluvium-bench-data")]
    pub directory: PathBuf,
    /// Keep the files of the engines.
    #[arg(long)]
    pub keep: bool,
    /// Use the files of an earlier run with --keep and the same number of records, instead of
    /// loading them.
    #[arg(long)]
    pub reuse: bool,
    /// The JSON file for the report. Plots (SVG) and a page with everything (HTML) are written next
    /// to it. Without it, --json prints the report.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Run the YCSB workloads.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct YcsbCommand {
    /// The phases, separated by commas: load; a to f; m, reads of 64 keys at once. Words after a
    /// colon, joined by +, change a phase: uniform, zipf, ycsb (the skew of the published client)
    /// or latest selects the distribution of keys; absent reads missing keys; warm=, run= and rate=
    /// override the options; scan= and exactly= set the largest or the exact length of scans.
    #[arg(
        long,
        value_name = "PHASES",
        value_delimiter = ',',
        default_value = "load,a,b,c,f,d,e"
    )]
    pub phases: Vec<String>,
    /// A changing workload instead of --phases: each part runs for a given time, without pauses or
    /// warm-ups, and the report shows the throughput over time. delete=90% deletes nine of ten
    /// records.
    #[arg(long, value_name = "SCRIPT", conflicts_with_all = ["phases", "load_once"])]
    pub script: Option<String>,
    #[command(flatten)]
    pub common: BenchOptions,
}

/// The program that contains the engines of other projects.
const RIVALS: &str = "alluvium-rivals";

impl BenchCommand {
    pub(crate) fn run(self, context: &CommandContext) -> Result<CommandExit> {
        // A computation that uses only memory needs no cleanup, so Ctrl-C may end it immediately.
        if !matches!(
            self.what,
            BenchAction::Child | BenchAction::TransactionsChild | BenchAction::Ceiling(_)
        ) {
            stop::listen()?;
        }
        match self.what {
            BenchAction::Child => Ok(run_child()),
            BenchAction::TransactionsChild => Ok(ended(alluvium_bench::transactions::child(
                &alluvium_bench::transactions::OWN,
            ))),
            BenchAction::Transactions(verb) => verb.run(context),
            BenchAction::Ycsb(verb) => verb.run(context),
            BenchAction::Sweep(verb) => verb.run(context),
            BenchAction::Trace(verb) => verb.run(context),
            BenchAction::Server(verb) => verb.run(context),
            BenchAction::Ceiling(verb) => verb.run(context),
            BenchAction::Compare(verb) => verb.run(context),
            BenchAction::Table(verb) => verb.run(),
        }
    }
}

/// Runs the job given on standard input with one of the built-in engines.
#[must_use]
pub fn run_child() -> CommandExit {
    ended(run::child(&OWN))
}

/// Converts the exit code of a child process to one of this program.
fn ended(code: ExitCode) -> CommandExit {
    if code == ExitCode::SUCCESS {
        CommandExit::Done
    } else {
        CommandExit::Failed
    }
}

impl YcsbCommand {
    fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        if let Some(text) = &self.script {
            return self.run_script(context, text);
        }
        let defaults = self.common.defaults();
        let phases = self
            .phases
            .iter()
            .map(|text| WorkloadPhase::parse(text, defaults).map_err(usage))
            .collect::<Result<Vec<_>>>()?;
        let orders = self.common.orders(context, phases)?;
        let report = measure(&orders)?;
        publish(context, self.common.file.as_deref(), &report)
    }

    fn run_script(&self, context: &CommandContext, text: &str) -> Result<CommandExit> {
        let phases = script::parse(text, self.common.defaults().rate).map_err(usage)?;
        if script::deletes(&phases) && (self.common.keep || self.common.reuse) {
            return Err(usage(
                "--keep and --reuse need all records, but the script deletes some: \
                 leave out delete=, or leave out both options",
            ));
        }
        let mut orders = self.common.orders(context, phases)?;
        orders.job.flow = PhaseFlow::Continuous;
        let report = measure(&orders)?;
        publish(context, self.common.file.as_deref(), &report)
    }
}

/// Returns the default memory limit of a process in bytes, which is a quarter of the data.
fn default_cap(data: u64) -> u64 {
    (data / 4).max(64 << 20)
}

/// Returns an error that reports an invalid command line.
#[must_use]
pub fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    failure(CommandExit::Usage, format!("{error:#}"))
}

impl BenchOptions {
    fn defaults(&self) -> PhaseDefaults {
        PhaseDefaults {
            warm: self.warm,
            run: self.run,
            rate: self.rate.map(|rate| rate as f64),
        }
    }

    /// Returns the options that apply to the chosen engines.
    fn options(&self) -> Result<Vec<EngineOption>> {
        let is_asked = |option: &&EngineOption| self.engines.contains(&option.engine);
        if let Some(option) = self.engine_options.iter().find(|option| !is_asked(option)) {
            return Err(usage(format!(
                "--engine-option {}.{}: {} is not among --engines",
                option.engine, option.name, option.engine
            )));
        }
        let library = self.splinterdb_library.iter().map(|path| EngineOption {
            engine: "splinterdb".to_owned(),
            name: "library".to_owned(),
            value: path.to_string_lossy().into_owned(),
        });
        Ok(library.chain(self.engine_options.iter().cloned()).collect())
    }

    /// Returns the method that caps a process at `bytes` bytes of memory.
    fn cap(&self, bytes: u64) -> CapMethod {
        if self.no_cap {
            return CapMethod::None;
        }
        cap_or_none(bytes)
    }

    fn orders(&self, context: &CommandContext, phases: Vec<WorkloadPhase>) -> Result<RunPlan> {
        let positive = [
            ("--records", self.records),
            ("--threads", self.threads as u64),
            ("--repetitions", self.repetitions as u64),
            ("--rate", self.rate.unwrap_or(1)),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, number)| *number == 0) {
            return Err(usage(format!(
                "{name} 0 leaves nothing to measure: give a number above 0"
            )));
        }
        let least = alluvium_bench::workload::values::LEAST;
        if self.value_bytes < least {
            return Err(usage(format!(
                "--value-bytes {}: give at least {least}, so that values can be verified",
                self.value_bytes
            )));
        }
        require_short(self.value_bytes)?;
        require_once("--engines", &self.engines).map_err(usage)?;
        let WindowLength::Milliseconds(settle_ms) = self.settle else {
            return Err(usage("--settle must be a time, as in 60s"));
        };
        let is_load = |phase: &WorkloadPhase| phase.task == PhaseTask::Load;
        if self.reuse && phases.iter().any(is_load) {
            return Err(usage(
                "--reuse: the records are loaded already; leave the phase load out",
            ));
        }
        let data = self.records * (24 + self.value_bytes as u64);
        let bytes = context.memory.unwrap_or(default_cap(data));
        let cap = self.cap(bytes);
        let job = EngineJob {
            engine: String::new(),
            repetition: 0,
            directory: self.directory.clone(),
            records: self.records,
            keys: KeyOrdering::default(),
            value_bytes: self.value_bytes,
            threads: self.threads,
            phases,
            flow: PhaseFlow::Separate,
            is_loaded: self.reuse,
            seed: self.seed,
            log: if self.without_log {
                WriteLogging::Off
            } else {
                WriteLogging::On
            },
            cap: bytes,
            memory: self.engine_memory.map(|memory| memory.0),
            options: self.options()?,
            settle_ms,
            verify_every: 8,
            interval_ms: 100,
            groups: GroupPaths::default(),
        };
        Ok(RunPlan {
            engines: self.engines.clone(),
            repetitions: self.repetitions,
            loads: if self.load_once {
                LoadFrequency::Once
            } else {
                LoadFrequency::Each
            },
            job,
            cap,
            files: if self.keep || self.reuse {
                FileRetention::Kept
            } else {
                FileRetention::Removed
            },
        })
    }
}

/// Rejects values that are too long to measure.
fn require_short(value_bytes: usize) -> Result<()> {
    let most = alluvium_bench::workload::values::MOST;
    if value_bytes <= most {
        return Ok(());
    }
    Err(usage(format!(
        "--value-bytes {value_bytes}: give at most {most}, because each thread keeps a value in memory"
    )))
}

/// Caps memory with a control group. If control groups are not available, prints a note and returns
/// [`CapMethod::None`].
#[must_use]
pub fn cap_or_none(bytes: u64) -> CapMethod {
    match cgroup::try_cap(bytes) {
        Ok(()) => CapMethod::Group,
        Err(why) => {
            screen::note(&format!(
                "measuring without a memory cap, so the page cache is not limited: {why:#}"
            ));
            CapMethod::None
        }
    }
}

/// Writes the report to the file or the output that the command line specifies.
fn publish(context: &CommandContext, file: Option<&Path>, report: &BenchReport) -> Result<CommandExit> {
    let mut out = ScreenOutput::new();
    if context.is_json() && file.is_none() {
        out.json(&serde_json::to_value(report)?)?;
    } else {
        out.write_all(table::table(report).as_bytes())?;
        let over_time = over_time::text(report);
        if !over_time.is_empty() {
            out.line("")?;
            out.write_all(over_time.as_bytes())?;
        }
    }
    out.flush()?;
    if let Some(file) = file {
        report.write(file)?;
    }
    if report.failures.is_empty() {
        return Ok(CommandExit::Done);
    }
    let failures: Vec<String> = report.failures.iter().map(RepetitionFailure::to_string).collect();
    Err(failure(
        CommandExit::Failed,
        format!(
            "the report does not contain the measurements that failed: {}",
            failures.join("; ")
        ),
    ))
}

/// Measures all engines, after checking that each of them is available.
fn measure(orders: &RunPlan) -> Result<BenchReport> {
    for engine in &orders.engines {
        // All engines must be available before the measurement of the first one starts.
        ScreenRunner.command(engine)?;
    }
    report(&orders.job.directory, described(orders), orders.files, || {
        run::try_options(orders, &ScreenRunner).map_err(|why| usage(format!("--engine-option: {why:#}")))?;
        run::run(orders, &ScreenRunner)
    })
}

/// Prints a description of a measurement, runs it in a directory, and builds a report of the
/// results.
fn report(
    directory: &Path,
    described: Vec<(&'static str, String)>,
    files: FileRetention,
    run: impl FnOnce() -> Result<BenchOutcome>,
) -> Result<BenchReport> {
    let was_there = directory.exists();
    std::fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    let machine = MachineInfo::here(directory);
    for (name, text) in machine.lines().iter().chain(&described) {
        screen::note(&format!("{name}: {text}"));
    }
    let outcome = run();
    if files == FileRetention::Removed && !was_there {
        // The directory is removed only if it is empty.
        let _ = std::fs::remove_dir(directory);
    }
    let outcome = outcome?;
    if outcome.was_stopped {
        if !outcome.rows.is_empty() {
            let so_far = BenchReport::new(machine, Vec::new(), outcome);
            screen::note(&table::table(&so_far));
        }
        return Err(failure(
            CommandExit::Interrupted,
            "stopped; processes and control groups have ended, and files are removed unless they are to be kept",
        ));
    }
    let described = described
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text))
        .collect();
    Ok(BenchReport::new(machine, described, outcome))
}

/// Describes the parameters of a benchmark run in words.
fn described(orders: &RunPlan) -> Vec<(&'static str, String)> {
    let job = &orders.job;
    let data = job.records * job.record_bytes();
    let phases: Vec<&str> = job.phases.iter().map(|phase| phase.name.as_str()).collect();
    vec![
        (
            "data",
            format!(
                "{} records of {} bytes, {}",
                count(job.records),
                job.record_bytes(),
                human(data)
            ),
        ),
        (
            "cap",
            match orders.cap {
                CapMethod::Group => format!("{}, page cache included", human(job.cap)),
                CapMethod::None => format!("none; engines are told {}", human(job.cap)),
            },
        ),
        ("threads", job.threads.to_string()),
        ("phases", phases.join(", ")),
        (
            "loads",
            match orders.loads {
                LoadFrequency::Each => "one for each repetition".to_owned(),
                LoadFrequency::Once => "one; each repetition works on a copy of it".to_owned(),
            },
        ),
        (
            "log",
            format!("{:?}, no sync for each write", job.log).to_lowercase(),
        ),
        ("seed", job.seed.to_string()),
    ]
}

/// A runner that prints progress on the terminal and finds the program in which an engine is
/// measured.
#[derive(Debug)]
pub struct ScreenRunner;

impl BenchRunner for ScreenRunner {
    fn command(&self, engine: &str) -> Result<Command> {
        let engine = kind_of(engine);
        CHILDREN.command(engine, OWN.iter().any(|own| own.name == engine))
    }

    fn study(&self, name: &str) -> Result<Command> {
        let mut command = STUDIES.command(name, false)?;
        command.arg(name);
        Ok(command)
    }
}

/// The arguments that make a program list its engines, and those that make it run as an engine's
/// child process.
struct ChildArguments {
    what: &'static str,
    engines: &'static str,
    child: &'static str,
}

const CHILDREN: ChildArguments = ChildArguments {
    what: "engine",
    engines: "engines",
    child: "child",
};

/// The arguments for studies of other systems. This program contains none of them.
const STUDIES: ChildArguments = ChildArguments {
    what: "study",
    engines: "studies",
    child: "study",
};

impl ChildArguments {
    /// Returns the program that contains an engine. For a built-in engine, it is this program
    /// itself.
    fn command(&self, engine: &str, is_own: bool) -> Result<Command> {
        if is_own {
            let mut command = Command::new(std::env::current_exe().context("looking for this program")?);
            command.args(["bench", self.child]);
            return Ok(command);
        }
        let what = self.what;
        let Some(rivals) = rivals() else {
            let article = if what == "engine" { "an" } else { "a" };
            return Err(usage(format!(
                "{engine} is not {article} {what} of this program, and {RIVALS}, which has more, is neither in the directory of this program nor in PATH: build it with \
                 `cargo build --release --manifest-path research/Cargo.toml -p alluvium-rivals --features all --target-dir target`"
            )));
        };
        let said = Command::new(&rivals)
            .arg(self.engines)
            .output()
            .with_context(|| format!("asking {} for its {}", rivals.display(), self.engines))?;
        let names = String::from_utf8_lossy(&said.stdout).into_owned();
        if !names.lines().any(|name| name == engine) {
            let names: Vec<&str> = names.lines().collect();
            return Err(usage(format!(
                "{} has no {what} {engine:?}, only {}; build it with --features all for the rest",
                rivals.display(),
                names.join(", ")
            )));
        }
        let mut command = Command::new(rivals);
        command.arg(self.child);
        Ok(command)
    }
}

impl RunListener for ScreenRunner {
    fn is_stopped(&self) -> bool {
        stop::asked()
    }

    fn on_event(&self, engine: &str, repetition: usize, event: &ChildEvent) {
        match event {
            ChildEvent::Opened { settings } if repetition == 1 => {
                let settings: Vec<String> = settings
                    .iter()
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect();
                screen::note(&format!("{engine}: {}", settings.join(", ")));
            }
            ChildEvent::Measured(row) if row.operations > 0 => screen::note(&format!(
                "{engine}: {}: {:.1} k/s, {:.2} us of processor time each",
                row.phase,
                row.ops_per_s / 1e3,
                row.cpu_us_per_op
            )),
            ChildEvent::Progress {
                phase,
                operations,
                seconds,
                of,
            } if std::io::stderr().is_terminal() => {
                let of = of.map_or_else(String::new, |of| format!(" of {}", count(of)));
                eprint!(
                    "\r\x1b[K{engine}: {phase}, {}{of} after {seconds:.0} s\r",
                    count(*operations)
                );
            }
            _ => {}
        }
    }

    fn fail(&self, failure: &RepetitionFailure) {
        screen::note(&format!("failed: {failure}"));
    }
}

/// Returns the path of the program that contains the engines of other projects. Looks in this
/// program's directory, then in PATH.
fn rivals() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok();
    let beside = beside
        .as_deref()
        .and_then(Path::parent)
        .map(|folder| folder.join(RIVALS));
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(std::env::split_paths(&path).map(|folder| folder.join(RIVALS)))
        .find(|file| file.is_file())
}
