//! A durable server over the crate `alluvium` that speaks the protocols of Redis and memcached.
//!
//! *Knows*: sockets and threads, both protocols, the semantics of their commands, the encoding of
//! their data types in ordered keys.
//!
//! *Does not know*: how the crate `alluvium` stores keys and values; that is left to the crate.
//! Files other than those of backups, command lines, signals.
//!
//! *Read in this order*: `server/` ([`Server`], [`CacheServer`]) and `options.rs`; `access/` (authentication and
//! permissions);
//! then from the outside in, from bytes to keys: `net/` (sockets and threads), `resp/` (the codec),
//! `redis/` (the commands), `redis/session.rs` first, `store/` (the access of commands to the
//! store), `store/model/` (the encoding of data types in keys); `memcached/`; `cache/` (a cache
//! without a store); `datagram/`; `web/` (a read-only page and its JSON answers); `control/` (management of
//! a running server); `forecast.rs` (predicted costs of the store), `paged.rs` (use of pages).
//!
//! The header of each folder lists its invariants. The invariants of the whole crate are:
//!
//! - **S9** A connection receives exactly one reply for each request, in the order of the requests,
//!   even if requests are executed as one batch.
//! - **S10** No bytes from a socket make the server panic or use more memory than its limits allow.

mod access;
mod cache;
pub mod control;
pub mod datagram;
mod error;
mod forecast;
mod health;
mod item_counts;
mod latency;
mod log_level;
pub mod memcached;
mod monitor;
mod net;
mod options;
mod paged;
mod process;
mod redis;
pub mod resp;
mod sampler;
mod server;
mod shared;
mod slowlog;
mod store;
mod tally;
mod tiers;
mod web;

pub use access::{Clock, UserFile};
pub use cache::{CacheMemory, Policy};
pub use datagram::{DatagramAnswer, DatagramClient, DatagramOptions, DatagramRequest, PortFigures};
pub use datagram::{RingClient, RingOptions};
pub use error::{Error, Result};
pub use log_level::LogLevel;
pub use options::{Exposure, KeyLayout, Limits, ServerOptions, Tls};
pub use server::{CacheServer, Server};
