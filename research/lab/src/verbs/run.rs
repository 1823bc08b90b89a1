//! `alluvium-lab run`: measures experiments and stores the results.

use super::{LabContext, ResultsDirectory};
use alluvium_bench::run::CapMethod;
use alluvium_bench::workload::phase::{WindowLength, parse_amount, parse_records};
use alluvium_cli::kit::{CommandExit, ScreenOutput, ScreenRunner, cap_or_none, failure, listen, note, usage};
use alluvium_lab::{
    Experiment, ExperimentMethod, ExperimentResults, RunEnvironment, RunRequest, RunSize, ScaleOverrides,
};
use anyhow::Result;
use clap::Args;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

/// Some experiments.
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct LabRunCommand {
    /// The experiments, as `alluvium-lab list` names them.
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Run for seconds: small data, which does not keep the document's ratio to memory. This is the
    /// default.
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Run for minutes to hours: a tenth of the document's data, up to 8 GB.
    #[arg(long)]
    pub(crate) full: bool,
    /// The engines, separated by commas; those other than alluvium are in the program
    /// alluvium-rivals.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "alluvium")]
    pub(crate) engines: Vec<String>,
    /// The number of records, or keys [default: that of the size].
    #[arg(long, value_name = "N", value_parser = parse_records)]
    pub(crate) records: Option<u64>,
    /// The warm-up before each phase: operations, as in 20M, or a time, as in 8s [default: that of
    /// the size].
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount)]
    pub(crate) warm: Option<WindowLength>,
    /// The measured part of each phase [default: that of the size].
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount)]
    pub(crate) run: Option<WindowLength>,
    /// The maximum time for an engine's background work after a load [default: that of the size].
    #[arg(long, value_name = "TIME", value_parser = parse_amount)]
    pub(crate) settle: Option<WindowLength>,
    /// Do not limit memory with a control group: engines are configured for the memory, but the
    /// page cache is unlimited. This is also the case, with a note, when the program does not run
    /// as root.
    #[arg(long)]
    pub(crate) no_cap: bool,
    /// The directory for the stores, which are removed at the end; it must be empty, or not exist
    /// yet.
    #[arg(long, value_name = "PATH", default_value = "alluvium-lab-data")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) place: ResultsDirectory,
}

const RUN_EXAMPLES: &str = "\
Examples:
  alluvium-lab run seed-0/S5
  alluvium-lab run seed-0/S7 seed-0/S8 --full --directory /fast-disk/lab
  alluvium-lab run seed-0/S1 --engines alluvium,rocksdb    # quotients need both

--memory is what a process may take in all, page cache included [default: as the size says].";

/// Maximum length of an id; longer arguments are shortened in error messages.
const MOST_LETTERS: usize = 60;

impl LabRunCommand {
    pub(super) fn run(&self, context: &LabContext) -> Result<CommandExit> {
        // Validate all experiments before measuring the first.
        let mut all = Vec::new();
        for id in &self.ids {
            let experiment = find(id)?;
            let request = self.request(context, experiment);
            alluvium_lab::check(experiment, &request).map_err(usage)?;
            all.push((experiment, request));
        }
        self.place.check()?;
        if all.iter().any(|(experiment, _)| makes_stores(experiment)) {
            self.check_directory()?;
        }
        listen()?;
        let mut failures = Vec::new();
        let mut values = Vec::new();
        for (experiment, request) in all {
            let results = self.run_one(experiment, &request)?;
            let path = results.write(&self.place.results, experiment)?;
            note(&format!("{} is in {}", experiment.id, path.display()));
            for remark in &results.measured.notes {
                note(&format!("{}: {remark}", experiment.id));
            }
            failures.extend(
                results
                    .failures
                    .iter()
                    .map(|failure| format!("{}: {failure}", experiment.id)),
            );
            if context.json {
                values.push(serde_json::to_value(&results)?);
            } else {
                print(experiment, &results)?;
            }
        }
        if context.json {
            let mut out = ScreenOutput::new();
            out.json(&Value::Array(values))?;
            out.flush()?;
        }
        if failures.is_empty() {
            return Ok(CommandExit::Done);
        }
        Err(failure(
            CommandExit::Failed,
            format!("the results lack what failed: {}", failures.join("; ")),
        ))
    }

    fn request(&self, context: &LabContext, experiment: &Experiment) -> RunRequest {
        RunRequest {
            size: self.size(),
            wanted: ScaleOverrides {
                records: self.records,
                cap: context.memory.map(|memory| memory.0),
                warm: self.warm,
                run: self.run,
                settle: self.settle,
            },
            engines: self.engines.clone(),
            directory: self.directory.clone(),
            command: self.command(context, experiment),
        }
    }

