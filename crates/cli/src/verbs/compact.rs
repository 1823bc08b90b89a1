//! `compact`: rewrites all data of the store immediately.

use crate::context::CommandContext;
use crate::jobs::{progress, stop};
use crate::store::StoreOwner;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
use crate::values::sizes;
use alluvium_server::control::{ManagementReply, ManagementRequest};
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use serde_json::Value;
use std::io::Write;

const EXAMPLES: &str = "\
Example:
  alluvium compact

The command writes the whole store once. Ctrl-C stops it; the rest of the store stays as it was.";

/// Rewrite the store to free the space of deleted and replaced records. The store frees most of it
/// by itself.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompactCommand {}

impl CompactCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let store = context.open()?;
        stop::listen()?;
        let bar = progress::bytes("compacting", Some(0));
        let stopped = "stopped: the rest of the store stays as it was; run the command again to finish";
        let compacted = store.work(&ManagementRequest::Compact, &bar, stopped);
        if compacted.is_err() && stop::asked() && store.holder() == StoreOwner::Us {
            // If the compaction is interrupted, no data is lost, because the log and the last
            // checkpoint contain all of it.
            store.change(&ManagementRequest::Sync)?;
        }
        let compacted = compacted?;
        store.close()?;
        let ManagementReply::Json(sizes) = compacted else {
            return Err(anyhow!("the compaction has ended without a report"));
        };
        let said: Value = serde_json::from_str(&sizes).context("reading the answer")?;
        let mut out = ScreenOutput::new();
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
        Ok(CommandExit::Done)
    }
}
