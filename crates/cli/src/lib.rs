//! The one binary, `alluvium`: one verb per file.
//!
//! *Knows*: what a person or a script types, how it is answered, how long jobs are shown and
//! stopped, formats of import and export.
//!
//! *Does not know*: how a store works. Everything goes through the crate `alluvium`, which any
//! program can use as well.
//!
//! *Read in this order*: `arguments.rs` (the verbs), `exit.rs` (what a script learns), `context.rs`
//! (how a store is opened), `store.rs` (what a verb works on, whichever process has it open),
//! `typed.rs` (keys of Redis clients), `remote.rs` (figures of a server elsewhere), `users.rs` (the
//! file of a server's users), `panics.rs` (what a server says of one), `private.rs` (files that
//! others may not read), `screen.rs` and `bytes.rs` (what is printed), `confirm.rs` (what is
//! asked), `sorting.rs` (threads that sort), `kit.rs` (exports for other programs), then
//! `verbs/`, a file for each; `formats/` and `import/` for what comes and goes in bulk.
//!
//! Invariants:
//!
//! - **C1** What is printed as data can be read again byte for byte, unless a person looks at it on
//!   a terminal.
//! - **C2** Every error says what to do, and every kind of failure has its own exit code.
//! - **C3** A reader of standard output may stop at any time; that is no error.
//! - **C4** An import's progress is committed with the rows that it speaks of: after a kill the
//!   same command doubles nothing and loses nothing.
//! - **C7** What cannot be had again is removed only with --yes, or after a question on a terminal.
//! - **C8** A verb that only reads needs no permission to write.
//! - **C9** A verb does the same whether this process opens the store or another has it open and is
//!   asked.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod arguments;
mod bytes;
pub mod clients;
mod confirm;
mod context;
mod exit;
pub mod formats;
mod import;
pub mod kit;
mod log;
mod panics;
mod password;
mod private;
mod progress;
mod range;
mod remote;
mod screen;
mod sizes;
mod sorting;
mod stop;
mod store;
mod tier;
mod typed;
mod users;
mod verbs;

pub use exit::Exit;

use clap::Parser;
use std::process::ExitCode;

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    kit::program(|| verbs::run(arguments::Arguments::parse()))
}
