//! The commands of Redis.
//!
//! *Knows*: the commands, their arguments, their reads and writes, their replies.
//!
//! *Does not know*: sockets, the bytes of requests, the encoding of types in keys.
//!
//! *Read in this order*: `table.rs` (all commands), `names.rs`, `texts.rs` (access of commands to
//! strings), `session.rs` (one connection: from requests to batches), `batch.rs` (locks, one read,
//! one commit), then `pages.rs` (long replies), then `commands/`, a file for each family;
//! `catalog.rs`, `classes.rs` and `permission.rs` (permissions), `asked.rs` (permissions checked
//! again at COMMIT); `backups.rs` and `pause.rs` (state of all connections); `direct.rs` (commands
//! without a connection); `cached/` (a connection to a cache).
//!
//! Invariants:
//!
//! - **S11** A command that fails has written nothing: it validates all its arguments first.

mod args;
mod asked;
pub(crate) mod backups;
mod batch;
pub(crate) mod cached;
pub(crate) mod catalog;
pub(crate) mod classes;
mod commands;
mod direct;
mod elements;
mod names;
mod pages;
mod paging;
pub(crate) mod pause;
mod permission;
mod session;
mod subcommands;
mod table;
mod texts;

pub(crate) use cached::CachedSession;
pub(crate) use commands::clients::line;
pub(crate) use commands::walks::score_text;
pub(crate) use direct::execute;
pub(crate) use session::Session;
pub(crate) use table::counted_names;
