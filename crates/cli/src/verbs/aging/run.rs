//! `aging run`: ages file systems with a workload.

use super::told;
use super::warm::MemoryLimit;
use crate::context::CommandContext;
use crate::jobs::{progress, stop};
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::sizes::{self, ByteSize};
use crate::verbs::bench::usage;
use alluvium_aging::measure::grep::GrepReader;
use alluvium_aging::run::constants::ConstantsPlan;
use alluvium_aging::run::runner::RunSetup;
use alluvium_aging::run::{
    self as runs, AgingPlan, AgingRow, CacheMode, RunListener, RunState, TreeAge, WorkloadKind,
    WorkloadSettings, plots, report,
};
use alluvium_aging::volumes::file_system::FileSystemKind;
use alluvium_aging::volumes::own_mount::OwnProgram;
use alluvium_aging::workload::git::GarbageCollection;
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  alluvium aging run intrafile --size 1G
  alluvium aging run interfile --every 5 --read-ahead 0
  alluvium aging run git --gc off --steps 500 --every 50 --repository ~/linux
  alluvium aging run mail --scale 10 --steps 20 --file-systems ext4,alluvium
  alluvium aging run git --file-systems btrfs --node-sizes 4K,8K,16K,32K,64K
  alluvium aging run mail --dir /mnt/any        # any file system, without device counts
  alluvium aging run git --warm 512M            # page cache and programs within 512 MiB

Each file system lies in a sparse image behind a loop device; this needs root. The run formats, mounts and detaches only images that it created. \
After Ctrl-C, the same command continues the run. A table is printed; measurements (CSV), plots (SVG) and the state are in the directory \
of --output.";

/// Memory of a mounted store unless --memory is given.
const OWN_MEMORY: u64 = 256 << 20;

/// Age file systems with a workload. Measure a recursive grep of the aged files, and of a copy on a
/// new file system.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct AgingRunCommand {
    /// The workload.
    #[arg(value_name = "WORKLOAD")]
    pub workload: WorkloadChoice,
    /// The file systems, separated by commas: ext4, xfs, btrfs, btrfs-4K to btrfs-64K (the length
    /// of nodes), alluvium (a store on ext4).
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "ext4,xfs,btrfs,alluvium"
    )]
    pub file_systems: Vec<FileSystemKind>,
    /// Replace btrfs by one file system for each of these lengths of nodes.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = sizes::parse)]
    pub node_sizes: Vec<ByteSize>,
    /// Age a directory of any file system instead, below which a new directory is made.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file_systems", "node_sizes", "size", "read_ahead"])]
    pub dir: Option<PathBuf>,
    /// The size of each image. Two exist at a time, and take the space of their contents.
    #[arg(long, value_name = "SIZE", default_value = "20G", value_parser = sizes::parse)]
    pub size: ByteSize,
    /// The last step: passes, percent out of order, pulls or days [default: 100, or 2000 pulls].
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// The number of steps between measurements [default: 10 passes or percent, 100 pulls, 1 day].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// The amount of data and of changes, in percent of the published experiments. `intrafile` is
    /// always of the published size.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub scale: u64,
    /// The seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The read-ahead of the kernel; 0 turns it off. Large ones hide fragmentation.
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = sizes::parse)]
    pub read_ahead: ByteSize,
    /// The time between the mount and the test, in seconds. The published one is 90 for
    /// `intrafile`.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub settle: u64,
    /// Read aged files as the workload left the caches, with this limit of memory.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub warm: Option<ByteSize>,
    /// Whether Git collects garbage by itself.
    #[arg(long, value_name = "WHEN", default_value = "on")]
    pub gc: GarbageChoice,
    /// The repository that `git` pulls from [default: a synthetic history].
    #[arg(long, value_name = "PATH")]
    pub repository: Option<PathBuf>,
    /// The tree whose file names `interfile` uses [default: 8,000 synthetic ones].
    #[arg(long, value_name = "DIR")]
    pub names: Option<PathBuf>,
    /// The length of the files of `interfile`.
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = sizes::parse)]
    pub file_size: ByteSize,
    /// The directory for results and the state [default: alluvium-aging-WORKLOAD].
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The directory for images [default: that of --output].
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// Begin again instead of continuing an interrupted run.
    #[arg(long)]
    pub restart: bool,
}

/// The workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadChoice {
    /// Ten files of 400 KiB grow in turns.
    Intrafile,
    /// Small files are created in an order that differs more and more from that of their names.
    Interfile,
    /// A repository is pulled again and again.
    Git,
    /// A mail server delivers and deletes messages in Maildir directories.
    Mail,
}

/// Whether Git collects garbage by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GarbageChoice {
    On,
    Off,
}

impl From<WorkloadChoice> for WorkloadKind {
    fn from(choice: WorkloadChoice) -> WorkloadKind {
        match choice {
            WorkloadChoice::Intrafile => WorkloadKind::Intrafile,
            WorkloadChoice::Interfile => WorkloadKind::Interfile,
            WorkloadChoice::Git => WorkloadKind::Git,
            WorkloadChoice::Mail => WorkloadKind::Mail,
        }
    }
}

