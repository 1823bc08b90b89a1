//! The commands of Redis.
//!
//! *Knows*: the commands, their arguments, their reads and writes, their replies.
//!
//! *Does not know*: sockets, the bytes of requests, the encoding of types in keys.
//!
//! *Read in this order*: `table.rs` (all commands), `names.rs`, `string_store.rs` (access of
//! commands to strings), `session.rs` (one connection: from requests to batches), `batch.rs`
//! (locks, one read, one commit), then `pages.rs` (long replies), then `commands/`, a file for each
//! family; `catalog.rs`, `classes.rs` and `permission.rs` (permissions), `write_access_log.rs`
//! (permissions checked again at COMMIT); `backups.rs` and `pause.rs` (state of all connections);
//! `local_execution.rs` (commands without a connection); `cached/` (a connection to a cache).
//!
//! Invariants:
//!
//! - **S11** A command that fails has written nothing: it validates all its arguments first.

mod args;
pub(crate) mod backups;
mod batch;
pub(crate) mod cached;
pub(crate) mod catalog;
pub(crate) mod classes;
mod commands;
mod elements;
mod local_execution;
mod names;
mod pages;
mod paging;
pub(crate) mod pause;
mod permission;
mod session;
mod string_store;
mod subcommands;
mod table;
mod write_access_log;

pub(crate) use cached::CachedSession;
pub(crate) use commands::clients::line;
pub(crate) use commands::scan_commands::score_text;
pub(crate) use local_execution::execute;
pub(crate) use session::RedisSession;
pub(crate) use table::counted_names;
