//! `compact`: rewrites all data now.

use crate::context::Context;
use crate::jobs::{progress, stop};
use crate::store::Holder;
use crate::terminal::exit::Exit;
use crate::terminal::screen::Output;
use crate::values::sizes;
use alluvium_server::control::{Reply, Request};
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use serde_json::Value;
use std::io::Write;

const EXAMPLES: &str = "\
Example:
  alluvium compact

It writes the whole store once. Ctrl-C stops it; what is not done yet stays as it was.";

/// Rewrite everything, so that what was deleted or replaced takes no space. The store does what is
/// worth it by itself.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Compact {}

impl Compact {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let store = context.open()?;
        stop::listen()?;
        let bar = progress::bytes("compacting", Some(0));
        let stopped = "stopped: what is not done yet stays as it was, run it again to finish";
        let compacted = store.work(&Request::Compact, &bar, stopped);
        if compacted.is_err() && stop::asked() && store.holder() == Holder::Us {
            // An interrupted compaction loses nothing: the log and the last checkpoint contain all
            // data.
            store.change(&Request::Sync)?;
        }
        let compacted = compacted?;
        store.close()?;
        let Reply::Json(sizes) = compacted else {
            return Err(anyhow!("the compaction has ended without saying what it did"));
        };
        let said: Value = serde_json::from_str(&sizes).context("reading the answer")?;
        let mut out = Output::new();
        if context.is_json() {
            out.json(&said)?;
        } else {
            let bytes = |name: &str| sizes::human(said[name].as_u64().unwrap_or_default());
            out.line(&format!(
                "{} before, {} after",
                bytes("bytes_before"),
                bytes("bytes_after")
            ))?;
        }
        out.flush()?;
        Ok(Exit::Done)
    }
}
