//! What a server says of a panic in it.

use std::io::Write as _;
use std::panic::PanicHookInfo;

/// The word of `RUST_BACKTRACE` that asks for a backtrace all the same.
const FULL: &str = "full";

/// Lets panics say what happened and where, without a backtrace.
///
/// A panic in a command ends one connection, and the server goes on. The names in a backtrace are
/// read from the debug information of the whole program, which stays in memory: under 64 MiB a
/// server had 241 MiB after one. `RUST_BACKTRACE=full` asks for it all the same.
pub(crate) fn are_brief() {
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|word| word != FULL) {
        std::panic::set_hook(Box::new(say));
    }
}

fn say(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    // Nothing is said when standard error is gone.
    let _ = writeln!(
        std::io::stderr(),
        "thread '{name}' {info}\nnote: RUST_BACKTRACE={FULL} shows a backtrace, which takes memory for good"
    );
}
