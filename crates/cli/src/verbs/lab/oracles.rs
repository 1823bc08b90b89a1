//! `lab oracles`: numbers of the research beside what our models compute.

use crate::Exit;
use crate::context::Context;
use crate::screen::Output;
use alluvium_bench::lab::oracles::{self, Oracle, Origin};
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium lab oracles > docs/oracles.md
  alluvium lab oracles --json";

/// Numbers that follow from arithmetic alone.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Verb {}

impl Verb {
    pub(super) fn run(&self, context: &Context) -> Result<Exit> {
        let all = oracles::oracles()?;
        let mut out = Output::new();
        match context.is_json() {
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
