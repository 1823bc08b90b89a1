//! Handling of terminal hang-ups.

/// Makes the process ignore SIGHUP, as servers do, so that the terminal that started it may be
/// closed. Does nothing on systems other than Unix.
pub fn ignore_hangups() {
    #[cfg(unix)]
    // SAFETY: `SIG_IGN` is no function of ours, and SIGHUP is a signal that may be ignored: no
    // thread runs anything when it comes.
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
    }
}
