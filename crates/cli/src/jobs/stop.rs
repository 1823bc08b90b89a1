//! Handles Ctrl-C. The first one asks a job to stop at the next point where no data is lost, and
//! the second one ends the process immediately. A job that may block is ended if it does not reach
//! such a point in time.

use crate::terminal::exit::CommandExit;
use crate::terminal::screen;
use alluvium::Progress;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Maximum time that a job may block on its input or on a full disk after it was asked to stop.
const PATIENCE: Duration = Duration::from_secs(8);

/// Installs signal handlers, so that Ctrl-C, SIGTERM and SIGHUP ask the job to stop.
///
/// # Errors
/// Returns an error if the signal handlers cannot be installed.
pub fn listen() -> Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.fetch_add(1, Ordering::Relaxed) > 0 {
            end();
        }
    })
    .context("installing signal handlers")
}

/// Installs signal handlers like [`listen`], but SIGHUP only sets the flag that is returned: a
/// server continues after its terminal is closed, and reads its files again.
pub(crate) fn listen_as_server() -> Result<Arc<AtomicBool>> {
    listen()?;
    alluvium_device::hangups::ignore_hangups();
    let hangup = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&hangup))
        .context("installing signal handlers")?;
    Ok(hangup)
}

/// Installs signal handlers like [`listen`], for a job that may block for a long time but can be
/// interrupted at any point without loss. The process ends soon after the first signal.
pub(crate) fn listen_impatiently() -> Result<()> {
    ctrlc::set_handler(|| match ASKED.fetch_add(1, Ordering::Relaxed) {
        0 => drop(std::thread::spawn(|| {
            std::thread::sleep(PATIENCE);
            end();
        })),
        _ => end(),
    })
    .context("installing signal handlers")
}

fn end() -> ! {
    screen::complain("stopped at once; acknowledged writes are in the log of the store");
    std::process::exit(CommandExit::Interrupted as i32);
}

/// Returns whether a signal has asked the job to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed) > 0
}

/// Returns a progress callback for a job that changes nothing until it is complete. If a signal has
/// asked the job to stop, the callback ends the process.
pub(crate) fn exit_if_stopped<'b>(
    bar: &'b ProgressBar,
    said: &'b str,
    mut follow: impl FnMut(Progress) + 'b,
) -> impl FnMut(Progress) + 'b {
    move |progress| {
        if asked() {
            bar.finish_and_clear();
            screen::complain(said);
            std::process::exit(CommandExit::Interrupted as i32);
        }
        follow(progress);
    }
}
