//! `bench transactions`: measures many clients' concurrent transactions, on Alluvium and on other
//! engines.

use super::{ChildArguments, ScreenRunner, cap_or_none, publish, report, usage};
use crate::context::CommandContext;
use crate::terminal::exit::CommandExit;
use crate::values::sizes::{count, human};
use alluvium_bench::engine::require_once;
use alluvium_bench::run::{
    BenchRunner, CapMethod, ChildEvent, FileRetention, GroupPaths, RepetitionFailure, RunListener,
};
use alluvium_bench::transactions::phase::{DEFAULT, TransactionPhase};
use alluvium_bench::transactions::{self, OWN, TransactionJob, TransactionPlan};
use alluvium_bench::workload::phase::{WindowLength, parse_amount, parse_records};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::Command;

const EXAMPLES: &str = "\
Examples:
  alluvium bench transactions --phases commit:1,commit:64,commit:512
  alluvium bench transactions --engines alluvium,alluvium-locking,rocksdb --phases rmw:1,rmw:16,rmw:64 --json report.json
  alluvium bench transactions --phases txn-size:pair=32,group-commit:512    # the phases of the GTSSL thesis

Each engine runs in a process of its own. --memory limits a process, page cache included [default: 1G].

The other engines are in a second program, alluvium-rivals, in the directory of alluvium or in PATH:
  cargo build --release --manifest-path research/Cargo.toml -p alluvium-rivals --features all --target-dir target";

/// Measure transactions. `--memory` is the cap of a process, page cache included [default: 1 GiB].
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BenchTransactionsCommand {
    /// The engines, separated by commas: alluvium (serializable, optimistic), alluvium-locking,
    /// alluvium-snapshot, rocksdb (locking), rocksdb-optimistic, fjall (optimistic), redb and
    /// sqlite (one writer).
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "alluvium")]
    pub engines: Vec<String>,
    /// The phases, separated by commas: commit, one put of a new key; txn-size, four puts into four
    /// keyspaces; group-commit, the same with 1 KiB each; rmw, which adds one to two counters.
    /// Words after a colon, joined by +, change a phase: a number sets the clients; pair= the bytes
    /// of a key and its value; keys= the counters per transaction; sorted accesses the counters in
    /// key order; later acknowledges commits before the sync.
    #[arg(long, value_name = "PHASES", value_delimiter = ',', default_value = DEFAULT)]
    pub phases: Vec<String>,
    /// The number of counters, among which transactions choose by Zipf's law.
    #[arg(long, value_name = "N", default_value = "10k", value_parser = parse_records)]
    pub counters: u64,
    /// The number of times to repeat the benchmark; the report shows the medians. Every other
    /// repetition runs the engines in reverse order.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub repetitions: usize,
    /// The warm-up before each phase: transactions, as in 20k, or a time, as in 1s.
    #[arg(long, value_name = "AMOUNT", default_value = "1s", value_parser = parse_amount)]
    pub warm: WindowLength,
    /// The measured part of each phase: transactions, as in 20k, or a time, as in 4s.
    #[arg(long, value_name = "AMOUNT", default_value = "4s", value_parser = parse_amount)]
    pub run: WindowLength,
    /// The seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Do not limit memory with a control group: engines are told the cap, but the page cache is
    /// not limited. This is the default, with a note, if control groups are not available, as
    /// without root.
    #[arg(long)]
    pub no_cap: bool,
    /// The directory for the engines' files, which are removed at the end.
    #[arg(long, value_name = "PATH", default_value = "alluvium-bench-data")]
    pub directory: PathBuf,
    /// The JSON file for the report. Plots (SVG) and a page with everything (HTML) are written next
    /// to it. Without it, --json prints the report.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Default memory limit in bytes. The thesis gave all engines a cache of this size.
const MEMORY: u64 = 1 << 30;

impl BenchTransactionsCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let orders = self.orders(context)?;
        let runner = TransactionRunner(ScreenRunner);
        for engine in &orders.engines {
            // All engines must be available before the measurement of the first one starts.
            runner.command(engine)?;
        }
        let report = report(
            &self.directory,
            described(&orders),
            FileRetention::Removed,
            || transactions::run(&orders, &runner),
        )?;
        publish(context, self.file.as_deref(), &report)
    }

    fn orders(&self, context: &CommandContext) -> Result<TransactionPlan> {
        let positive = [
            ("--counters", self.counters),
            ("--repetitions", self.repetitions as u64),
            ("--run", u64::from(!self.run.is_nothing())),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, number)| *number == 0) {
            return Err(usage(format!(
                "{name} 0 leaves nothing to measure: give a number above 0"
            )));
        }
        require_once("--engines", &self.engines).map_err(usage)?;
        let phases = self
            .phases
            .iter()
            .map(|text| TransactionPhase::parse(text).map_err(usage));
        let cap = context.memory.unwrap_or(MEMORY);
        Ok(TransactionPlan {
            engines: self.engines.clone(),
            repetitions: self.repetitions,
            cap: if self.no_cap {
                CapMethod::None
            } else {
                cap_or_none(cap)
            },
            job: TransactionJob {
                engine: String::new(),
                repetition: 0,
                directory: self.directory.clone(),
                counters: self.counters,
                phases: phases.collect::<Result<_>>()?,
                warm: self.warm,
                run: self.run,
                seed: self.seed,
                cap,
                memory: None,
                interval_ms: 100,
                groups: GroupPaths::default(),
            },
        })
    }
}

/// Describes the parameters of a transaction benchmark in words.
fn described(orders: &TransactionPlan) -> Vec<(&'static str, String)> {
    let job = &orders.job;
    let phases: Vec<&str> = job.phases.iter().map(|phase| phase.name.as_str()).collect();
    vec![
        (
            "cap",
            match orders.cap {
                CapMethod::Group => format!("{}, page cache included", human(job.cap)),
                CapMethod::None => format!("none; engines are told {}", human(job.cap)),
            },
        ),
        ("phases", phases.join(", ")),
        ("counters", format!("{}, Zipf 0.99", count(job.counters))),
        ("commits", "synced, except in phases with later".to_owned()),
        ("seed", job.seed.to_string()),
    ]
}

/// The arguments of child processes that measure transactions.
const CHILDREN: ChildArguments = ChildArguments {
    what: "engine",
    engines: "transactional-engines",
    child: "transactions-child",
};

/// A runner that prints progress and finds the program in which an engine is measured.
struct TransactionRunner(ScreenRunner);

impl BenchRunner for TransactionRunner {
    fn command(&self, engine: &str) -> Result<Command> {
        CHILDREN.command(engine, OWN.iter().any(|own| own.name == engine))
    }
}

impl RunListener for TransactionRunner {
    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }

    fn on_event(&self, engine: &str, repetition: usize, event: &ChildEvent) {
        self.0.on_event(engine, repetition, event);
    }

    fn fail(&self, failure: &RepetitionFailure) {
        self.0.fail(failure);
    }
}
