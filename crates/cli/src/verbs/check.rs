//! `check`: whether the store is whole.

use super::backup::follow;
use crate::Exit;
use crate::context::{self, Context};
use crate::screen::{self, Output};
use crate::{progress, sizes, stop};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium check               # reads everything
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
        let found = if self.structure {
            db.check_structure()
        } else {
            db.check_with(stop::or(
                &bar,
                "stopped: not everything was checked",
                follow(&bar),
            ))
        };
        bar.finish_and_clear();
        let found = found?;
        context::close(db)?;
        let mut out = Output::new();
        if context.is_json() {
            out.json(&json!({ "is_whole": found.is_empty(), "findings": found }))?;
        } else {
            for finding in &found {
                out.line(finding)?;
            }
        }
        out.flush()?;
        if found.is_empty() {
            screen::note("the store is whole");
            return Ok(Exit::Done);
        }
        let findings = sizes::count(found.len() as u64);
        screen::complain(&format!(
            "{findings} findings: restore a backup, or copy what can be read with `alluvium export`"
        ));
        Ok(Exit::Damaged)
    }
}
