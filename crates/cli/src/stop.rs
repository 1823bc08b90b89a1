//! Ctrl-C: the first asks a job to stop at the next place where nothing is lost, the second ends the process at once.

use crate::Exit;
use crate::screen;
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

static ASKED: AtomicUsize = AtomicUsize::new(0);

/// From now on Ctrl-C, SIGTERM and SIGHUP ask the job to stop.
pub(crate) fn listen() -> Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.fetch_add(1, Ordering::Relaxed) > 0 {
            screen::complain("stopped at once; whatever was acknowledged is in the log");
            std::process::exit(Exit::Interrupted as i32);
        }
    })
    .context("asking for signals")
}

/// Whether somebody wants the job to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed) > 0
}
