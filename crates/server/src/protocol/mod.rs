//! The protocols besides the commands of Redis: the codec of Redis' requests and replies,
//! memcached, and datagrams.
//!
//! *Scope*: the bytes of requests and replies; the commands of memcached; ports and datagrams of a
//! cache.
//!
//! *Must not depend on*: the commands of Redis (`redis/`), how a socket is read and written
//! (`net/`).

pub mod datagram;
pub mod memcached;
pub mod resp;
