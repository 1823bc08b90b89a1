//! The verbs: one file for each, with its options and its implementation.
//!
//! *Knows*: the behaviour and the output of each verb.
//!
//! *Does not know*: formats of import and export, continuation of an import after a kill.
//!
//! *Read in this order*: `get.rs`, the simplest; then any.

pub(crate) mod advise;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod delete;
pub(crate) mod export;
mod forecast;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod inspect;
pub(crate) mod keyspaces;
pub(crate) mod man;
pub(crate) mod model;
pub(crate) mod probe;
pub(crate) mod put;
pub(crate) mod repair;
pub(crate) mod scan;
pub(crate) mod serve;
pub(crate) mod sort;
pub(crate) mod stats;
pub(crate) mod tiers;
pub(crate) mod transaction;
pub(crate) mod transactions;
mod watch;

use crate::Exit;
use crate::arguments::{Arguments, Verb};
use crate::context::Context;
use anyhow::Result;

/// Executes a command line.
pub(crate) fn run(arguments: Arguments) -> Result<Exit> {
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
        Verb::Completions(verb) => verb.run(),
        Verb::Man(verb) => verb.run(),
    }
}
