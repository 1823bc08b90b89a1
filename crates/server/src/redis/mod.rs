//! The commands of Redis.
//!
//! *Knows*: which commands there are, what they ask of their arguments, what they read and write, what they reply.
//!
//! *Does not know*: sockets, the bytes of requests, how types lie in keys.
//!
//! *Read in this order*: `table.rs` (all commands), `session.rs` (one connection: from requests to batches), `batch.rs` (locks, one read, one commit), then
//! a file for each family: `strings.rs`, `keys.rs`, `expiry.rs`, `walks.rs`, `hashes.rs`, `sets.rs`, `lists.rs`, `sorted/`, `ordered.rs` (what Redis
//! has not); `connection.rs`, `transactions.rs`, `admin.rs`, `info.rs`.
//!
//! Invariants:
//!
//! - **S11** A command that fails has written nothing: it looks at all its arguments first.

mod admin;
mod args;
mod batch;
mod bits;
mod clients;
mod connection;
mod describe;
mod expiry;
mod hashes;
mod info;
mod keys;
mod latency;
mod lists;
mod memory;
mod numbered;
mod ordered;
mod session;
mod sets;
mod small;
mod sorted;
mod strings;
mod subcommands;
mod table;
mod transactions;
mod walks;
mod watching;

pub(crate) use session::Session;
pub(crate) use table::counted_names;
