//! What a process does when its terminal goes away.

/// Has the process ignore SIGHUP from now on, as servers do: the terminal may be closed that they
/// were started from. Elsewhere than on Unix it does nothing.
pub fn ignore_hangups() {
    #[cfg(unix)]
    // SAFETY: `SIG_IGN` is no function of ours, and SIGHUP is a signal that may be ignored: no
    // thread runs anything when it comes.
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
    }
}
