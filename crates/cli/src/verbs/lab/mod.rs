//! `lab`: the experiments of the research that Alluvium builds on.
//!
//! *Knows*: what may be asked for on the command line, where results and stores are kept, and what
//! is printed.
//!
//! *Does not know*: the experiments, and how they are measured and shown; that is
//! `alluvium_bench::lab`.
//!
//! *Read in this order*: this file, `list.rs`, `run.rs`, `report.rs`, `oracles.rs`.

mod list;
mod oracles;
mod report;
mod run;

use super::bench::usage;
use crate::Exit;
use crate::context::Context;
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  alluvium lab list
  alluvium lab run seed-0/S5 --quick
  alluvium lab report
  alluvium lab oracles";

/// Run the experiments of the research it builds on, and show published figures and ours side by
/// side.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Lab {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What the Lab can do.
#[derive(Debug, Subcommand)]
pub enum What {
    /// List all experiments: what they measure, where they were published, and whether they have
    /// results.
    List(list::Verb),
    /// Run experiments, and keep what they measure.
    Run(Box<run::Verb>),
    /// Compute numbers of the research by our models, and print both as Markdown.
    Oracles(oracles::Verb),
    /// Write one page of HTML with published figures and ours side by side.
    Report(report::Verb),
}

/// Where results are.
#[derive(Args, Debug)]
pub struct Place {
    /// The directory with the results.
    #[arg(long, value_name = "PATH", default_value = "alluvium-lab")]
    pub results: PathBuf,
}

impl Lab {
    pub(crate) fn run(self, context: &Context) -> Result<Exit> {
        match self.what {
            What::List(verb) => verb.run(context),
            What::Run(verb) => verb.run(context),
            What::Oracles(verb) => verb.run(context),
            What::Report(verb) => verb.run(),
        }
    }
}

impl Place {
    /// Refuses a file where a directory is wanted.
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
