//! `alluvium-lab oracles`: compares numbers of the research with the results of our models.

use super::Context;
use alluvium_cli::kit::{Exit, Output};
use alluvium_lab::oracles::{self, Oracle, Origin};
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
pub(crate) struct Verb {}

impl Verb {
    pub(super) fn run(&self, context: &Context) -> Result<Exit> {
        let all = oracles::oracles()?;
        let mut out = Output::new();
        match context.json {
            true => out.json(&Value::Array(all.iter().map(described).collect()))?,
            false => out.write_all(oracles::page(&all).as_bytes())?,
        }
        out.flush()?;
        Ok(match all.iter().all(Oracle::holds) {
            true => Exit::Done,
            false => Exit::Failed,
        })
    }
}

fn described(oracle: &Oracle) -> Value {
    json!({
        "section": oracle.section,
        "what": oracle.what,
        "is_stated": oracle.origin == Origin::Stated,
        "published": oracle.published,
        "within": oracle.within,
        "ours": oracle.ours,
        "holds": oracle.holds(),
    })
}
