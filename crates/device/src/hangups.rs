//! Handles terminal hang-ups.

/// Makes the process ignore SIGHUP, as servers do, so that the terminal that started it may be
/// closed. Does nothing on non-Unix systems.
pub fn ignore_hangups() {
    #[cfg(unix)]
    // SAFETY: `SIG_IGN` is not a function of ours, and SIGHUP may be ignored, so no thread runs
    // anything when it arrives.
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
    }
}
