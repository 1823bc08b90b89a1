//! Ctrl-C: the first asks a job to stop at the next place where nothing is lost, the second ends
//! the process at once.

use crate::Exit;
use crate::screen;
use alluvium::Progress;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use std::sync::atomic::{AtomicUsize, Ordering};

static ASKED: AtomicUsize = AtomicUsize::new(0);

/// From now on Ctrl-C, SIGTERM and SIGHUP ask the job to stop.
pub(crate) fn listen() -> Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.fetch_add(1, Ordering::Relaxed) > 0 {
            screen::complain("stopped at once; what a store has acknowledged is in its log");
            std::process::exit(Exit::Interrupted as i32);
        }
    })
    .context("asking for signals")
}

/// Whether the job is to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed) > 0
}

/// Hears how far a job has come that changes nothing until it is done, and ends the process when it
/// is told to stop.
pub(crate) fn or<'b>(
    bar: &'b ProgressBar,
    said: &'b str,
    mut follow: impl FnMut(Progress) + 'b,
) -> impl FnMut(Progress) + 'b {
    move |progress| {
        if asked() {
            bar.finish_and_clear();
            screen::complain(said);
            std::process::exit(Exit::Interrupted as i32);
        }
        follow(progress);
    }
}
