//! The messages that a server prints after a panic.

use std::io::Write as _;
use std::panic::PanicHookInfo;

/// The value of `RUST_BACKTRACE` that enables backtraces.
const FULL: &str = "full";

/// Installs a panic hook that prints the message and the location of a panic, but no backtrace.
///
/// A panic in a command closes one connection, and the server continues. Printing a backtrace would
/// load the debug information of the whole program, which then remains in memory: a server with a
/// limit of 64 MiB used 241 MiB after one backtrace. `RUST_BACKTRACE=full` enables backtraces.
pub(crate) fn are_brief() {
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|word| word != FULL) {
        std::panic::set_hook(Box::new(say));
    }
}

fn say(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    // If standard error is closed, the error is ignored.
    let _ = writeln!(
        std::io::stderr(),
        "thread '{name}' {info}\nnote: RUST_BACKTRACE={FULL} shows a backtrace, whose memory is not freed again"
    );
}
