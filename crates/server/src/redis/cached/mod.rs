//! The commands of Redis that a cache has: strings, their expiry, the connection.
//!
//! *Knows*: which commands there are, what each locks, how requests that get are looked up
//! together.
//!
//! *Does not know*: sockets; how an item lies in memory (`crate::cached`).
//!
//! *Read in this order*: `commands.rs`, `session.rs` (one connection), `texts.rs` (what commands
//! work on), `connection.rs`, `server.rs`, `info.rs`.

mod commands;
mod connection;
mod info;
mod server;
mod session;
mod texts;

pub(crate) use session::CachedSession;
