//! `inspect`: a drawing of the tree.

use crate::Exit;
use crate::context::{self, Context};
use crate::screen::Output;
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::io::Write;

const EXAMPLES: &str = "\
Example:
  alluvium inspect

Each line is a node of the trunk or one of its children: the range of its keys, and the runs that it holds for them, oldest first; \
what has sunk is its own, what has not been compacted yet is pending. Keys begin with the number of their keyspace.";

/// Draw the tree: which runs hold which keys, and where.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Inspect {}

impl Inspect {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let db = context.open()?;
        let drawing = db.draw();
        context::close(db)?;
        let mut out = Output::new();
        if context.is_json() {
            out.json(&json!({ "drawing": drawing.lines().collect::<Vec<_>>() }))?;
        } else {
            out.write_all(drawing.as_bytes())?;
        }
        out.flush()?;
        Ok(Exit::Done)
    }
}
