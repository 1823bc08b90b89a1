//! The commands of Redis.
//!
//! *Knows*: the commands, their arguments, their reads and writes, their replies.
//!
//! *Does not know*: sockets, the bytes of requests, the encoding of types in keys.
//!
//! *Read in this order*: `table.rs` (all commands), `names.rs`, `texts.rs` (access of commands to
//! strings), `session.rs` (one connection: from requests to batches), `batch.rs` (locks, one read,
//! one commit), then `pages.rs` (long replies), then a file for each family: `strings.rs`,
//! `keys.rs`, `expiry.rs`, `walks.rs`, `hashes.rs`, `sets.rs`, `lists/`, `sorted/`, `ordered.rs`
//! (extensions to Redis); `catalog.rs`, `classes.rs` and `permission.rs` (permissions), `acl.rs`;
//! `connection.rs`, `transactions.rs`, `interactive.rs` (BEGIN and COMMIT) and `asked.rs`
//! (permissions checked again at COMMIT), `admin.rs`, `saving.rs` and `backups.rs`, `clients.rs` and
//! `pause.rs`, `info/`,
//! `watching.rs` (MONITOR); `direct.rs` (commands without a connection); `cached/` (a connection to
//! a cache).
//!
//! Invariants:
//!
//! - **S11** A command that fails has written nothing: it validates all its arguments first.

mod acl;
mod admin;
mod args;
mod asked;
pub(crate) mod backups;
mod batch;
mod bitfield;
mod bits;
pub(crate) mod cached;
pub(crate) mod catalog;
pub(crate) mod classes;
mod clients;
mod combine;
mod connection;
mod describe;
mod direct;
mod draw;
mod elements;
mod expiry;
mod hashes;
mod info;
mod interactive;
mod keys;
mod latency;
mod limits;
mod lists;
mod memory;
mod names;
mod numbered;
mod ordered;
mod pages;
mod paging;
pub(crate) mod pause;
mod permission;
mod saving;
mod session;
mod sets;
mod small;
mod sort;
mod sorted;
mod strings;
mod subcommands;
mod table;
mod texts;
mod transactions;
mod walks;
mod watching;

pub(crate) use cached::CachedSession;
pub(crate) use clients::line;
pub(crate) use direct::execute;
pub(crate) use session::Session;
pub(crate) use table::counted_names;
pub(crate) use walks::score_text;
