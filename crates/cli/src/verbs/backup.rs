//! `backup` and `restore`: create complete copies of a store.

use crate::context::{self, CommandContext};
use crate::jobs::{progress, stop};
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
use crate::values::sizes::count;
use alluvium::{Progress, ProgressStage};
use alluvium_server::control::{ManagementReply, ManagementRequest};
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const BACKUP: &str = "\
Examples:
  alluvium backup /backups/2026-11-22
  alluvium --db /backups/2026-11-22 get Elbe      # a backup is a store
  alluvium backup /backups/one --to-tier /more/one # a store with a second tier, copied to another device

If a server has the store open, the server makes the copy, as the user that it runs as, and continues to serve.

The command reads the whole copy and verifies its checksums. If the store is damaged, the backup fails with exit code 5. An interrupted backup is \
not a store; the same command starts again.";

const RESTORE: &str = "\
Example:
  alluvium --db ./restored restore /backups/2026-11-22

The backup is not changed, and the whole copy is checked. The exit code is 5 if the backup is damaged.";

/// Copy the store into a directory, which must be empty or missing.
#[derive(Args, Debug)]
#[command(after_help = BACKUP)]
pub struct BackupCommand {
    /// The directory of the backup, which must be empty or missing.
    #[arg(value_name = "DIRECTORY")]
    pub to: PathBuf,
    /// The directory for the copy of an additional tier. Repeat the option for each tier, in the
    /// order of `alluvium tiers` [default: DIRECTORY.tier-1 and so on].
    #[arg(long, value_name = "PATH")]
    pub to_tier: Vec<PathBuf>,
}

/// Create the store in --db from a backup. That directory must be empty or missing.
#[derive(Args, Debug)]
#[command(after_help = RESTORE)]
pub struct RestoreCommand {
    /// The directory of the backup.
    #[arg(value_name = "DIRECTORY")]
    pub from: PathBuf,
}

/// The message that is printed if the user stops the operation.
const INCOMPLETE: &str =
    "stopped: the incomplete copy is not a store; the same command starts from the beginning";

/// Returns a callback that shows the progress of a job on a progress bar.
pub(crate) fn follow(bar: &ProgressBar) -> impl FnMut(Progress) + '_ {
    move |progress| {
        let message = match progress.stage {
            ProgressStage::Copying => "copying",
            _ => "checking",
        };
        if bar.message() != message {
            bar.set_message(message);
            bar.reset_elapsed();
        }
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
    }
}

/// Returns the bytes of the absolute path, which denotes the same directory in every process.
fn absolute(path: &Path) -> Result<Vec<u8>> {
    let path = std::path::absolute(path).with_context(|| format!("resolving the path {}", path.display()))?;
    Ok(path.as_os_str().as_bytes().to_vec())
}

impl BackupCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        context::vacant(&self.to)?;
        let store = context.open()?;
        stop::listen()?;
        let to = absolute(&self.to)?;
        let further = self
            .to_tier
            .iter()
            .map(|path| absolute(path))
            .collect::<Result<Vec<_>>>()?;
        let request = match further.is_empty() {
            true => ManagementRequest::Backup { to },
            false => ManagementRequest::BackupTiers { to, further },
        };
        let bar = progress::bytes("copying", Some(0));
        let copied = store.work(&request, &bar, INCOMPLETE);
        let copied = copied.with_context(|| format!("copying to {}", self.to.display()))?;
        let ManagementReply::Number(last) = copied else {
            return Err(anyhow!("the copy has ended without a report"));
        };
        store.close()?;
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&json!({ "directory": self.to, "last_commit": last, "is_checked": true }))?;
        } else {
            out.line(&format!(
                "{} has all data up to commit {}; all of it was read and is undamaged",
                self.to.display(),
                count(last)
            ))?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}

impl RestoreCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        stop::listen()?;
        let bar = progress::bytes("copying", Some(0));
        let follow = stop::exit_if_stopped(&bar, INCOMPLETE, follow(&bar));
        let restored = context.options().restore(&self.from, &context.path, follow);
        bar.finish_and_clear();
        let restored = restored.with_context(|| {
            format!(
                "creating a store in {} from {}",
                context.path.display(),
                self.from.display()
            )
        });
        restored.map_err(|error| {
            let way = "restore into another directory, then stop the server and exchange the directories";
            context::not_while_open(error, "restore", way)
        })?;
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&json!({ "directory": context.path, "from": self.from, "is_checked": true }))?;
        } else {
            out.line(&format!(
                "{} is an undamaged store: all of it was read",
                context.path.display()
            ))?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}
