//! The Redis commands of a cache: commands on strings, expiry times and the connection.
//!
//! *Scope*: the set of supported commands, the locks they need, and the batched lookup of GETs.
//!
//! *Must not depend on*: sockets; the layout of an item in memory (`crate::cache`).

mod commands;
mod connection;
mod info;
mod server;
mod session;
mod string_store;

pub(crate) use session::CachedSession;
