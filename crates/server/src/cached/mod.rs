//! A server that keeps what it is given in memory alone: a cache, bounded by bytes.
//!
//! *Knows*: what all its connections share, what an item is in memory, how the server starts and
//! ends.
//!
//! *Does not know*: commands (`redis/cached/`, `memcached/cached/`), the disk.
//!
//! *Read in this order*: `content.rs` (items and their locks), `item.rs` (what stands before a
//! value), `server.rs` ([`CacheServer`]).
//!
//! Both protocols see the same items. A table of `alluvium::cache` is shared by all threads: a
//! thread that has received a request executes it (CRCW), and asks no other.
//!
//! Invariants:
//!
//! - **S25** Who changes an item holds the lock of its key from the first read that the change
//!   depends on until it is written. Readers take no lock.
//! - **S26** A key has the last value that it was set to, or none: because it was deleted, has
//!   expired, or was evicted.

mod content;
mod item;
mod server;

pub(crate) use content::Content;
pub use content::{CacheMemory, Policy};
pub(crate) use item::Head;
pub use server::CacheServer;

use crate::shared::Common;
use std::sync::Arc;

/// What connections to a cache share.
pub(crate) struct Cached {
    pub(crate) common: Arc<Common>,
    pub(crate) content: Content,
}
