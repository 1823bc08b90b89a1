//! Tests that cannot run where they are. Each is printed, and noted in a file, so that the gate
//! sees which of them have shown nothing.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::thread;

/// The variable that names the file in which such tests are noted, a line each: what is not there,
/// the crate and the test, and why, with tabs between them. Without it they are only printed.
pub const VARIABLE: &str = "ALLUVIUM_SKIPPED_TESTS";

/// Prints and notes that the test of this thread does not run, or a part of it. Tests use
/// [`skipped!`](crate::skipped), which knows the crate.
///
/// # Panics
/// When the file that [`VARIABLE`] names cannot be written.
#[doc(hidden)]
pub fn note(package: &str, module: &str, need: &str, why: &dyn Display) {
    println!("skipped: {need} is wanted: {why}");
    let Some(path) = std::env::var_os(VARIABLE) else {
        return;
    };
    let thread = thread::current();
    // Where tests do not run each in a thread of its own, the module is known.
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

/// Notes that this test, or a part of it, does not run, for something is not there: what that is,
/// as `.ci/skipped` has it, and why, as `format!` takes it.
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
