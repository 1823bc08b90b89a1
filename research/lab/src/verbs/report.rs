//! `alluvium-lab report`: writes a page of published figures and ours.

use super::ResultsDirectory;
use alluvium_cli::kit::{CommandExit, failure, note};
use alluvium_lab::{ExperimentResults, GENERATOR, ReportEntry, RunSize};
use anyhow::{Context as _, Result};
use clap::Args;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The page.
#[derive(Args, Debug)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct LabReportCommand {
    /// The page to write [default: report.html in the results directory].
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: ResultsDirectory,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  alluvium-lab report
  alluvium-lab report page.html --results measured-on-monday";

impl LabReportCommand {
    pub(super) fn run(&self) -> Result<CommandExit> {
        self.place.check()?;
        let results = &self.place.results;
        let mut entries = Vec::new();
        for experiment in alluvium_lab::experiments() {
            let full = ExperimentResults::read(results, experiment, RunSize::Full)?;
            let found = match full {
                Some(found) => Some(found),
                None => ExperimentResults::read(results, experiment, RunSize::Quick)?,
            };
            entries.push(ReportEntry {
                experiment,
                results: found,
            });
        }
        let count = entries.iter().filter(|entry| entry.results.is_some()).count();
        if count == 0 {
            return Err(failure(
                CommandExit::NotFound,
                format!(
                    "--results {}: there are no results; `alluvium-lab run ID --results {0}` makes some",
                    results.display()
                ),
            ));
        }
        let file = self.file.clone().unwrap_or_else(|| results.join("report.html"));
        check_page(&file)?;
        let page = alluvium_lab::page(&entries)?;
        fs::write(&file, page).with_context(|| format!("writing {}", file.display()))?;
        note(&format!("{count} experiments are in {}", file.display()));
        Ok(CommandExit::Done)
    }
}

/// Refuses to overwrite a file that the Lab did not write.
fn check_page(path: &Path) -> Result<()> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("writing {}", path.display())),
    };
    let mut head = Vec::new();
    file.take(4096)
        .read_to_end(&mut head)
        .with_context(|| format!("reading {}", path.display()))?;
    if !String::from_utf8_lossy(&head).contains(GENERATOR) {
        return Err(failure(
            CommandExit::Usage,
            format!(
                "FILE {}: it is there, and it is no page of the Lab; name another, or remove it",
                path.display()
            ),
        ));
    }
    Ok(())
}
