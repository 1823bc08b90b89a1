//! A server for the Redis and memcached protocols that stores its data durably in `alluvium`.
//!
//! *Scope*: sockets and threads, both protocols, the semantics of their commands, and the encoding
//! of data types as ordered keys.
//!
//! *Must not depend on*: how the crate `alluvium` stores keys and values; that is left to the
//! crate. Files other than those of backups, command lines, signals.
//!
//! Each folder's header lists the folder's invariants. The invariants of the whole crate are:
//!
//! - **S9** A connection receives exactly one reply per request, in request order, even if several
//!   requests are executed as one batch.
//! - **S10** No bytes received from a socket can make the server panic or use more memory than its
//!   limits allow.

mod access;
mod cache;
pub mod control;
mod error;
mod net;
mod observe;
mod options;
mod protocol;
mod redis;
mod server;
mod shared;
mod store;
mod web;

pub use access::{UserFile, WakeupClock};
pub use cache::{CacheEvictionPolicy, CacheMemory};
pub use error::{Error, Result};
pub use observe::log_level::LogLevel;
pub use options::{Exposure, KeyLayout, ServerLimits, ServerOptions, TlsOptions};
pub use protocol::datagram::{DatagramAnswer, DatagramClient, DatagramOptions, DatagramRequest, PortFigures};
pub use protocol::datagram::{RingClient, RingOptions};
pub use protocol::{datagram, memcached, resp};
pub use server::{CacheServer, Server};
