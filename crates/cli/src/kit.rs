//! For programs that answer as `alluvium` does: their output, their errors, and the children that
//! `alluvium bench` measures engines in.

use crate::exit;
use anyhow::Result;
use std::process::ExitCode;

pub use crate::exit::{Exit, failure};
pub use crate::screen::{Output, note};
pub use crate::sizes::{Bytes, parse};
pub use crate::stop::listen;
pub use crate::verbs::bench::{Screen, cap_or_none, run_child, usage};

/// Runs a program: prints its error, if it ends with one, and returns the exit code of it.
///
/// What the program frees goes back to the system, as a store expects that counts its memory.
#[must_use]
pub fn program(run: impl FnOnce() -> Result<Exit>) -> ExitCode {
    alluvium_device::heap::give_freed_memory_back();
    crate::log::begin();
    run().unwrap_or_else(|error| exit::report(&error)).into()
}
