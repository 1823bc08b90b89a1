//! Exports for other programs of this project: output, errors and signals of `alluvium`, and the
//! processes in which `alluvium bench` measures engines.

use crate::terminal::exit;
use anyhow::Result;
use std::process::ExitCode;

pub use crate::jobs::stop::listen;
pub use crate::terminal::exit::{CommandExit, failure};
pub use crate::terminal::screen::{ScreenOutput, note};
pub use crate::values::sizes::{ByteSize, parse};
pub use crate::verbs::bench::{ScreenRunner, cap_or_none, run_child, usage};

/// Runs a program, prints its error, and returns its exit code.
///
/// Configures the allocator to return freed memory to the operating system, because a store
/// accounts for its memory.
#[must_use]
pub fn program(run: impl FnOnce() -> Result<CommandExit>) -> ExitCode {
    alluvium_device::heap::give_freed_memory_back();
    crate::terminal::log::begin();
    run().unwrap_or_else(|error| exit::report(&error)).into()
}
