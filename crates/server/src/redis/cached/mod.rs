//! The Redis commands of a cache: strings, expiry, the connection.
//!
//! *Scope*: the supported commands, their locks, the batched lookup of GETs.
//!
//! *Must not depend on*: sockets; the layout of an item in memory (`crate::cache`).

mod commands;
mod connection;
mod info;
mod server;
mod session;
mod string_store;

pub(crate) use session::CachedSession;
