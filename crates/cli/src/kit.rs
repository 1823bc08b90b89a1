//! Functions that other programs of this project use: output, errors and signal handling of
//! `alluvium`, and the processes in which `alluvium bench` measures engines.

use crate::terminal::exit;
use anyhow::Result;
use std::process::ExitCode;

pub use crate::jobs::stop::listen;
pub use crate::terminal::exit::{CommandExit, failure};
pub use crate::terminal::screen::{ScreenOutput, note};
pub use crate::values::sizes::{ByteSize, parse};
pub use crate::verbs::bench::{ScreenRunner, cap_or_none, run_child, usage};

/// Runs `run` as the main function of a program. Prints its error if there is one, and returns the
/// exit code.
///
/// The allocator is configured to return freed memory to the operating system, because a store
/// limits its own memory use.
#[must_use]
pub fn program(run: impl FnOnce() -> Result<CommandExit>) -> ExitCode {
    alluvium_device::heap::give_freed_memory_back();
    crate::terminal::log::begin();
    run().unwrap_or_else(|error| exit::report(&error)).into()
}
