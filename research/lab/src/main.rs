//! The program `alluvium-lab`: the experiments of the research that Alluvium builds on.
//!
//! It lists them, runs them and shows published figures and ours side by side. What is measured and
//! how is in the library; `verbs/` has a file for each thing that the program does. Invoked as
//! `alluvium-lab bench child` it is the child in which the runner measures an engine.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod verbs;

use alluvium_cli::kit;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    kit::program(|| verbs::Arguments::parse().run())
}
