//! `check`: whether the store is whole.

use super::backup::follow;
use crate::Exit;
use crate::context::{self, Context};
use crate::screen::{self, Output};
use crate::{progress, sizes, stop};
use alluvium::CheckReport;
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium check               # reads everything, and says how much that was
  alluvium check --structure   # only who uses which space; reads next to nothing
  alluvium check --json

The exit code is 5 if something is damaged.";

/// Read everything and report what is damaged, a line each.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// Check only which space is in use, and by whom.
    #[arg(long)]
    pub structure: bool,
}

impl Check {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let db = context.open_to_read()?;
        stop::listen()?;
        let bar = progress::bytes("checking", Some(0));
        let checked = if self.structure {
            db.check_structure().map(|found| (found, None))
        } else {
            let stopped = "stopped: not everything was checked";
            db.check_report(stop::or(&bar, stopped, follow(&bar)))
                .map(|report| (report.findings.clone(), Some(report)))
        };
        bar.finish_and_clear();
        let (found, report) = checked?;
        context::close(db)?;
        let unlisted = report.as_ref().map_or(0, |report| report.unlisted);
        let mut out = Output::new();
        if context.is_json() {
            let mut said = json!({ "is_whole": found.is_empty(), "findings": found, "unlisted": unlisted });
            if let Some(report) = &report {
                said["read"] = read(report);
            }
            out.json(&said)?;
        } else {
            for finding in &found {
                out.line(finding)?;
            }
            if unlisted > 0 {
                out.line(&format!("and {} findings more", sizes::count(unlisted)))?;
            }
        }
        out.flush()?;
        if let Some(report) = report.as_ref().filter(|_| !context.is_json()) {
            tell(report);
        }
        if found.is_empty() {
            screen::note(match self.structure {
                true => "the structure is whole; what it holds was not read",
                false => "the store is whole",
            });
            return Ok(Exit::Done);
        }
        let findings = sizes::count(found.len() as u64 + unlisted);
        screen::complain(&format!(
            "{findings} findings: restore a backup, or copy what can be read with `alluvium export`, or see what `alluvium repair` would do"
        ));
        Ok(Exit::Damaged)
    }
}

/// What was read, structure by structure.
fn read(report: &CheckReport) -> Value {
    let structures = report.read.iter().map(|structure| {
        json!({ "structure": structure.name, "nodes": structure.nodes, "bytes": structure.bytes })
    });
    json!({
        "bytes": report.bytes(),
        "records": report.records,
        "values_apart": report.values_apart,
        "structures": structures.collect::<Vec<_>>(),
    })
}

/// Says the same to who watches.
fn tell(report: &CheckReport) {
    for structure in report.read.iter().filter(|structure| structure.nodes > 0) {
        screen::note(&format!(
            "read {}: {} nodes, {}",
            structure.name,
            sizes::count(structure.nodes),
            sizes::human(structure.bytes)
        ));
    }
    screen::note(&format!(
        "read {} in all: {} records, of which {} keep their values apart",
        sizes::human(report.bytes()),
        sizes::count(report.records),
        sizes::count(report.values_apart)
    ));
}
