//! Ctrl-C: the first asks a job to stop at the next place where nothing is lost, the second ends
//! the process at once. A job that may wait for others ends by itself if it comes to no such place
//! for a time.

use crate::Exit;
use crate::screen;
use alluvium::Progress;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

static ASKED: AtomicUsize = AtomicUsize::new(0);

/// How long a job that was asked to stop may wait for its input, or for space on a full disk.
const PATIENCE: Duration = Duration::from_secs(8);

/// From now on Ctrl-C, SIGTERM and SIGHUP ask the job to stop.
///
/// # Errors
/// When the system hands no signals out.
pub fn listen() -> Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.fetch_add(1, Ordering::Relaxed) > 0 {
            end();
        }
    })
    .context("asking for signals")
}

/// The same for a server, which goes on when its terminal goes away: SIGHUP asks it nothing.
pub(crate) fn listen_as_server() -> Result<()> {
    listen()?;
    alluvium_device::hangups::ignore_hangups();
    Ok(())
}

/// The same for a job that loses nothing wherever it ends, and may wait for long: it ends soon
/// after the first signal.
pub(crate) fn listen_impatiently() -> Result<()> {
    ctrlc::set_handler(|| match ASKED.fetch_add(1, Ordering::Relaxed) {
        0 => drop(std::thread::spawn(|| {
            std::thread::sleep(PATIENCE);
            end();
        })),
        _ => end(),
    })
    .context("asking for signals")
}

fn end() -> ! {
    screen::complain("stopped at once; what a store has acknowledged is in its log");
    std::process::exit(Exit::Interrupted as i32);
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
