//! `repair`: recovers as much as possible of a damaged store.

use super::backup::follow;
use crate::context::{self, CommandContext};
use crate::jobs::{progress, stop};
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{self, ScreenOutput};
use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium repair          # lists what would be done and lost; changes nothing
  cp -a alluvium-data copy && alluvium repair --yes

If there is a backup, `alluvium restore` is better. The exit code is 5 if something is lost or still damaged, and 0 if the store is undamaged.";

/// Repair a damaged store as far as possible, so that it opens. Without --yes, only list what would
/// be done.
///
/// Undamaged records of the log are kept, and damaged ones are skipped. A damaged extent map and
/// damaged maplets are rebuilt without loss. Leaves and values that cannot be read are removed, so
/// that compactions can proceed. Runs and parts of the tree that cannot be opened are dropped, or
/// the state before the newest is used if that loses less. A backup is better, if there is one: see
/// `alluvium restore`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RepairCommand {
    /// Repair the store, instead of only listing what would be done. Copy its directory first.
    #[arg(long)]
    pub yes: bool,
}

impl RepairCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        if !context.path.exists() {
            let text = format!("there is no store in {}", context.path.display());
            return Err(failure(CommandExit::NotFound, text));
        }
        if !self.yes {
            // A repair must not be interrupted while it writes.
            stop::listen()?;
        }
        let bar = progress::bytes("checking", Some(0));
        let options = context.options();
        let report = match self.yes {
            true => options.repair_with(&context.path, |now| follow(&bar)(now)),
            false => options.try_repair(
                &context.path,
                stop::exit_if_stopped(&bar, "stopped: nothing was changed", follow(&bar)),
            ),
        };
        bar.finish_and_clear();
        let report = report.with_context(|| format!("repairing the store in {}", context.path.display()));
        let report = report.map_err(|error| {
            let way = "stop the server first; `alluvium check` and `alluvium export` work while it runs";
            context::not_while_open(error, "repair", way)
        })?;
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&json!({
                "is_done": self.yes,
                "is_whole": report.is_whole(),
                "done": report.done,
                "lost": report.lost,
                "left": report.left,
            }))?;
        } else {
            let words = match self.yes {
                true => ["done", "lost", "still damaged"],
                false => ["would be done", "would be lost", "would still be damaged"],
            };
            for (word, sentences) in words.iter().zip([&report.done, &report.lost, &report.left]) {
                for sentence in sentences {
                    out.line(&format!("{word}: {sentence}"))?;
                }
            }
        }
        out.flush()?;
        if report.is_whole() {
            screen::note(match self.yes {
                true => "the store is whole",
                false => "nothing is lost: opening the store repairs it in the same way",
            });
            return Ok(CommandExit::Done);
        }
        screen::complain(match self.yes {
            true => {
                "the store opens, with the losses and damage listed above: restore a backup if there is one"
            }
            false => {
                "nothing was changed: restore a backup if there is one, or copy the directory and run `alluvium repair --yes`"
            }
        });
        Ok(CommandExit::Damaged)
    }
}
