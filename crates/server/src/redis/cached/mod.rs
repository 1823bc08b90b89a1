//! The Redis commands of a cache: strings, expiry, the connection.
//!
//! *Knows*: the supported commands, their locks, the batched lookup of GETs.
//!
//! *Does not know*: sockets; the layout of an item in memory (`crate::cache`).
//!
//! *Read in this order*: `commands.rs`, `session.rs` (one connection), `string_store.rs` (strings
//! in the cache), `connection.rs`, `server.rs`, `info.rs`.

mod commands;
mod connection;
mod info;
mod server;
mod session;
mod string_store;

pub(crate) use session::CachedSession;
