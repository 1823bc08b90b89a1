//! The Redis commands of the server.
//!
//! *Scope*: the commands, with their arguments, their reads and writes, and their replies.
//!
//! *Must not depend on*: sockets, the bytes of requests, the encoding of types in keys.
//!
//! Invariants:
//!
//! - **S11** A command that fails has written nothing. Commands therefore validate all arguments
//!   before they write.

mod args;
pub(crate) mod backups;
mod batch;
pub(crate) mod blocking;
pub(crate) mod cached;
pub(crate) mod catalog;
pub(crate) mod classes;
mod commands;
pub(crate) mod commit_hub;
mod elements;
mod events;
mod local_execution;
mod names;
mod pages;
mod paging;
pub(crate) mod pause;
mod permission;
mod prefetch;
pub(crate) mod pubsub;
pub(crate) mod scripting;
mod session;
mod string_store;
mod subcommands;
mod table;
mod write_access_log;

pub(crate) use cached::CachedSession;
pub(crate) use commands::clients::line;
pub(crate) use commands::foreign_settings::ForeignSettings;
pub(crate) use commands::scan_commands::score_text;
pub(crate) use local_execution::execute;
pub(crate) use session::RedisSession;
pub(crate) use table::counted_names;