impl AgingRunCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let plan = self.plan()?;
        let setup = self.setup(context, &plan)?;
        if self.restart {
            forget(&setup.output)?;
        }
        let limit = plan.warm_bytes.map(MemoryLimit::apply).transpose()?;
        let mut screen = ScreenListener::new(&plan);
        let state = runs::run(&plan, &setup, &stop::asked, &mut screen);
        screen.bar.finish_and_clear();
        drop(limit);
        let state = state.map_err(|error| match error {
            alluvium_aging::Error::Stopped => failure(
                CommandExit::Interrupted,
                "stopped: mounts and loop devices are released, and the same command continues the run",
            ),
            error => told(error),
        })?;
        publish(context, &setup.output, &state)?;
        Ok(CommandExit::Done)
    }

    fn plan(&self) -> Result<AgingPlan> {
        let kind = WorkloadKind::from(self.workload);
        let absolute = |path: &Option<PathBuf>| -> Result<Option<PathBuf>> {
            let found = path.as_ref().map(std::fs::canonicalize).transpose();
            found.with_context(|| format!("finding {:?}", path.as_deref().unwrap_or(Path::new(""))))
        };
        let kib = self.read_ahead.0 / 1024;
        Ok(AgingPlan {
            workload: WorkloadSettings {
                steps: self.steps.unwrap_or(kind.default_steps()),
                interval: self.every.unwrap_or(kind.default_interval()),
                scale_percent: self.scale,
                file_bytes: self.file_size.0,
                names: absolute(&self.names)?,
                repository: absolute(&self.repository)?,
                collection: match self.gc {
                    GarbageChoice::On => GarbageCollection::On,
                    GarbageChoice::Off => GarbageCollection::Off,
                },
                ..WorkloadSettings::published(kind, self.seed)
            },
            file_systems: match &self.dir {
                Some(_) => Vec::new(),
                None => self.file_system_names()?,
            },
            directory: absolute(&self.dir)?,
            image_bytes: self.size.0,
            read_ahead_kib: u32::try_from(kib).map_err(|_| usage("--read-ahead is too large"))?,
            caches: match self.warm {
                Some(_) => CacheMode::Warm,
                None => CacheMode::Cold,
            },
            warm_bytes: self.warm.map(|bytes| bytes.0),
            settle_s: self.settle,
        })
    }

    fn file_system_names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for kind in &self.file_systems {
            match kind {
                FileSystemKind::Btrfs(None) if !self.node_sizes.is_empty() => {
                    for ByteSize(bytes) in &self.node_sizes {
                        let name = format!("btrfs-{}K", bytes / 1024);
                        let kind: FileSystemKind = name.parse().map_err(usage)?;
                        names.push(kind.to_string());
                    }
                }
                kind => names.push(kind.to_string()),
            }
        }
        Ok(names)
    }

    fn setup(&self, context: &CommandContext, plan: &AgingPlan) -> Result<RunSetup> {
        let named = || PathBuf::from(format!("alluvium-aging-{}", plan.workload.kind));
        let output = self.output.clone().unwrap_or_else(named);
        std::fs::create_dir_all(&output).with_context(|| format!("creating {}", output.display()))?;
        Ok(RunSetup {
            work: self.work.clone().unwrap_or_else(|| output.join("work")),
            output,
            program: OwnProgram {
                binary: std::env::current_exe().context("finding this program")?,
                memory: context.memory.unwrap_or(OWN_MEMORY),
            },
            reader: GrepReader::preferred(),
            constants: ConstantsPlan::default(),
        })
    }
}

/// Removes the state of an earlier run. Its images are replaced as the run needs their names.
fn forget(output: &Path) -> Result<()> {
    let path = output.join(runs::state::FILE);
    if path.exists() {
        std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

/// Shows the progress of a run on standard error.
struct ScreenListener {
    bar: ProgressBar,
}

impl ScreenListener {
    fn new(plan: &AgingPlan) -> ScreenListener {
        ScreenListener {
            bar: progress::steps(plan.workload.steps),
        }
    }
}

impl RunListener for ScreenListener {
    fn note(&mut self, text: &str) {
        self.bar.suspend(|| screen::note(text));
    }

    fn step(&mut self, file_system: &str, step: u64, _: u64) {
        self.bar.set_message(file_system.to_owned());
        self.bar.set_position(step);
    }

    fn measured(&mut self, file_system: &str, row: &AgingRow) {
        let age = match row.age {
            TreeAge::Aged => "aged",
            TreeAge::Unaged => "unaged",
        };
        self.note(&format!(
            "{file_system}: step {}, {age}: {:.2} s/GiB, score {}, {} device reads",
            row.step,
            row.seconds_per_gib,
            super::figure(row.score(), 3),
            row.read_requests.map_or_else(|| "–".to_owned(), sizes::count)
        ));
    }
}

/// Writes the results to the directory of the output, and prints the summary.
fn publish(context: &CommandContext, output: &Path, state: &RunState) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = output.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write("measurements.csv", &report::csv(state))?;
    for (name, svg) in plots::plots(state).map_err(told)? {
        write(name, &svg)?;
    }
    let mut out = ScreenOutput::new();
    let overall = report::overall_correlations(state);
    if context.is_json() {
        out.json(&serde_json::json!({
            "workload": state.plan.workload.kind.to_string(),
            "model": state.model,
            "file_systems": serde_json::to_value(report::summaries(state))?,
            "time_correlation": serde_json::to_value(overall[0])?,
            "request_correlation": serde_json::to_value(overall[1])?,
        }))?;
    } else {
        out.write_all(report::markdown(state).as_bytes())?;
        if let Some(model) = state.model {
            out.line(&format!(
                "\nmodel: seek {:.1} µs, {:.0} MiB/s",
                model.seek_s * 1e6,
                model.bytes_per_s / f64::from(1 << 20)
            ))?;
        }
        for (cost, found) in ["time", "device reads"].iter().zip(overall) {
            out.line(&format!(
                "score and {cost}, all file systems: Pearson {}, Spearman {}, {} measurements",
                super::figure(found.pearson, 2),
                super::figure(found.spearman, 2),
                found.measurements
            ))?;
        }
    }
    out.flush()?;
    Ok(())
}