    fn run_one(&self, experiment: &'static Experiment, request: &RunRequest) -> Result<ExperimentResults> {
        let cap = |bytes: u64| {
            if self.no_cap {
                CapMethod::None
            } else {
                cap_or_none(bytes)
            }
        };
        let surroundings = RunEnvironment {
            runner: &ScreenRunner,
            cap: &cap,
            say: &|text| note(text),
        };
        let was_there = self.directory.exists();
        let results = alluvium_lab::run(experiment, request, surroundings);
        if !was_there {
            // Removes the directory only if it is empty.
            let _ = fs::remove_dir(&self.directory);
        }
        results?.ok_or_else(|| {
            failure(
                CommandExit::Interrupted,
                format!(
                    "stopped: {} has no results, and its files are gone",
                    experiment.id
                ),
            )
        })
    }

    fn size(&self) -> RunSize {
        if self.full { RunSize::Full } else { RunSize::Quick }
    }

    /// Rejects a directory that is not empty, because new files could collide with existing ones.
    fn check_directory(&self) -> Result<()> {
        let path = self.directory.display();
        let mut entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(usage(format!("--directory {path}: {error}"))),
        };
        if entries.next().is_some() {
            return Err(usage(format!(
                "--directory {path}: it is not empty; name a directory that is, or one that is not there yet"
            )));
        }
        Ok(())
    }

    /// Returns the command line that repeats this run.
    fn command(&self, context: &LabContext, experiment: &Experiment) -> String {
        let mut command = format!("alluvium-lab run {} --{}", experiment.id, self.size().name());
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                command.push_str(&format!(" --{name} {value}"));
            }
        };
        let amount = |amount: WindowLength| match amount {
            WindowLength::Operations(operations) => operations.to_string(),
            WindowLength::Milliseconds(milliseconds) => format!("{milliseconds}ms"),
        };
        let is_engines = matches!(experiment.work, ExperimentMethod::Engines(_));
        let engines = self.engines.join(",");
        add(
            "engines",
            (is_engines && engines != "alluvium").then_some(engines),
        );
        add("records", self.records.map(|records| records.to_string()));
        if is_engines {
            add("warm", self.warm.map(amount));
            add("run", self.run.map(amount));
            add("settle", self.settle.map(amount));
            add("memory", context.memory.map(|memory| memory.0.to_string()));
            if self.no_cap {
                command.push_str(" --no-cap");
            }
        }
        command
    }
}

/// Returns the experiment with this id, if it can be run.
fn find(id: &str) -> Result<&'static Experiment> {
    let Some(experiment) = alluvium_lab::find(id) else {
        let id: String = id.chars().take(MOST_LETTERS).collect();
        return Err(usage(format!(
            "ID {id:?}: there is no such experiment; `alluvium-lab list` says which there are"
        )));
    };
    if let Some(structure) = experiment.waits_for() {
        return Err(failure(
            CommandExit::Failed,
            format!(
                "{} cannot be run yet: it waits for {structure}, which is not built",
                experiment.id
            ),
        ));
    }
    Ok(experiment)
}

/// Returns whether the experiment creates files: stores of engines, or files of a study.
fn makes_stores(experiment: &Experiment) -> bool {
    matches!(
        experiment.work,
        ExperimentMethod::Engines(_) | ExperimentMethod::Study(_)
    )
}

/// Prints published figures and ours as a table.
fn print(experiment: &Experiment, results: &ExperimentResults) -> Result<()> {
    let mut rows = Vec::new();
    for measure in experiment.measures {
        let lines = results.lines(measure.name);
        let names = measure.published.iter().map(|published| published.name);
        let names: Vec<&str> = names.collect();
        let ours: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        for place in alluvium_lab::places(measure, lines) {
            rows.push(vec![
                measure.name.to_owned(),
                place.at.to_string(),
                joined(&names, &place.published),
                joined(&ours, &place.ours),
                measure.unit.to_owned(),
            ]);
        }
    }
    let mut out = ScreenOutput::new();
    out.table(&["measure", "at", "published", "ours", "unit"], &rows)?;
    Ok(out.flush()?)
}

/// Joins the values, each with the name of its series.
fn joined(names: &[&str], values: &[String]) -> String {
    let named = names.iter().zip(values).filter(|(_, value)| !value.is_empty());
    let named: Vec<String> = named.map(|(name, value)| format!("{name}: {value}")).collect();
    if named.is_empty() {
        return "-".to_owned();
    }
    named.join("; ")
}
