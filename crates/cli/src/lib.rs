//! The binary `alluvium`. Each verb of the command line has its own file.
//!
//! *Scope*: the command line, the form of the output, the display and interruption of long-running
//! jobs, and the formats of import and export.
//!
//! *Must not depend on*: how a store works. All access goes through the crate `alluvium`, which any
//! program can use as well.
//!
//! Invariants:
//!
//! - **C1** Data that the program prints can be read back byte for byte, unless it is printed to a
//!   terminal.
//! - **C2** Every error message states a remedy, and every kind of failure has its own exit code.
//! - **C3** It is not an error if the reader of standard output stops reading early.
//! - **C4** The progress of an import is committed together with the imported rows. If an import is
//!   killed and the same command is repeated, no rows are duplicated or lost.
//! - **C7** Irreversible deletions require the option --yes or a confirmation on the terminal.
//! - **C8** A verb that only reads does not need permission to write to the store.
//! - **C9** A verb behaves in the same way whether it opens the store itself or sends requests to
//!   another process that has the store open.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod arguments;
mod config;
mod context;
pub mod formats;
mod import;
mod jobs;
pub mod kit;
mod remote;
mod store;
mod terminal;
mod values;
mod verbs;

pub use terminal::exit::CommandExit;
pub use verbs::serve::clients;

use anyhow::Result;
use arguments::{CliArguments, CliCommand};
use clap::{CommandFactory, Parser};
use context::CommandContext;
use std::process::ExitCode;

/// Executes the command line of this process, and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    kit::program(|| run(parse()?))
}

/// Parses the command line, which a configuration file may complete. Usage errors end the process.
fn parse() -> Result<CliArguments> {
    let (words, file) = config::completed(std::env::args_os().collect())?;
    let parsed = CliArguments::try_parse_from(words);
    parsed.map_err(|error| match &file {
        Some(file) if error.use_stderr() => verbs::config::in_file(Some(file), &error),
        _ => error.exit(),
    })
}

fn run(arguments: CliArguments) -> Result<CommandExit> {
    let context = CommandContext::new(&arguments);
    match arguments.verb {
        CliCommand::Serve(verb) => verb.run(&context),
        CliCommand::Config(verb) => verb.run(&context),
        CliCommand::Get(verb) => verb.run(&context),
        CliCommand::Put(verb) => verb.run(&context),
        CliCommand::Delete(verb) => verb.run(&context),
        CliCommand::Scan(verb) => verb.run(&context),
        CliCommand::Keyspaces(verb) => verb.run(&context),
        CliCommand::Tiers(verb) => verb.run(&context),
        CliCommand::Import(verb) => verb.run(&context),
        CliCommand::Export(verb) => verb.run(&context),
        CliCommand::Transaction(verb) => verb.run(&context),
        CliCommand::Transactions(verb) => verb.run(&context),
        CliCommand::Tx(verb) => verb.run(&context),
        CliCommand::Mount(verb) => verb.run(&context),
        CliCommand::Files(verb) => verb.run(&context),
        CliCommand::Stats(verb) => verb.run(&context),
        CliCommand::Probe(verb) => verb.run(&context),
        CliCommand::Model(verb) => verb.run(&context),
        CliCommand::Advise(verb) => verb.run(&context),
        CliCommand::Aging(verb) => verb.run(&context),
        CliCommand::Bench(verb) => verb.run(&context),
        CliCommand::Inspect(verb) => verb.run(&context),
        CliCommand::Check(verb) => verb.run(&context),
        CliCommand::Repair(verb) => verb.run(&context),
        CliCommand::Backup(verb) => verb.run(&context),
        CliCommand::Restore(verb) => verb.run(&context),
        CliCommand::Compact(verb) => verb.run(&context),
        CliCommand::Sort(verb) => verb.run(&context),
        CliCommand::Index(verb) => verb.run(&context),
        CliCommand::Completions(verb) => verb.run(CliArguments::command()),
        CliCommand::Man(verb) => verb.run(CliArguments::command()),
    }
}
