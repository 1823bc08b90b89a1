//! A durable server over the crate `alluvium` that speaks the protocols of Redis and memcached.
//!
//! *Knows*: sockets and threads, both protocols, what their commands mean, how their types lie in
//! ordered keys.
//!
//! *Does not know*: how keys and values are kept; that is the crate `alluvium`'s. Files but those
//! of backups, command lines, signals.
//!
//! *Read in this order*: `server.rs` ([`Server`]) and `options.rs`; `access/` (who may do what);
//! then bytes, requests, commands, keys, from outside in: `net/` (sockets and threads), `resp/`
//! (the codec), `redis/` (the commands) with `redis/session.rs` first, `store/` (what they read and
//! write through), `model/` (how types lie in keys); `memcached/`; `cached/` (a server without a
//! store); `datagram/`; `web/` (a page and answers for
//! programs, which only read); `control/` (management while it runs);
//! `forecast.rs` (what the store should cost), `paged.rs` (how pages are used).
//!
//! Invariants of each folder are in its header; those of all:
//!
//! - **S9** Replies of a connection come in the order of its requests, one for each, whatever is
//!   executed together.
//! - **S10** No bytes from a socket make the server panic, or take more memory than its limits say.

mod access;
mod backups;
mod cached;
pub mod control;
mod cursors;
pub mod datagram;
mod error;
mod forecast;
mod glob;
mod health;
mod latency;
mod log_level;
pub mod memcached;
mod model;
mod monitor;
mod net;
mod options;
mod paged;
mod pause;
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
mod waits;
mod web;

pub use access::{Clock, UserFile};
pub use cached::{CacheMemory, CacheServer, Policy};
pub use datagram::{DatagramAnswer, DatagramClient, DatagramOptions, DatagramRequest, PortFigures};
pub use datagram::{RingClient, RingOptions};
pub use error::{Error, Result};
pub use log_level::LogLevel;
pub use options::{Exposure, KeyLayout, Limits, ServerOptions, Tls};
pub use server::Server;
