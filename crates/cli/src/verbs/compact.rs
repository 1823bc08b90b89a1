//! `compact`: everything rewritten now.

use crate::context::{self, Context};
use crate::exit::{Exit, failure};
use crate::screen::{self, Output};
use crate::{progress, sizes, stop};
use alluvium::Db;
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::thread;
use std::time::Duration;

const EXAMPLES: &str = "\
Example:
  alluvium compact

It writes the whole store once. Ctrl-C stops it; what is not done yet stays as it was.";

/// How often the bar moves.
const LOOK: Duration = Duration::from_millis(100);

/// Rewrite everything, so that what was deleted or replaced takes no space. The store does what is worth it by itself.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Compact {}

impl Compact {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let db = context.open()?;
        stop::listen()?;
        let before = db.stats().space.live_extent_bytes;
        shown(&db, before)?;
        let after = db.stats().space.live_extent_bytes;
        context::close(db)?;
        let mut out = Output::new();
        if context.is_json() {
            out.json(&json!({ "bytes_before": before, "bytes_after": after }))?;
        } else {
            out.line(&format!(
                "{} before, {} after",
                sizes::human(before),
                sizes::human(after)
            ))?;
        }
        out.flush()?;
        Ok(Exit::Done)
    }
}

/// Compacts while a bar shows how much was written of what there is.
fn shown(db: &Db, bytes: u64) -> Result<()> {
    let bar = progress::bytes("compacting", Some(bytes));
    let start = db.stats().tree.compacted_bytes;
    let work = thread::spawn({
        let db = db.clone();
        move || db.compact()
    });
    while !work.is_finished() {
        thread::sleep(LOOK);
        bar.set_position((db.stats().tree.compacted_bytes - start).min(bytes));
        if stop::asked() {
            bar.finish_and_clear();
            screen::note("stopped: what is not done yet stays as it was");
            // The work stands in the middle of a step; the log and the last checkpoint hold everything.
            db.sync()?;
            return Err(failure(
                Exit::Interrupted,
                "compaction was stopped: run it again to finish",
            ));
        }
    }
    bar.finish_and_clear();
    match work.join() {
        Ok(done) => Ok(done?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
