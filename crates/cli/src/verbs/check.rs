//! `check`: verifies the integrity of the store.

use crate::context::CommandContext;
use crate::jobs::{progress, stop};
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::sizes;
use alluvium_server::control::{CheckExtent, ManagementReply, ManagementRequest};
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium check               # reads everything, and prints how much
  alluvium check --structure   # checks only the use of space; reads very little
  alluvium check --json

The exit code is 5 if damage was found, and 3 if none was found but a directory of the
store cannot be read.";

/// Read the whole store and report damage, one finding per line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CheckCommand {
    /// Check only which structures use which space, without reading their contents.
    #[arg(long)]
    pub structure: bool,
}

impl CheckCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let store = context.open_to_read()?;
        stop::listen()?;
        let bar = progress::bytes("checking", Some(0));
        let depth = match self.structure {
            true => CheckExtent::Structure,
            false => CheckExtent::Everything,
        };
        let checked = store.work(
            &ManagementRequest::Check(depth),
            &bar,
            "stopped: not everything was checked",
        )?;
        store.close()?;
        let ManagementReply::Json(report) = checked else {
            return Err(anyhow!("the check has ended without a report"));
        };
        let report: Value = serde_json::from_str(&report).context("reading the report")?;
        let sentences = |name: &str| -> Vec<String> {
            let all = report[name].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let (found, unreadable) = (sentences("findings"), sentences("unreadable"));
        let notes = sentences("notes");
        let read = report.get("read");
        let unlisted = report["unlisted"].as_u64().unwrap_or_default();
        let mut out = ScreenOutput::new();
        if context.is_json() {
            let is_whole = found.is_empty() && unreadable.is_empty();
            let mut said = json!({
                "is_whole": is_whole, "findings": found, "unlisted": unlisted, "unreadable": unreadable,
                "notes": notes,
            });
            if let Some(read) = read {
                said["read"] = read.clone();
            }
            out.json(&said)?;
        } else {
            list(&mut out, &found, unlisted, &unreadable, &notes)?;
        }
        out.flush()?;
        if let Some(read) = read.filter(|_| !context.is_json()) {
            tell(read);
        }
        if found.is_empty() && !unreadable.is_empty() {
            screen::complain(
                "the readable part of the store is undamaged; data in directories that fail was not checked",
            );
            return Ok(CommandExit::Failed);
        }
        if found.is_empty() {
            screen::note(match self.structure {
                true => "the structure is undamaged; its contents were not read",
                false => "the store is whole",
            });
            return Ok(CommandExit::Done);
        }
        let findings = sizes::count(found.len() as u64 + unlisted);
        screen::complain(&format!(
            "{findings} findings: restore a backup, or copy what can be read with `alluvium export`, or see what `alluvium repair` would do"
        ));
        Ok(CommandExit::Damaged)
    }
}

/// Prints the damage that was found, one problem per line.
fn list(
    out: &mut ScreenOutput,
    found: &[String],
    unlisted: u64,
    unreadable: &[String],
    notes: &[String],
) -> Result<()> {
    for finding in found {
        out.line(finding)?;
    }
    if unlisted > 0 {
        out.line(&format!("and {} findings more", sizes::count(unlisted)))?;
    }
    for tier in unreadable {
        out.line(&format!("not checked: {tier}"))?;
    }
    for note in notes {
        out.line(&format!("note: {note}"))?;
    }
    Ok(())
}

/// Prints how much was read of each structure.
fn tell(read: &Value) {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let structures = read["structures"].as_array().into_iter().flatten();
    for structure in structures.filter(|structure| number(structure, "nodes") > 0) {
        screen::note(&format!(
            "read {}: {} nodes, {}",
            structure["structure"].as_str().unwrap_or_default(),
            sizes::count(number(structure, "nodes")),
            sizes::human(number(structure, "bytes"))
        ));
    }
    screen::note(&format!(
        "read {} in all: {} records, of which {} have separate values",
        sizes::human(number(read, "bytes")),
        sizes::count(number(read, "records")),
        sizes::count(number(read, "values_apart"))
    ));
}
