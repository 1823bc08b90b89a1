//! The binary `alluvium`: one file per verb.
//!
//! *Knows*: the command line, the form of answers, the display and interruption of long jobs,
//! formats of import and export.
//!
//! *Does not know*: how a store works. All access goes through the crate `alluvium`, which any
//! program can use as well.
//!
//! *Read in this order*: `arguments.rs` (the verbs), `context.rs` (opening a store), `store/` (the
//! store of a verb, whichever process has it open), `terminal/` (output, confirmation, exit codes),
//! `values/` (bytes, sizes, ranges, tiers), `jobs/` (progress and interruption of long jobs,
//! threads that sort), `remote/` (figures of a remote server), `kit.rs` (exports for other
//! programs), then `verbs/`, a file for each; `formats/` and `import/` for bulk data.
//!
//! Invariants:
//!
//! - **C1** Printed data can be read back byte for byte, unless it is printed to a terminal.
//! - **C2** Every error states a remedy, and every kind of failure has its own exit code.
//! - **C3** A reader of standard output may stop at any time; that is not an error.
//! - **C4** The progress of an import is committed together with its rows: after a kill the same
//!   command neither duplicates nor loses rows.
//! - **C7** Irreversible deletions need --yes, or a confirmation on a terminal.
//! - **C8** A verb that only reads needs no permission to write.
//! - **C9** A verb behaves in the same way whether this process opens the store or asks another
//!   process that has it open.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod arguments;
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

pub use terminal::exit::Exit;
pub use verbs::serve::clients;

use anyhow::Result;
use arguments::{Arguments, Verb};
use clap::{CommandFactory, Parser};
use context::Context;
use std::process::ExitCode;

/// Executes the command line.
#[must_use]
pub fn main() -> ExitCode {
    kit::program(|| run(Arguments::parse()))
}

/// Executes a command line.
fn run(arguments: Arguments) -> Result<Exit> {
    let context = Context::new(&arguments);
    match arguments.verb {
        Verb::Serve(verb) => verb.run(&context),
        Verb::Get(verb) => verb.run(&context),
        Verb::Put(verb) => verb.run(&context),
        Verb::Delete(verb) => verb.run(&context),
        Verb::Scan(verb) => verb.run(&context),
        Verb::Keyspaces(verb) => verb.run(&context),
        Verb::Tiers(verb) => verb.run(&context),
        Verb::Import(verb) => verb.run(&context),
        Verb::Export(verb) => verb.run(&context),
        Verb::Transaction(verb) => verb.run(&context),
        Verb::Transactions(verb) => verb.run(&context),
        Verb::Stats(verb) => verb.run(&context),
        Verb::Probe(verb) => verb.run(&context),
        Verb::Model(verb) => verb.run(&context),
        Verb::Advise(verb) => verb.run(&context),
        Verb::Bench(verb) => verb.run(&context),
        Verb::Inspect(verb) => verb.run(&context),
        Verb::Check(verb) => verb.run(&context),
        Verb::Repair(verb) => verb.run(&context),
        Verb::Backup(verb) => verb.run(&context),
        Verb::Restore(verb) => verb.run(&context),
        Verb::Compact(verb) => verb.run(&context),
        Verb::Sort(verb) => verb.run(&context),
        Verb::Index(verb) => verb.run(&context),
        Verb::Completions(verb) => verb.run(Arguments::command()),
        Verb::Man(verb) => verb.run(Arguments::command()),
    }
}
