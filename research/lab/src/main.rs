//! The program `alluvium-lab`: the experiments of the research that Alluvium builds on.
//!
//! It lists them, runs them and compares published figures with ours. The library defines the
//! measurements; `verbs/` has a file for each subcommand. The runner invokes `alluvium-lab bench
//! child` to measure an engine in a separate process.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod verbs;

use alluvium_cli::kit;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    kit::program(|| verbs::LabArguments::parse().run())
}
