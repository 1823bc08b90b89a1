//! `aging`: measures how file systems age.
//!
//! *Scope*: the command line, the progress during a run, and the output of results.
//!
//! *Must not depend on*: how anything is measured; that is left to `alluvium_aging`.

mod dls;
mod grep_test;
mod layout;
mod nts;
mod run;
mod warm;

use crate::context::CommandContext;
use crate::jobs::stop;
use crate::terminal::exit::{CommandExit, failure};
use alluvium_aging::Error;
use anyhow::Result;
use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  alluvium aging nts /mnt/disk               # bandwidth by the length of reads, on the device of a directory
  alluvium aging grep-test ~/src             # seconds per GiB of a recursive grep with cold caches
  alluvium aging layout ~/src --svg src.svg  # where the blocks of files lie
  alluvium aging dls ~/src                   # dynamic layout score of the same grep
  alluvium aging run mail --steps 20 --scale 10 --size 4G

Only `run` writes, and only to image files that it creates itself, or to a new directory below that of --dir. docs/aging.md describes the \
measures.";

/// Measure how the layout of any file system deteriorates with use, and what that costs.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct AgingCommand {
    /// What to measure.
    #[command(subcommand)]
    pub action: AgingAction,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum AgingAction {
    /// Measure bandwidth by the length of reads, and the natural transfer sizes.
    Nts(nts::NtsCommand),
    /// Measure how long a recursive grep of a directory takes with cold caches.
    GrepTest(grep_test::GrepTestCommand),
    /// Show how the blocks of files lie on the device.
    Layout(layout::LayoutCommand),
    /// Compute the dynamic layout score: the share of reads that continue the previous one.
    Dls(dls::DlsCommand),
    /// Age file systems with a workload, and measure them on the way.
    Run(Box<run::AgingRunCommand>),
}

impl AgingCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        // The probe of a directory listens by itself.
        if !matches!(self.action, AgingAction::Nts(_)) {
            stop::listen()?;
        }
        match &self.action {
            AgingAction::Nts(verb) => verb.run(context),
            AgingAction::GrepTest(verb) => verb.run(context),
            AgingAction::Layout(verb) => verb.run(context),
            AgingAction::Dls(verb) => verb.run(context),
            AgingAction::Run(verb) => verb.run(context),
        }
    }
}

/// Converts an error of a measurement to one with an exit code.
fn told(error: Error) -> anyhow::Error {
    match error {
        Error::Stopped => failure(
            CommandExit::Interrupted,
            "stopped: mounts and loop devices are released",
        ),
        Error::Io { ref source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            failure(CommandExit::NotFound, error.to_string())
        }
        error => anyhow::Error::new(error),
    }
}

/// Formats a share or a factor, or a dash if it is unknown.
fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}
