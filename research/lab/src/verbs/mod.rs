//! The subcommands of the program, a file for each.

mod features;
mod list;
mod oracles;
mod report;
mod run;

use alluvium_cli::kit::{self, ByteSize, CommandExit, usage};
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  alluvium-lab list
  alluvium-lab run seed-0/S5 --quick
  alluvium-lab report
  alluvium-lab oracles";

/// Run the experiments of the research that Alluvium builds on, and show published figures and ours
/// side by side.
#[derive(Debug, Parser)]
#[command(name = "alluvium-lab", version, after_help = EXAMPLES)]
pub(crate) struct LabArguments {
    #[command(flatten)]
    context: LabContext,
    /// What to do.
    #[command(subcommand)]
    what: LabCommand,
}

/// The context shared by all subcommands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LabContext {
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    json: bool,
    /// The memory limit of a measured process, page cache included, as in 512M or 2G [default: the
    /// limit of the experiment's size].
    #[arg(long, global = true, value_name = "SIZE", value_parser = kit::parse)]
    memory: Option<ByteSize>,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
enum LabCommand {
    /// List all experiments: what they measure, where they were published, and whether they have
    /// results.
    List(list::LabListCommand),
    /// Run experiments, and keep what they measure.
    Run(Box<run::LabRunCommand>),
    /// Print the features of the systems of a document and of Alluvium as Markdown, with the tests
    /// that prove ours.
    Features(features::LabFeaturesCommand),
    /// Compute numbers of the research by our models, and print both as Markdown.
    Oracles(oracles::LabOraclesCommand),
    /// Write one page of HTML with published figures and ours side by side.
    Report(report::LabReportCommand),
    /// Be the child in which an engine is measured; the runner starts it.
    #[command(subcommand, hide = true)]
    Bench(ChildCommand),
}

/// The words by which the runner starts its children.
#[derive(Clone, Copy, Debug, Subcommand)]
enum ChildCommand {
    /// Read a job from standard input, and do it.
    Child,
}

/// Where results are.
#[derive(clap::Args, Debug)]
pub(crate) struct ResultsDirectory {
    /// The directory with the results.
    #[arg(long, value_name = "PATH", default_value = "alluvium-lab")]
    pub(crate) results: PathBuf,
}

impl LabArguments {
    pub(crate) fn run(self) -> Result<CommandExit> {
        let context = &self.context;
        match self.what {
            LabCommand::List(verb) => verb.run(context),
            LabCommand::Run(verb) => verb.run(context),
            LabCommand::Features(verb) => verb.run(context),
            LabCommand::Oracles(verb) => verb.run(context),
            LabCommand::Report(verb) => verb.run(),
            LabCommand::Bench(ChildCommand::Child) => Ok(kit::run_child()),
        }
    }
}

impl ResultsDirectory {
    /// Rejects a path that exists and is not a directory.
    fn check(&self) -> Result<()> {
        if self.results.exists() && !self.results.is_dir() {
            return Err(usage(format!(
                "--results {}: that is a file, and results are kept in a directory",
                self.results.display()
            )));
        }
        Ok(())
    }
}
