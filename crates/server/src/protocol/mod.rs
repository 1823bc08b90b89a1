//! The server's protocols without the Redis commands: the encoding of Redis requests and replies,
//! the memcached protocol, and the datagram protocol.
//!
//! *Scope*: the encoding of requests and replies; the commands of memcached; the datagram ports of
//! a cache.
//!
//! *Must not depend on*: the commands of Redis (`redis/`), how a socket is read and written
//! (`net/`).

pub mod datagram;
pub mod memcached;
pub mod resp;
