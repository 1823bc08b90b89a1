//! `alluvium-lab oracles`: compares numbers of the research with the results of our models.

use super::LabContext;
use alluvium_cli::kit::{CommandExit, ScreenOutput};
use alluvium_lab::oracles::{self, NumberOrigin, Oracle};
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium-lab oracles > oracles.md
  alluvium-lab oracles --json";

/// Numbers that follow from arithmetic alone.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LabOraclesCommand {}

impl LabOraclesCommand {
    pub(super) fn run(&self, context: &LabContext) -> Result<CommandExit> {
        let all = oracles::oracles()?;
        let mut out = ScreenOutput::new();
        match context.json {
            true => out.json(&Value::Array(all.iter().map(described).collect()))?,
            false => out.write_all(oracles::page(&all).as_bytes())?,
        }
        out.flush()?;
        Ok(match all.iter().all(Oracle::holds) {
            true => CommandExit::Done,
            false => CommandExit::Failed,
        })
    }
}

fn described(oracle: &Oracle) -> Value {
    json!({
        "section": oracle.section,
        "what": oracle.what,
        "is_stated": oracle.origin == NumberOrigin::Stated,
        "published": oracle.published,
        "within": oracle.within,
        "ours": oracle.ours,
        "holds": oracle.holds(),
    })
}
