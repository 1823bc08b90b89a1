//! Panic messages of a server.

use std::io::Write as _;
use std::panic::PanicHookInfo;

/// The value of `RUST_BACKTRACE` that enables backtraces.
const FULL: &str = "full";

/// Makes panics print their message and location without a backtrace.
///
/// A panic in a command closes one connection, and the server continues. A backtrace would load the
/// debug information of the whole program, which stays in memory: a server with 64 MiB had 241 MiB
/// after one. `RUST_BACKTRACE=full` enables it.
pub(crate) fn are_brief() {
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|word| word != FULL) {
        std::panic::set_hook(Box::new(say));
    }
}

fn say(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    // Ignore a closed standard error.
    let _ = writeln!(
        std::io::stderr(),
        "thread '{name}' {info}\nnote: RUST_BACKTRACE={FULL} shows a backtrace, whose memory is not freed again"
    );
}
