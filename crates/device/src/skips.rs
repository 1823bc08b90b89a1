//! Reports tests that cannot run in the current environment. Each is printed and recorded in a
//! file, so that the gate can list the tests that checked nothing.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::thread;

/// Environment variable that names the file in which skipped tests are recorded. Each line has the
/// missing requirement, the crate and the test, and the reason, separated by tabs. Without the
/// variable, skipped tests are only printed.
pub const VARIABLE: &str = "ALLUVIUM_SKIPPED_TESTS";

/// Prints and records that the current thread's test, or part of it, is skipped. Tests use the
/// macro [`skipped!`](crate::skipped), which supplies the crate.
///
/// # Panics
/// If the file named by [`VARIABLE`] cannot be written.
#[doc(hidden)]
pub fn note(package: &str, module: &str, need: &str, why: &dyn Display) {
    println!("skipped: {need} is wanted: {why}");
    let Some(path) = std::env::var_os(VARIABLE) else {
        return;
    };
    let thread = thread::current();
    // If tests do not each run in a thread of their own, only the module is known.
    let test = thread.name().filter(|&name| name != "main").unwrap_or(module);
    let why = why.to_string().replace(['\n', '\t'], " ");
    let line = format!("{need}\t{package} {test}\t{why}\n");
    let noted: io::Result<()> = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    noted.unwrap_or_else(|error| panic!("{VARIABLE} names {path:?}: {error}"));
}

/// Records that this test, or part of it, is skipped because a requirement is missing. The
/// arguments are the requirement as listed in `.ci/skipped`, and the reason in `format!` syntax.
///
/// ```
/// alluvium_device::skipped!("chromium", "on Debian: apt-get install {}", "chromium");
/// ```
#[macro_export]
macro_rules! skipped {
    ($need:expr, $($why:tt)+) => {
        $crate::skips::note(env!("CARGO_PKG_NAME"), module_path!(), $need, &format_args!($($why)+))
    };
}
