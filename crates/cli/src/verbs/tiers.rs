//! `tiers`: lists, adds and drains the directories (tiers) of a store.

use crate::context::CommandContext;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
use crate::values::sizes;
use crate::values::tier::{self, TierDirectory};
use alluvium_server::control::{ManagementRequest, TierChange};
use anyhow::{Context as _, Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  alluvium tiers                           # lists them, the fastest first
  alluvium tiers add /mnt/large,bytes=4T   # compactions may write there from now on
  alluvium tiers drain /mnt/large          # moves its data to the other tiers
  alluvium tiers use /mnt/large            # uses it again after a drain or a failure";

/// List, add and drain the directories of a store.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TiersCommand {
    /// What to do; without it, list them.
    #[command(subcommand)]
    pub action: Option<TierAction>,
}

/// What can be done with tiers.
#[derive(Debug, Subcommand)]
pub enum TierAction {
    /// List tiers with their capacity, available space and data.
    #[command(after_help = "Example:\n  alluvium tiers list --json")]
    List,
    /// Add a directory, which must be empty or missing, as the last tier.
    #[command(after_help = "Example:\n  alluvium tiers add /mnt/large,bytes=4T")]
    Add {
        /// The directory, and the most bytes of data in it.
        #[arg(value_name = "PATH[,bytes=SIZE]", value_parser = tier::parse)]
        added: TierDirectory,
    },
    /// Move all data off a tier, which then gets no new data.
    #[command(after_help = "Example:\n  alluvium tiers drain /mnt/large")]
    Drain {
        /// The directory of the tier.
        path: PathBuf,
    },
    /// Resume the use of a tier that was drained or has failed.
    #[command(after_help = "Example:\n  alluvium tiers use /mnt/large")]
    Use {
        /// The directory of the tier.
        path: PathBuf,
    },
}

impl TiersCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        match &self.action {
            None | Some(TierAction::List) => list(context),
            Some(TierAction::Add {
                added: TierDirectory { path, max_bytes },
            }) => {
                let max_bytes = *max_bytes;
                change(context, path, TierChange::Add { max_bytes })
            }
            Some(TierAction::Drain { path }) => change(context, path, TierChange::Drain),
            Some(TierAction::Use { path }) => change(context, path, TierChange::Use),
        }
    }
}

fn change(context: &CommandContext, path: &Path, change: TierChange) -> Result<CommandExit> {
    let store = context.open()?;
    let path = std::path::absolute(path).with_context(|| format!("resolving the path {}", path.display()))?;
    let path = path.as_os_str().as_bytes().to_vec();
    store.change(&ManagementRequest::ChangeTiers { path, change })?;
    store.close()?;
    Ok(CommandExit::Done)
}

fn list(context: &CommandContext) -> Result<CommandExit> {
    let store = context.open_to_read()?;
    let tiers = store.json(&ManagementRequest::Tiers)?;
    store.close()?;
    let mut out = ScreenOutput::new();
    if context.is_json() {
        out.json(&tiers)?;
    } else {
        let Value::Array(tiers) = &tiers else {
            return Err(anyhow!("the answer is not a list of tiers"));
        };
        let row = |tier: &Value| {
            let bytes = |name: &str| sizes::human(tier[name].as_u64().unwrap_or_default());
            let data = match (&tier["failure"], &tier["takes_data"]) {
                (Value::String(_), _) => "fails",
                (_, Value::Bool(false)) => "takes nothing",
                _ => "takes data",
            };
            vec![
                tier["tier"].to_string(),
                bytes("capacity_bytes"),
                bytes("available_bytes"),
                bytes("live_bytes"),
                data.to_owned(),
                tier["directory"].as_str().unwrap_or_default().to_owned(),
            ]
        };
        let head = ["tier", "capacity", "available", "live", "state", "directory"];
        out.table(&head, &tiers.iter().map(row).collect::<Vec<_>>())?;
        for failure in tiers.iter().filter_map(|tier| tier["failure"].as_str()) {
            out.line(failure)?;
        }
    }
    out.flush()?;
    Ok(CommandExit::Done)
}
