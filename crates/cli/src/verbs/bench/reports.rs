//! `bench compare` and `bench table`: process existing reports.

use super::usage;
use crate::context::CommandContext;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::{self, ScreenOutput};
use alluvium_bench::report::compare::compare;
use alluvium_bench::report::{BenchReport, table};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Two reports.
#[derive(Args, Debug)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareCommand {
    /// The earlier report.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The later report.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// List figures that differ by more than this percentage.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub by: f64,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  alluvium bench compare yesterday.json today.json
  alluvium bench compare yesterday.json today.json --by 10 --json

The exit code is 1 if something became worse, and 0 otherwise.";

/// Reports.
#[derive(Args, Debug)]
#[command(after_help = TABLE_EXAMPLES)]
pub struct TableCommand {
    /// The reports, of several engines or numbers of threads. If two reports contain the same
    /// measurement of an engine, each gets a column, the later one with the name of its file.
    #[arg(value_name = "REPORT", required = true)]
    pub reports: Vec<PathBuf>,
}

const TABLE_EXAMPLES: &str = "\
Examples:
  alluvium bench table alluvium.json rocksdb.json > table.md";

impl CompareCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let (before, after) = (BenchReport::read(&self.before)?, BenchReport::read(&self.after)?);
        let found = compare(&before, &after, self.by / 100.0);
        let is_worse = found.iter().any(|difference| difference.worse > 0.0);
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&serde_json::to_value(&found)?)?;
        } else {
            for difference in &found {
                out.line(&difference.to_string())?;
            }
        }
        out.flush()?;
        if found.is_empty() {
            screen::note(&format!("nothing differs by more than {} %", self.by));
        }
        Ok(if is_worse {
            CommandExit::NotFound
        } else {
            CommandExit::Done
        })
    }
}

impl TableCommand {
    pub(super) fn run(&self) -> Result<CommandExit> {
        let (first, others) = self
            .reports
            .split_first()
            .ok_or_else(|| usage("there is no report to show"))?;
        let mut whole = BenchReport::read(first)?;
        for file in others {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            whole.join(BenchReport::read(file)?, &name);
        }
        let mut out = ScreenOutput::new();
        out.write_all(table::markdown(&whole).as_bytes())?;
        out.flush()?;
        Ok(CommandExit::Done)
    }
}
