//! The protocols besides the commands of Redis: the codec of Redis' requests and replies,
//! memcached, and datagrams.
//!
//! *Knows*: the bytes of requests and replies; the commands of memcached; ports and datagrams of a
//! cache.
//!
//! *Does not know*: the commands of Redis (`redis/`), how a socket is read and written (`net/`).
//!
//! *Read in this order*: `resp/` (the codec of Redis' protocol), `memcached/` (a whole protocol,
//! from lines to items), `datagram/` (a cache over UDP).

pub mod datagram;
pub mod memcached;
pub mod resp;
